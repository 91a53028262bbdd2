"""Suites: an imported official suite, read into the same frozen types as every other one.

The import has left out what does not fit; so a fault that is found here means that somebody changed the folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from suites.errors import SuiteError
from suites.lines import Faults, stop
from suites.manifest import Manifest
from suites.official_files import column_meanings, knowledge, question_rows, read_text, task_rows
from suites.official_rows import OfficialTaskRow
from suites.questions import Kind, Question
from suites.suite import Part, Suite
from suites.tasks import Brief, Category, Database, Oracle, SubTask, Task

TASK_FILE = "bird_interact_data.jsonl"
QUESTION_FILES = {
    Kind.AMB: "data_labeled.jsonl",
    Kind.LOC: "data_unlabeled.jsonl",
    Kind.UNA: "data_unanswerable.jsonl",
}


@dataclass(frozen=True, slots=True)
class DatabaseFiles:
    """The descriptions of one database; each of them can be missing."""

    folder: Path
    name: str

    @property
    def schema(self) -> Path:
        return self.folder / f"{self.name}_schema.txt"

    @property
    def column_meanings(self) -> Path:
        return self.folder / f"{self.name}_column_meaning_base.json"

    @property
    def knowledge(self) -> Path:
        return self.folder / f"{self.name}_kb.jsonl"


def read_official(root: Path, manifest: Manifest) -> Suite:
    """Read an imported suite.

    Raises:
        SuiteError: at the first fault, with file, line and field.
    """
    path = root / TASK_FILE
    rows = [row for _, row in task_rows(path, stop)] if path.exists() else []
    task_databases = {row.instance_id: row.selected_database for row in rows}
    questions = tuple(
        row.build(kind)
        for kind, name in QUESTION_FILES.items()
        for _, row in question_rows(root / name, kind, task_databases, stop)
    )
    names = sorted({*task_databases.values(), *(question.database for question in questions)})
    databases = {name: read_database(DatabaseFiles(root / name, name)) for name in names}
    tasks = tuple(_task(row, databases[row.selected_database]) for row in rows)
    without = {q.key.instance_id: q.database for q in questions if q.key.instance_id not in task_databases}
    return Suite(
        root=root,
        name=manifest.name,
        version=manifest.version,
        licence=manifest.licence,
        digest=Manifest.digest_files(root),
        databases=MappingProxyType(databases),
        tasks=tasks,
        questions=questions,
        loose=tuple(_bare(instance_id, databases[name]) for instance_id, name in without.items()),
        lacking=_lacking(questions, tasks, databases),
        official=True,
    )


def read_database(files: DatabaseFiles) -> Database:
    """What is there of a database's descriptions. Entries of column meanings that do not fit are passed over."""
    no_fault: Faults = lambda fault: None  # noqa: E731 - a name for what it means
    meanings = column_meanings(files.column_meanings, files.name, no_fault) if files.column_meanings.exists() else {}
    return Database(
        name=files.name,
        build_sql=None,
        schema=read_text(files.schema) if files.schema.exists() else "",
        column_meanings=MappingProxyType(meanings),
        knowledge=knowledge(files.knowledge, stop) if files.knowledge.exists() else (),
    )


def _task(row: OfficialTaskRow, database: Database) -> Task:
    ambiguities = row.ambiguities()
    masked = {ambiguity.deleted_knowledge for ambiguity in ambiguities} - {None}
    brief = Brief(
        instance_id=row.instance_id,
        database=database.name,
        user_query=row.amb_user_query,
        schema=database.schema,
        column_meanings=database.column_meanings,
        knowledge=tuple(entry for entry in database.knowledge if entry.id not in masked),
    )
    oracle = Oracle(
        instance_id=row.instance_id,
        database=database.name,
        user_query=row.amb_user_query,
        first=row.sub_task(None),
        follow_up=row.second(),
        ambiguities=ambiguities,
        schema=database.schema,
        masked_knowledge=tuple(entry for entry in database.knowledge if entry.id in masked),
        preprocess_sql=row.preparation(),
        clean_up_sqls=row.clean_up(),
    )
    return Task(brief, oracle)


def _bare(instance_id: str, database: Database) -> Oracle:
    empty = SubTask(query="", sol_sql=(), category=Category.QUERY, difficulty_tier="")
    return Oracle(
        instance_id=instance_id,
        database=database.name,
        user_query="",
        first=empty,
        follow_up=empty,
        ambiguities=(),
        schema=database.schema,
    )


def _lacking(
    questions: tuple[Question, ...], tasks: tuple[Task, ...], databases: Mapping[str, Database]
) -> Mapping[Part, tuple[str, ...]]:
    there = {task.instance_id for task in tasks}
    solved = {task.instance_id for task in tasks if task.oracle.first.sol_sql}
    asked = {question.key.instance_id: question.database for question in questions}
    return MappingProxyType(
        {
            Part.TASKS: tuple(i for i in asked if i not in there),
            Part.GOLD: tuple(i for i in asked if i not in solved),
            Part.DATABASES: tuple(i for i, name in asked.items() if not databases[name].schema.strip()),
        }
    )


def refuse_download(root: Path) -> None:
    """Refuse a folder that looks like an official download and has no manifest.

    Raises:
        SuiteError: with the command that makes a suite of it.
    """
    if (root / TASK_FILE).exists() and not any((root / name).exists() for name in QUESTION_FILES.values()):
        raise SuiteError(root, "has tasks and no questions; an official suite is made by " + _IMPORT)
    if (root / TASK_FILE).exists() or any(root.glob("data_*label*.jsonl")) or any(root.glob("*_una.jsonl")):
        raise SuiteError(root, "looks like an official download; a suite is made of it by " + _IMPORT)


_IMPORT = "`usersim-guard data import OUT --questions FOLDER --tasks FOLDER`"
