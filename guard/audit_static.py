"""Guard: what the gold audit reads off a suite without running its solutions: annotation and completeness."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from benchmark_core.sql.fragments import contains_tokens
from benchmark_core.sql.portability import newer_than_oldest
from suites.questions import AmbReference, LocReference, Question, QuestionKey
from suites.tasks import Database, KnowledgeEntry, Oracle, Task


class Code(StrEnum):
    """What is wrong. Codes of a task make it ungradable; those of a database alone do not."""

    # of a database
    BUILD_FAILED = "build_failed"  # the build script fails or does not end
    COLUMN_WITHOUT_MEANING = "column_without_meaning"
    MEANING_WITHOUT_COLUMN = "meaning_without_column"
    SCHEMA_DIFFERS = "schema_differs"  # the schema text and the built database name different tables or columns
    KNOWLEDGE_NOT_A_DAG = "knowledge_not_a_dag"  # a cycle, or an entry that does not exist
    # of a task
    DATABASE_UNAVAILABLE = "database_unavailable"  # its database was not built
    PREPROCESS_FAILED = "preprocess_failed"
    SOLUTION_FAILED = "solution_failed"
    SOLUTION_TIMEOUT = "solution_timeout"
    NO_ROWS = "no_rows"  # the reference of a Query sub-task returns nothing
    NO_POST_CONDITION = "no_post_condition"  # nothing decides a Management sub-task
    POST_CONDITION_FAILED = "post_condition_failed"  # does not hold after the reference
    HOLDS_BEFORE = "holds_before"  # all post-conditions hold already: an empty answer would pass
    CLEAN_UP_FAILED = "clean_up_failed"
    NEVER_PASSES = "never_passes"  # the reference itself does not pass in `strict`
    ACCEPTS_EVERYTHING = "accepts_everything"  # the test cases pass an empty submission
    PLAN_DEPENDENT = "plan_dependent"  # PostgreSQL may answer the reference in more than one way: by the plan
    ORDER_DEPENDENT = "order_dependent"  # the same: by the order in which rows are stored
    NOT_GRADED = "not_graded"  # could not be graded on this machine
    SNIPPET_NOT_IN_SQL = "snippet_not_in_sql"  # an ambiguity's fragment is no run of tokens of the reference SQL
    # of a question
    FRAGMENT_NOT_IN_SQL = "fragment_not_in_sql"  # a LOC fragment is no run of tokens of the reference SQL
    UNKNOWN_REFERENCE = "unknown_reference"  # the question's task, or the ambiguity that it is about, is not there
    # worth knowing, and no fault
    REGIMES_DIFFER = "regimes_differ"  # `official` fails the reference
    NEEDS_NEWER = "needs_newer"  # uses what PostgreSQL 14 does not have


NOTES = frozenset({Code.REGIMES_DIFFER, Code.NEEDS_NEWER})
"""Codes that are no fault: they make no task ungradable."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a task, or of a database where `instance_id` is None. `sub_task` is 1 or 2 where one is at fault."""

    instance_id: str | None
    database: str
    sub_task: int | None
    code: Code
    message: str


@dataclass(frozen=True, slots=True)
class BrokenQuestion:
    """A question whose reference cannot be held against the reference SQL."""

    key: QuestionKey
    code: Code
    message: str


def annotation(task: Task) -> Iterator[Finding]:
    """Ambiguities whose fragment does not stand in sub-task 1's reference SQL, token for token."""
    oracle = task.oracle
    for ambiguity in oracle.ambiguities:
        if not _stands_in(oracle, ambiguity.sql_snippet):
            message = f"the fragment of the ambiguity {ambiguity.term!r} does not stand in the reference SQL"
            yield Finding(oracle.instance_id, oracle.database, 1, Code.SNIPPET_NOT_IN_SQL, message)


def portability(databases: Iterable[Database], tasks: Iterable[Task]) -> Iterator[Finding]:
    """Where build scripts, references and post-conditions use what PostgreSQL 14 does not have."""
    for database in databases:
        scripts = [script for script in (database.build_sql, database.second_build_sql) if script]
        yield from _newer(None, database.name, None, scripts)
    for task in tasks:
        oracle = task.oracle
        for number, sub_task in ((1, oracle.first), (2, oracle.follow_up)):
            statements = [*sub_task.sol_sql, *(condition.sql for condition in sub_task.post_conditions)]
            yield from _newer(oracle.instance_id, oracle.database, number, statements)


def _newer(
    instance_id: str | None, database: str, sub_task: int | None, statements: Iterable[str]
) -> Iterator[Finding]:
    for what, version in dict.fromkeys(found for text in statements for found in newer_than_oldest(text)):
        yield Finding(instance_id, database, sub_task, Code.NEEDS_NEWER, f"{what} needs PostgreSQL {version}")


def broken_questions(questions: Iterable[Question], tasks: Iterable[Task]) -> Iterator[BrokenQuestion]:
    """AMB and LOC questions whose reference does not stand in sub-task 1's reference SQL, token for token."""
    oracles = {task.instance_id: task.oracle for task in tasks}
    for question in questions:
        if found := _broken(question, oracles.get(question.key.instance_id)):
            yield BrokenQuestion(question.key, *found)


def _broken(question: Question, oracle: Oracle | None) -> tuple[Code, str] | None:
    if oracle is None:
        return Code.UNKNOWN_REFERENCE, "there is no such task"
    match question.reference:
        case LocReference(fragment=fragment) if not _stands_in(oracle, fragment):
            return Code.FRAGMENT_NOT_IN_SQL, "its fragment does not stand in the reference SQL"
        case AmbReference(ambiguity=term):
            snippets = [a.sql_snippet for a in oracle.ambiguities if a.term == term]
            if not snippets:
                return Code.UNKNOWN_REFERENCE, f"the task has no ambiguity {term!r}"
            if not all(_stands_in(oracle, snippet) for snippet in snippets):
                return Code.SNIPPET_NOT_IN_SQL, f"the fragment of {term!r} does not stand in the reference SQL"
    return None


def _stands_in(oracle: Oracle, piece: str) -> bool:
    return any(contains_tokens(statement, piece) for statement in oracle.first.sol_sql)


def completeness(database: Database, built: frozenset[tuple[str, str]]) -> Iterator[Finding]:
    """Compare meanings, schema text and knowledge base of a database with its `built` columns (table, column)."""

    def finding(code: Code, message: str) -> Finding:
        return Finding(None, database.name, None, code, message)

    described = {(table, column) for _, table, column in (key.split("|", 2) for key in database.column_meanings)}
    for column in sorted(built - described):
        yield finding(Code.COLUMN_WITHOUT_MEANING, f"{'.'.join(column)} has no meaning")
    for column in sorted(described - built):
        yield finding(Code.MEANING_WITHOUT_COLUMN, f"{'.'.join(column)} has a meaning but does not exist")
    named = schema_columns(database.schema)
    for column in sorted(built ^ named):
        where = "the built database" if column in built else "the schema text"
        yield finding(Code.SCHEMA_DIFFERS, f"{'.'.join(column)} stands only in {where}")
    if problem := _not_a_dag({entry.id: entry for entry in database.knowledge}):
        yield finding(Code.KNOWLEDGE_NOT_A_DAG, problem)


def _not_a_dag(entries: Mapping[int, KnowledgeEntry]) -> str | None:
    for entry in entries.values():
        if missing := sorted(set(entry.children_knowledge) - entries.keys()):
            return f"entry {entry.id} builds on entries that do not exist: {missing}"
    try:
        TopologicalSorter({entry.id: entry.children_knowledge for entry in entries.values()}).prepare()
    except CycleError as cycle:
        return f"entries build on each other: {cycle.args[1]}"
    return None


_TOKEN = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|\S""", re.DOTALL)
_NO_COLUMN = frozenset({"constraint", "primary", "unique", "foreign", "check", "exclude", "like", ")"})


def schema_columns(schema: str) -> frozenset[tuple[str, str]]:
    """(table, column) of every CREATE TABLE in a schema text, in lower case.

    Reads tokens, not grammar: schema texts carry comments and sample rows that no parser takes.
    """
    tokens = [token for token in _TOKEN.findall(schema) if not token.startswith(("--", "/*"))]
    found: set[tuple[str, str]] = set()
    for at in range(len(tokens) - 1):
        if [token.lower() for token in tokens[at : at + 2]] == ["create", "table"] and "(" in tokens[at:]:
            opening = tokens.index("(", at)
            table = _name(tokens[opening - 1])
            found.update((table, _name(first)) for first in _first_tokens(tokens[opening + 1 :]))
    return frozenset(found)


def _first_tokens(tokens: Iterable[str]) -> Iterator[str]:
    """The tokens that the columns of a list begin with, up to its closing parenthesis."""
    depth, fresh = 1, True
    for token in tokens:
        if fresh and token.lower() not in _NO_COLUMN:
            yield token
        fresh = token == "," and depth == 1
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return


def _name(token: str) -> str:
    return token.strip('"').replace('""', '"').lower()
