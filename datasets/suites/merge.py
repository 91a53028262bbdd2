"""Suites: merges gold into public tasks by exact instance id. Never shows gold, never replaces a value in silence."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suites.errors import SuiteError
from suites.lines import Faults, Line, rows
from suites.official_files import Placed, task_rows
from suites.official_rows import Id, Loose, Numbers, OfficialTaskRow, Texts
from suites.private import write_new

FIELDS = ("sol_sql", "external_knowledge", "test_cases")
"""What the gold file brings, for a task and for its follow-up."""


class GoldFollowUpRow(Loose):
    sol_sql: Texts = None
    external_knowledge: Numbers = None
    test_cases: Texts = None


class GoldRow(GoldFollowUpRow):
    instance_id: Id
    follow_up: GoldFollowUpRow | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """Public tasks with gold.

    Attributes:
        lines: the lines to be written, in the order of the public file; those that got nothing are verbatim.
        matched: instance ids that have a gold row.
        without_gold: instance ids of public tasks without a gold row.
        without_task: instance ids of gold rows without a public task.
    """

    lines: tuple[str, ...]
    matched: tuple[str, ...]
    without_gold: tuple[str, ...]
    without_task: tuple[str, ...]


def merge_files(public: Path, gold: Path, out: Path, faults: Faults) -> Merged:
    """Write the public tasks with their gold to `out` (new, mode 0600).

    What does not fit goes to `faults`, and the rest is merged all the same: public lines that cannot be read are left
    out; a gold value that differs from a public one is not taken.

    Raises:
        SuiteError: `out` is there already, or one of the inputs; or a file as a whole cannot be read.
    """
    for source in (public, gold):
        if source.exists() and out.exists() and os.path.samefile(source, out):
            raise SuiteError(out, f"is the same file as {source}; expected a new file, so that nothing is lost")
    if os.path.lexists(out):
        raise SuiteError(out, "exists already; expected a new file")
    merged = merge(task_rows(public, faults), read_gold(gold, faults), gold, faults)
    write_new(out, merged.lines)
    return merged


def read_gold(path: Path, faults: Faults) -> dict[str, Line]:
    """Gold lines by instance id. An id that stands twice with different content is not used at all.

    Raises:
        SuiteError: the file as a whole cannot be read.
    """
    found: dict[str, Line] = {}
    torn: set[str] = set()
    for line, row in rows(path, GoldRow, faults):
        first = found.setdefault(row.instance_id, line)
        if first is line:
            continue
        same = first.row == line.row
        torn |= set() if same else {row.instance_id}
        what = "with the same content" if same else "with other content; neither is used"
        problem = f"stands already at line {first.number}, {what}"
        faults(SuiteError(path, problem, line=line.number, field="instance_id"))
    return {instance_id: line for instance_id, line in found.items() if instance_id not in torn}


def merge(tasks: list[Placed[OfficialTaskRow]], gold: Mapping[str, Line], gold_file: Path, faults: Faults) -> Merged:
    """Merge what was read."""

    def merged() -> Iterator[str]:
        for line, row in tasks:
            found = gold.get(row.instance_id)
            yield line.text if found is None else _with_gold(line, found, gold_file, faults)

    ids = [row.instance_id for _, row in tasks]
    return Merged(
        lines=tuple(merged()),
        matched=tuple(i for i in ids if i in gold),
        without_gold=tuple(i for i in ids if i not in gold),
        without_task=tuple(sorted(gold.keys() - set(ids))),
    )


def _with_gold(line: Line, gold: Line, gold_file: Path, faults: Faults) -> str:
    row = dict(line.row)
    differing = _fill(row, gold.row)
    second = gold.row.get("follow_up")
    if second is not None:
        row["follow_up"] = dict(row.get("follow_up") or {})
        differing += [f"follow_up.{field}" for field in _fill(row["follow_up"], second)]
    for field in differing:
        problem = "differs from what the public file holds already; the value of the public file was kept"
        faults(SuiteError(gold_file, problem, line=gold.number, field=field))
    return line.text if row == line.row else json.dumps(row, ensure_ascii=False, allow_nan=False)


def _fill(row: dict[str, Any], gold: Mapping[str, Any]) -> list[str]:
    """Fill the empty fields; the names of those that hold something else."""
    differing = []
    for field in FIELDS:
        value = gold.get(field)
        if value in (None, [], ""):
            continue
        if row.get(field) in (None, [], ""):
            row[field] = value
        elif row[field] != value:
            differing.append(field)
    return differing
