"""Tests: tasks made for grading, and a grader for them on a server of the tests."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from benchmark_core.grading.grade import FollowUpFrom, Grader, grader
from benchmark_core.grading.ground import Seeds
from benchmark_core.grading.outcome import Grade
from benchmark_core.postgres.sandbox import Limits
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Workspace
from suites.tasks import Category, Conditions, Oracle, PostCondition, SubTask

T = TypeVar("T")

SALES = """
CREATE TABLE sale (id int PRIMARY KEY, shop text, qty int, price numeric(10, 2));
INSERT INTO sale VALUES (1, 'A', 3, 2.00), (2, 'A', 5, 1.50), (3, 'B', 1, 9.99), (4, 'B', 1, 9.99), (5, 'C', 8, 0.25);
CREATE FUNCTION tax(p numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT p * 0.2';
CREATE TABLE archive (id int, shop text);
"""


def query(
    *sol_sql: str, order: bool = False, decimal: int = -1, category: Category = Category.QUERY, test_cases: Any = ()
) -> SubTask:
    """A sub-task that is decided by its result, or by test cases."""
    conditions = Conditions(decimal, distinct=False, order=order)
    return SubTask("", sol_sql, category, "", test_cases=tuple(test_cases), conditions=conditions)


def management(*sol_sql: str, **conditions: list[tuple[Any, ...]]) -> SubTask:
    """A sub-task that is decided by post-conditions: SQL and the rows that it must return."""
    found = tuple(PostCondition(sql, tuple(rows)) for sql, rows in conditions.items())
    return SubTask("", sol_sql, Category.MANAGEMENT, "", post_conditions=found)


def task(
    first: SubTask, follow_up: SubTask | None = None, database: str = "db", preprocess: tuple[str, ...] = ()
) -> Oracle:
    """The oracle of a task."""
    return Oracle(
        instance_id="task_1",
        database=database,
        user_query="",
        first=first,
        follow_up=follow_up or query("SELECT 1"),
        ambiguities=(),
        schema="",
        preprocess_sql=preprocess,
    )


async def with_grader(
    find_server: Callable[[], Server],
    builds: Mapping[str, str],
    work: Callable[[Grader], Awaitable[T]],
    seconds: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    follow_up_from: FollowUpFrom = FollowUpFrom.REFERENCE,
) -> T:
    """Do something with a grader; `builds`: build scripts by name of the database, `seconds`: those of other seeds."""

    async def find_seeds(space: Workspace, name: str) -> Seeds:
        second = (seconds or {}).get(name)
        return Seeds(await space.template(builds[name]), await space.template(second) if second else None)

    async with grader(find_server, find_seeds, limits, follow_up_from) as grades:
        return await work(grades)


def grade(server: Server, oracle: Oracle, *prediction: str, build: str = SALES, **how: Any) -> Grade:
    """Grade one submission for sub-task 1."""

    async def work(grades: Grader) -> Grade:
        async with grades.task(oracle) as opened:
            return await opened.grade(1, prediction)

    return asyncio.run(with_grader(lambda: server, {"db": build}, work, **how))


def grades(server: Server, oracle: Oracle, *predictions: str, build: str = SALES, **how: Any) -> list[Grade]:
    """Grade several submissions for sub-task 1, one after the other in one sandbox."""

    async def work(opened: Grader) -> list[Grade]:
        async with opened.task(oracle) as one:
            return [await one.grade(1, (prediction,)) for prediction in predictions]

    return asyncio.run(with_grader(lambda: server, {"db": build}, work, **how))


def read_cases(path: Path) -> list[dict[str, Any]]:
    """Cases of a grader: setup_sql, pred_sql, sol_sql, conditions, category, test_cases, upstream and right verdict."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
