"""Suites: cross-checks that one line alone cannot answer. Each raises with the place."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.errors import SuiteError
from suites.questions import AmbReference, Question
from suites.rows import TaskRow
from suites.tasks import Category, KnowledgeEntry, Task


def column_meanings(path: Path, database: str, meanings: Any) -> None:
    """Keys are `db|table|column` in lower case, values are text."""
    if not isinstance(meanings, dict) or not meanings:
        raise SuiteError(path, "expected an object of db|table|column to meaning")
    for key, meaning in meanings.items():
        parts = key.split("|")
        if len(parts) != 3 or parts[0] != database or key != key.lower():
            raise SuiteError(path, f"expected a key {database}|table|column in lower case", field=key)
        if not isinstance(meaning, str) or not meaning.strip():
            raise SuiteError(path, "expected a meaning (text)", field=key)


def knowledge_dag(path: Path, placed: Sequence[tuple[int, KnowledgeEntry]]) -> None:
    """Ids are unique, children exist, and no entry is defined by itself through others."""
    entries: dict[int, KnowledgeEntry] = {}
    for line, entry in placed:
        if entry.id in entries:
            raise SuiteError(path, f"id {entry.id} stands twice", line=line, field="id")
        entries[entry.id] = entry
    children = {entry.id: entry.children_knowledge for entry in entries.values()}
    done: set[int] = set()
    for line, entry in placed:
        for child in entry.children_knowledge:
            if child not in entries:
                raise SuiteError(path, f"no entry has the id {child}", line=line, field="children_knowledge")
    for line, entry in placed:
        if reaches_cycle(entry.id, children, done):
            raise SuiteError(path, f"entry {entry.id} is part of a cycle", line=line, field="children_knowledge")


def reaches_cycle(start: int, children: Mapping[int, Sequence[int]], done: set[int]) -> bool:
    """Whether an entry reaches a cycle through its children, as a part of it or not.

    Args:
        done: collects the entries that were seen to reach none.
    """
    open_path: set[int] = set()
    stack: list[tuple[int, bool]] = [(start, False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            open_path.discard(node)
            done.add(node)
        elif node in open_path:
            return True
        elif node not in done:
            open_path.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in children[node])
    return False


def task_row(path: Path, line: int, row: TaskRow, knowledge_ids: set[int]) -> None:
    """Terms stand in the request, masked knowledge exists, Management sub-tasks have post-conditions."""
    for sub_task, place in ((row, ""), (row.follow_up, "follow_up.")):
        if sub_task.category == Category.MANAGEMENT and not (sub_task.post_conditions or sub_task.test_cases):
            problem = "a Management sub-task needs at least one post-condition"
            raise SuiteError(path, problem, line=line, field=f"{place}post_conditions")
        for knowledge_id in sub_task.external_knowledge:
            if knowledge_id not in knowledge_ids:
                problem = f"no knowledge entry has the id {knowledge_id}"
                raise SuiteError(path, problem, line=line, field=f"{place}external_knowledge")
    terms: set[str] = set()
    for ambiguity in row.ambiguities():
        field = f"ambiguity '{ambiguity.term}'"
        if ambiguity.term in terms:
            raise SuiteError(path, "this term is annotated twice", line=line, field=field)
        terms.add(ambiguity.term)
        if ambiguity.term.casefold() not in row.amb_user_query.casefold():
            raise SuiteError(path, "the term does not stand in amb_user_query", line=line, field=field)
        if ambiguity.is_mask and ambiguity.deleted_knowledge not in knowledge_ids:
            problem = f"deleted_knowledge {ambiguity.deleted_knowledge} is no knowledge entry"
            raise SuiteError(path, problem, line=line, field=field)


def question(path: Path, line: int, question: Question, tasks: Mapping[str, Task]) -> None:
    """The task exists (this very id: `lab_M_5` is not `lab_5`), the database is its own, the ambiguity is annotated."""
    task = tasks.get(question.key.instance_id)
    if task is None:
        raise SuiteError(path, f"no task has the id {question.key.instance_id}", line=line, field="instance_id")
    if task.brief.database != question.database:
        raise SuiteError(
            path, f"expected the task's database {task.brief.database}", line=line, field="selected_database"
        )
    if isinstance(question.reference, AmbReference):
        terms = {a.term for a in task.oracle.ambiguities}
        if question.reference.ambiguity not in terms:
            problem = f"no annotated ambiguity has this term; expected one of {sorted(terms)}"
            raise SuiteError(path, problem, line=line, field="reference.ambiguity")


def points_agree(path: Path, placed: Sequence[tuple[int, Question]]) -> None:
    """The styles of one point share its reference."""
    first: dict[tuple[str, str], tuple[int, Question]] = {}
    for line, item in placed:
        at, other = first.setdefault((item.key.instance_id, item.key.question_id), (line, item))
        if other.reference != item.reference:
            raise SuiteError(path, f"differs from the same point at line {at}", line=line, field="reference")
