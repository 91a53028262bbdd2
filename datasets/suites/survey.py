"""Suites: counts what a suite holds and what it lacks, for `data check`. Decides nothing."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from suites.errors import shown
from suites.lines import stop
from suites.manifest import Manifest, count, read_manifest
from suites.official import QUESTION_FILES, TASK_FILE, DatabaseFiles
from suites.official_files import knowledge_rows, question_rows, task_rows
from suites.official_rows import Loose, absent_fields, unknown_fields
from suites.suite import Part, Suite, how_to_get

PUBLIC_COUNTS = (
    "BIRD-Interact Lite: 18 databases with 175 tables, 270 or 300 tasks (its texts differ). Full: 22 databases with "
    "244 tables, 600 tasks (410 Query, 190 Management). UserSim-Guard: 700 questions a kind."
)
"""As published (github.com/bird-bench/BIRD-Interact); nothing here depends on them."""

SHOWN_IDS = 10
_TABLE = re.compile(r"\bCREATE\s+TABLE\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a suite holds.

    Attributes:
        counts: databases, tasks, questions per kind, tables that schemas name, ambiguities, knowledge entries, gold.
        without_task: the first instance ids of questions that have no task, with a hint where a similar id has one.
        unknown_fields, absent_fields: by `file: field`, in how many places.
        missing: by part, for how many of the tasks that are asked about it is missing, and how it is obtained.
    """

    manifest: Manifest
    counts: Mapping[str, int]
    without_task: tuple[str, ...]
    unknown_fields: Mapping[str, int]
    absent_fields: Mapping[str, int]
    missing: Mapping[Part, tuple[int, str]]

    def to_json(self) -> dict[str, Any]:
        """JSON-able; holds no text of questions or tasks."""
        return {
            **self.counts,
            "without_task": list(self.without_task),
            "unknown_fields": dict(self.unknown_fields),
            "absent_fields": dict(self.absent_fields),
            "dropped": dict(self.manifest.dropped),
            "sources": {
                part: {"origin": source.origin, "revision": source.revision, "files": dict(source.files)}
                for part, source in self.manifest.sources.items()
            },
            "missing": {part.value: {"tasks": tasks, "says": says} for part, (tasks, says) in self.missing.items()},
            "public_counts": PUBLIC_COUNTS if self.manifest.official else None,
        }


def survey(suite: Suite) -> Survey:
    """Count; unknown and absent fields are those of an official suite's files (any other suite has none)."""
    unknown, absent = Counter[str](), Counter[str]()
    without = set(suite.lacking[Part.TASKS])
    for name, row in _rows(suite) if suite.official else ():
        unknown.update(shown(f"{name}: {field}") for field in unknown_fields(row))
        absent.update(f"{name}: {field}" for field in absent_fields(row))
    counts = {
        **count(suite.tasks, suite.questions),
        "tables": sum(len(_TABLE.findall(database.schema)) for database in suite.databases.values()),
        "ambiguities": sum(len(task.oracle.ambiguities) for task in suite.tasks),
        "knowledge_entries": sum(len(database.knowledge) for database in suite.databases.values()),
        "tasks_with_gold": sum(bool(task.oracle.first.sol_sql) for task in suite.tasks),
        "questions_without_task": sum(q.key.instance_id in without for q in suite.questions),
    }
    return Survey(
        manifest=read_manifest(suite.root),
        counts=counts,
        without_task=tuple(_hinted(i, suite) for i in suite.lacking[Part.TASKS][:SHOWN_IDS]),
        unknown_fields=dict(unknown.most_common()),
        absent_fields=dict(absent.most_common()),
        missing={part: (len(suite.lacking[part]), how_to_get(part)) for part in Part if suite.lacking[part]},
    )


def _rows(suite: Suite) -> list[tuple[str, Loose]]:
    found: list[tuple[str, Loose]] = []
    if (suite.root / TASK_FILE).exists():
        found += [(TASK_FILE, row) for _, row in task_rows(suite.root / TASK_FILE, stop)]
    for kind, name in QUESTION_FILES.items():
        found += [(name, row) for _, row in question_rows(suite.root / name, kind, {}, stop)]
    for name in suite.databases:
        path = DatabaseFiles(suite.root / name, name).knowledge
        if path.exists():
            found += [("{db}_kb.jsonl", row) for _, row in knowledge_rows(path, stop)]
    return found


def _hinted(instance_id: str, suite: Suite) -> str:
    """An id without a task. `alien_M_1` and `alien_1` are two tasks: public programs join them, this one says so."""
    plain = instance_id.replace("_M_", "_")
    similar = [task.instance_id for task in suite.tasks if task.instance_id.replace("_M_", "_") == plain]
    return f"{instance_id} (not joined to {similar[0]}: another task)" if similar else instance_id
