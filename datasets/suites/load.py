"""Suites: reads a suite folder into frozen types, or says which file, line and field is wrong and what was expected."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from suites import checks
from suites.errors import SuiteError
from suites.manifest import FILE, Manifest, read_manifest
from suites.official import read_official, refuse_download
from suites.questions import Kind, Question
from suites.rows import AmbQuestionRow, KnowledgeRow, LocQuestionRow, QuestionRow, TaskRow, UnaQuestionRow
from suites.suite import Suite
from suites.tasks import Brief, Database, KnowledgeEntry, Oracle, Task

__all__ = ["OPEN", "Suite", "load", "read_rows"]

OPEN = Path(__file__).parent / "data" / "open"
TASK_FILE = "bird_interact_data.jsonl"
QUESTION_FILES: dict[Kind, tuple[str, type[QuestionRow]]] = {
    Kind.AMB: ("data_labeled.jsonl", AmbQuestionRow),
    Kind.LOC: ("data_unlabeled.jsonl", LocQuestionRow),
    Kind.UNA: ("data_unanswerable.jsonl", UnaQuestionRow),
}

R = TypeVar("R", bound=BaseModel)


def load(root: Path = OPEN, *, verify_manifest: bool = True) -> Suite:
    """Read and cross-check a suite folder.

    Raises:
        SuiteError: at the first fault, with file, line and field.
    """
    if not root.is_dir():
        raise SuiteError(root, f"no such folder; expected a suite folder with {FILE}")
    if not (root / FILE).exists():
        refuse_download(root)
    manifest = read_manifest(root)
    if verify_manifest:
        manifest.verify(root)
    suite = read_official(root, manifest) if manifest.official else _read_open(root, manifest)
    if verify_manifest:
        manifest.verify_counts(root, suite.tasks, suite.questions)
    return suite


def _read_open(root: Path, manifest: Manifest) -> Suite:
    placed_tasks = list(read_rows(root / TASK_FILE, TaskRow))
    databases = {
        name: _database(root / name, name) for name in sorted({row.selected_database for _, row in placed_tasks})
    }
    tasks = tuple(_task(root / TASK_FILE, line, row, databases) for line, row in placed_tasks)
    _refuse_duplicates(root / TASK_FILE, ((line, row.instance_id) for line, row in placed_tasks), "instance_id")
    questions = tuple(question for kind in Kind for question in _questions(root, kind, tasks))
    return Suite(
        root=root,
        name=manifest.name,
        version=manifest.version,
        licence=manifest.licence,
        digest=Manifest.digest_files(root),
        databases=MappingProxyType(databases),
        tasks=tasks,
        questions=questions,
    )


def read_rows(path: Path, model: type[R]) -> Iterator[tuple[int, R]]:
    """Each line of a JSONL file as (line number from 1, row). Blank lines are refused: they hide a broken export.

    Raises:
        SuiteError: for the first line that does not fit.
    """
    for number, text in _lines(path):
        try:
            yield number, model.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or None
            raise SuiteError(path, _expected(first), line=number, field=field) from None


def _expected(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown field; remove it or mend its spelling (the format is in datasets/README.md)"
    if error["type"] == "missing":
        return "missing; expected this field (the format is in datasets/README.md)"
    return str(error["msg"])


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    # split on \n alone: str.splitlines would also break at U+2028, which may stand in a JSON text
    content = _read_text(path)
    for number, text in enumerate(content.removesuffix("\n").split("\n") if content else (), 1):
        if not text.strip():
            raise SuiteError(path, "blank line; expected one JSON object a line", line=number)
        yield number, text


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SuiteError(path, f"not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise SuiteError(path, f"cannot be read: {error.strerror}") from None


def _database(folder: Path, name: str) -> Database:
    meanings_file = folder / f"{name}_column_meaning_base.json"
    try:
        meanings = json.loads(_read_text(meanings_file))
    except json.JSONDecodeError as error:
        raise SuiteError(meanings_file, f"not JSON: {error.msg}", line=error.lineno) from None
    checks.column_meanings(meanings_file, name, meanings)
    knowledge_file = folder / f"{name}_kb.jsonl"
    placed = list(read_rows(knowledge_file, KnowledgeRow))
    knowledge = tuple(row.build() for _, row in placed)
    checks.knowledge_dag(knowledge_file, [(line, row.build()) for line, row in placed])
    second = folder / f"{name}_second_build.sql"
    return Database(
        name=name,
        build_sql=_read_text(folder / f"{name}_build.sql"),
        schema=_read_text(folder / f"{name}_schema.txt"),
        column_meanings=MappingProxyType(meanings),
        knowledge=knowledge,
        second_build_sql=_read_text(second) if second.exists() else None,
    )


def _task(path: Path, line: int, row: TaskRow, databases: Mapping[str, Database]) -> Task:
    database = databases[row.selected_database]
    checks.task_row(path, line, row, {entry.id for entry in database.knowledge})
    ambiguities = row.ambiguities()
    masked = {a.deleted_knowledge for a in ambiguities if a.deleted_knowledge is not None}
    by_mask: dict[bool, tuple[KnowledgeEntry, ...]] = {
        hidden: tuple(entry for entry in database.knowledge if (entry.id in masked) is hidden)
        for hidden in (True, False)
    }
    brief = Brief(
        instance_id=row.instance_id,
        database=database.name,
        user_query=row.amb_user_query,
        schema=database.schema,
        column_meanings=database.column_meanings,
        knowledge=by_mask[False],
    )
    oracle = Oracle(
        instance_id=row.instance_id,
        database=database.name,
        user_query=row.amb_user_query,
        first=row.sub_task(None),
        follow_up=row.follow_up.build(),
        ambiguities=ambiguities,
        schema=database.schema,
        masked_knowledge=by_mask[True],
        preprocess_sql=tuple(row.preprocess_sql),
        clean_up_sqls=tuple(row.clean_up_sqls),
    )
    return Task(brief, oracle)


def _questions(root: Path, kind: Kind, tasks: tuple[Task, ...]) -> tuple[Question, ...]:
    name, model = QUESTION_FILES[kind]
    path = root / name
    by_id = {task.instance_id: task for task in tasks}
    placed = [(line, row.build()) for line, row in read_rows(path, model)]
    for line, question in placed:
        checks.question(path, line, question, by_id)
    _refuse_duplicates(path, ((line, str(question.key)) for line, question in placed), "question_id")
    _refuse_duplicates(path, ((line, f"{q.key.instance_id}: {q.text}") for line, q in placed), "clarification_question")
    checks.points_agree(path, placed)
    return tuple(question for _, question in placed)


def _refuse_duplicates(path: Path, placed: Iterable[tuple[int, str]], field: str) -> None:
    seen: dict[str, int] = {}
    for line, value in placed:
        if value in seen:
            raise SuiteError(path, f"stands already at line {seen[value]}: {value}", line=line, field=field)
        seen[value] = line
