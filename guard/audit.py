"""Guard: the gold audit. Runs every reference solution of a suite before any score depends on it.

A task is *ungradable* when its own reference does not pass: that is the suite's fault, never the system's. Databases
are built from their scripts or were loaded from dumps; each task runs on a clone of its own, sub-task 2 on a snapshot
of what sub-task 1 left. References that run are then graded, and run again under other plans (`audit_grading`).
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from benchmark_core.errors import DatabaseError, QueryError, QueryTimeout
from benchmark_core.grading.grade import Grader, grader
from benchmark_core.postgres.dumps import find_loaded
from benchmark_core.postgres.pool import pool
from benchmark_core.postgres.query import fetch, rows_match, run_script
from benchmark_core.postgres.sandbox import Limits
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Clone, Template, Workspace, workspace
from guard.audit_grading import Steadiness, graded
from guard.audit_static import (
    NOTES,
    BrokenQuestion,
    Code,
    Finding,
    annotation,
    broken_questions,
    completeness,
    portability,
)
from guard.grading import find_seeds
from suites.questions import Question
from suites.tasks import Category, Database, Oracle, PostCondition, SubTask, Task

T = TypeVar("T")

CONCURRENCY = 4
DEADLINE_S = 60.0
"""Seconds for one script: generous, so that a busy machine does not make a task ungradable."""

_COLUMNS = """
    SELECT lower(c.relname), lower(a.attname)
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What the audit found, in a fixed order."""

    databases: int
    tasks: int
    findings: tuple[Finding, ...]
    broken_questions: tuple[BrokenQuestion, ...]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Findings but for those that are merely worth knowing."""
        return tuple(finding for finding in self.findings if finding.code not in NOTES)

    @property
    def ungradable(self) -> frozenset[str]:
        """Instance ids of the tasks that have a fault."""
        return frozenset(finding.instance_id for finding in self.faults if finding.instance_id is not None)

    def to_json(self) -> dict[str, Any]:
        """JSON-able, without reference SQL or rows of it."""
        return {**asdict(self), "ungradable": sorted(self.ungradable)}


async def audit_gold(
    databases: Mapping[str, Database],
    tasks: Sequence[Task],
    questions: Sequence[Question],
    server: Server,
    *,
    deadline_s: float = DEADLINE_S,
) -> AuditReport:
    """Build every database, run every reference, check every annotation.

    Args:
        deadline_s: seconds for one script of a task.

    Raises:
        DatabaseError: when the server fails. What a suite gets wrong is a finding, not an error.
    """
    findings = [finding for task in tasks for finding in annotation(task)]
    findings += portability(databases.values(), tasks)
    limits = Limits(deadline_s=deadline_s)
    async with workspace(server) as space:
        runs = _Runs(space, asyncio.Semaphore(CONCURRENCY), deadline_s)
        built = await _all([runs.database(database) for database in databases.values()])
        templates = {name: template for name, (template, _) in zip(databases, built, strict=True) if template}
        played = await _all([runs.task(task, templates.get(task.oracle.database)) for task in tasks])
        sound = [task.oracle for task, faults in zip(tasks, played, strict=True) if not faults]
        async with pool(space) as clones:
            steady = Steadiness(clones, limits)
            both = [(one, number) for one in sound for number in (1, 2)]
            played += await _all([runs.steady(steady, one, number, templates[one.database]) for one, number in both])
    async with grader(lambda: server, find_seeds(databases), limits) as grades:
        played += await _all([runs.graded(one, grades) for one in sound])
    findings += [finding for _, found in built for finding in found] + [
        finding for found in played for finding in found
    ]
    findings.sort(key=lambda f: (f.database, f.instance_id or "", f.sub_task or 0, f.code, f.message))
    return AuditReport(len(databases), len(tasks), tuple(findings), tuple(broken_questions(questions, tasks)))


class _Fault(Exception):
    """What is wrong with the script at hand."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class _Runs:
    space: Workspace
    slots: asyncio.Semaphore
    deadline_s: float

    async def database(self, database: Database) -> tuple[Template | None, list[Finding]]:
        async with self.slots:
            try:
                template = await self._template(database)
            except (QueryError, QueryTimeout) as error:
                return None, [Finding(None, database.name, None, Code.BUILD_FAILED, str(error))]
            if template is None:
                message = "is published as a dump; load it with `usersim-guard db load`"
                return None, [Finding(None, database.name, None, Code.BUILD_FAILED, message)]
            async with self.space.clone(template) as clone, clone.session() as session:
                columns = await fetch(session, _COLUMNS, self.deadline_s, max_rows=1_000_000)
        built = frozenset((str(table), str(column)) for table, column in columns.rows)
        return template, list(completeness(database, built))

    async def _template(self, database: Database) -> Template | None:
        if database.build_sql is None:
            return await find_loaded(self.space, database.name)
        return await self.space.template(database.build_sql)

    async def steady(self, steady: Steadiness, oracle: Oracle, number: int, template: Template) -> list[Finding]:
        async with self.slots:
            return [finding async for finding in steady.check(oracle, number, template)]

    async def graded(self, oracle: Oracle, grades: Grader) -> list[Finding]:
        async with self.slots:
            return [finding async for finding in graded(oracle, grades)]

    async def task(self, task: Task, template: Template | None) -> list[Finding]:
        oracle = task.oracle
        if template is None:
            message = "its database was not built"
            return [Finding(oracle.instance_id, oracle.database, None, Code.DATABASE_UNAVAILABLE, message)]
        at: int | None = None
        async with self.slots, self.space.clone(template) as clone:
            try:
                await self._script(clone, oracle.preprocess_sql, Code.PREPROCESS_FAILED)
                at = 1
                await self._sub_task(clone, oracle.first)
                at = 2
                async with self.space.snapshot(clone) as after:
                    await self._sub_task(after, oracle.follow_up)
                    at = None
                    await self._script(after, oracle.clean_up_sqls, Code.CLEAN_UP_FAILED)
            except _Fault as fault:
                return [Finding(oracle.instance_id, oracle.database, at, fault.code, fault.message)]
        return []

    async def _sub_task(self, clone: Clone, sub_task: SubTask) -> None:
        if sub_task.category is Category.QUERY:
            if not await self._script(clone, sub_task.sol_sql, Code.SOLUTION_FAILED):
                raise _Fault(Code.NO_ROWS, "the reference returns no row")
            return
        conditions = sub_task.post_conditions
        if not conditions and not sub_task.test_cases:
            raise _Fault(Code.NO_POST_CONDITION, "no post-condition and no test case decides this sub-task")
        if conditions and not await self._violated(clone, conditions):
            raise _Fault(Code.HOLDS_BEFORE, "all post-conditions hold before the reference has run")
        await self._script(clone, sub_task.sol_sql, Code.SOLUTION_FAILED)
        if violated := await self._violated(clone, conditions):
            raise _Fault(Code.POST_CONDITION_FAILED, violated[0])

    async def _script(self, clone: Clone, statements: Sequence[str], failure: Code) -> bool:
        """Run statements in one session; whether the last one returned a row."""
        if not statements:
            return False
        try:
            async with clone.session() as session:
                await run_script(session, statements[:-1], self.deadline_s, max_rows=0)
                last = await fetch(session, statements[-1], self.deadline_s, max_rows=1)
        except QueryError as error:
            raise _Fault(failure, f"{error} (SQLSTATE {error.sqlstate})") from None
        except QueryTimeout as error:
            timed_out = Code.SOLUTION_TIMEOUT if failure is Code.SOLUTION_FAILED else failure
            raise _Fault(timed_out, str(error)) from None
        return bool(last.rows)

    async def _violated(self, clone: Clone, conditions: Sequence[PostCondition]) -> list[str]:
        """What does not hold of what is committed: each query has a session and a read-only transaction of its own."""
        problems: list[str] = []
        for number, condition in enumerate(conditions, start=1):
            try:
                async with clone.session() as session:
                    found = await run_script(session, ("BEGIN READ ONLY", condition.sql), self.deadline_s)
            except (QueryError, QueryTimeout) as error:
                problems.append(f"post-condition {number}: {error}")
                continue
            if not rows_match(found.rows, condition.rows):
                counts = f"{len(condition.rows)} rows expected, {len(found.rows)} found"
                problems.append(f"post-condition {number}: other rows than expected ({counts})")
        return problems


async def _all(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order. When one fails, the others are cancelled, drop their databases, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one) for one in work]
    except* DatabaseError as failed:
        error: BaseException = failed
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    else:
        return [task.result() for task in running]
    raise error
