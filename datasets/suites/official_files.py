"""Suites: reads each file of an official download. What does not fit goes to `faults`, the rest comes back."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from suites.checks import reaches_cycle
from suites.errors import SuiteError
from suites.lines import Faults, Line, open_file, parse, rows
from suites.official_rows import Loose, OfficialKnowledgeRow, OfficialQuestionRow, OfficialTaskRow
from suites.questions import Kind
from suites.tasks import KnowledgeEntry

M = TypeVar("M", bound=Loose)

Placed = tuple[Line, M]


def task_rows(path: Path, faults: Faults) -> list[Placed[OfficialTaskRow]]:
    """The tasks; an instance id that stands twice is refused the second time."""
    return list(_unique(path, rows(path, OfficialTaskRow, faults), _by("instance_id"), faults))


def question_rows(
    path: Path, kind: Kind, task_databases: Mapping[str, str], faults: Faults
) -> list[Placed[OfficialQuestionRow]]:
    """The questions of one kind's file.

    Args:
        task_databases: database by instance id; a question of a task must name the same one. Ids are compared exactly:
            `alien_M_1` is not `alien_1`.
    """

    def agreeing() -> Iterator[Placed[OfficialQuestionRow]]:
        for line, row in rows(path, OfficialQuestionRow, faults):
            expected = task_databases.get(row.instance_id, row.selected_database)
            stated = next(((field, other) for field, other in row.stated_kinds() if other is not kind), None)
            if row.selected_database != expected:
                problem = f"expected the task's database {expected}"
                faults(SuiteError(path, problem, line=line.number, field="selected_database"))
            elif stated is not None:
                problem = f"says {stated[1]}, but the file holds {kind} questions"
                faults(SuiteError(path, problem, line=line.number, field=stated[0]))
            else:
                yield line, row

    def key(row: OfficialQuestionRow) -> tuple[str, object]:
        return "question_id", (row.instance_id, str(row.question_id), row.question_type)

    return list(_unique(path, agreeing(), key, faults))


def knowledge_rows(path: Path, faults: Faults) -> list[Placed[OfficialKnowledgeRow]]:
    """The entries of a knowledge base; an id that stands twice, and an entry that is defined by itself, are refused."""
    placed = list(_unique(path, rows(path, OfficialKnowledgeRow, faults), _by("id"), faults))
    entries = {row.id: row.build() for _, row in placed}
    children = {entry.id: [c for c in entry.children_knowledge if c in entries] for entry in entries.values()}
    done: set[int] = set()
    looped: set[int] = set()
    for line, row in placed:
        if reaches_cycle(row.id, children, done) and _defined_by_itself(row.id, children):
            children[row.id] = []
            looped.add(row.id)
            faults(
                SuiteError(path, "is defined by itself, through others", line=line.number, field="children_knowledge")
            )
    return [(line, row) for line, row in placed if row.id not in looped]


def _defined_by_itself(entry: int, children: Mapping[int, Sequence[int]]) -> bool:
    seen: set[int] = set()
    ahead = list(children[entry])
    while ahead:
        child = ahead.pop()
        if child == entry:
            return True
        if child not in seen:
            seen.add(child)
            ahead += children[child]
    return False


def knowledge(path: Path, faults: Faults) -> tuple[KnowledgeEntry, ...]:
    """The entries as read; children that are not there (their line was left out) are not named."""
    built = [row.build() for _, row in knowledge_rows(path, faults)]
    ids = {entry.id for entry in built}
    return tuple(
        KnowledgeEntry(
            e.id, e.knowledge, e.description, e.definition, e.type, tuple(c for c in e.children_knowledge if c in ids)
        )
        for e in built
    )


def column_meanings(path: Path, database: str, faults: Faults) -> dict[str, str]:
    """Meaning by `db|table|column` in lower case. An object (the fields of a JSON column) becomes its JSON text.

    Raises:
        SuiteError: the file as a whole cannot be read.
    """
    found: dict[str, str] = {}
    for name, meaning in _read_object(path).items():
        key, parts = name.lower(), name.lower().split("|")
        if len(parts) != 3 or parts[0] != database.lower() or not all(parts):
            faults(SuiteError(path, f"expected a key {database.lower()}|table|column", field=name))
        elif key in found:
            faults(SuiteError(path, "stands twice when case does not count", field=name))
        elif not isinstance(meaning, str | dict):
            faults(SuiteError(path, "expected a meaning: text, or an object of texts", field=name))
        else:
            found[key] = meaning if isinstance(meaning, str) else json.dumps(meaning, ensure_ascii=False)
    return found


def _read_object(path: Path) -> dict[str, object]:
    try:
        found = parse(read_text(path))
    except ValueError as error:
        raise SuiteError(path, str(error)) from None
    if not isinstance(found, dict):
        raise SuiteError(path, "expected an object of db|table|column to meaning")
    return found


def read_text(path: Path) -> str:
    """A whole file as text.

    Raises:
        SuiteError: it cannot be read, or is not UTF-8.
    """
    with open_file(path) as file:
        try:
            return file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SuiteError(path, f"not UTF-8 at byte {error.start}") from None


def _by(field: str) -> Callable[[Loose], tuple[str, object]]:
    return lambda row: (field, getattr(row, field))


def _unique(
    path: Path, placed: Iterator[Placed[M]], key: Callable[[M], tuple[str, object]], faults: Faults
) -> Iterator[Placed[M]]:
    seen: dict[object, int] = {}
    for line, row in placed:
        field, value = key(row)
        if value in seen:
            faults(SuiteError(path, f"stands already at line {seen[value]}", line=line.number, field=field))
            continue
        seen[value] = line.number
        yield line, row
