"""Guard: what the gold audit learns by grading: references that cannot pass, tests that pass anything, regimes apart.

And what it learns by running a reference again where only PostgreSQL's freedom differs: under other plans, and with the
rows stored in another order. A reference that then gives something else would fail right submissions by chance.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from benchmark_core.errors import QueryError, QueryTimeout
from benchmark_core.grading.cases import PASSES_NOTHING
from benchmark_core.grading.compare import difference
from benchmark_core.grading.grade import Grader
from benchmark_core.grading.outcome import GoldFault, Outcome, Verdict
from benchmark_core.grading.reference import Reference, compute
from benchmark_core.postgres.pool import Pool, Source, State
from benchmark_core.postgres.query import Table
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.postgres.templates import Clone, Template, reclaim
from guard.audit_static import Code, Finding
from suites.tasks import Category, Oracle, SubTask

PLANS = (
    "SET enable_hashjoin = off; SET enable_mergejoin = off",
    "SET enable_nestloop = off; SET enable_mergejoin = off",
    "SET enable_nestloop = off; SET enable_hashjoin = off",
    "SET enable_hashagg = off; SET enable_sort = on",
    "SET enable_seqscan = off",
    "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off",
    "SET work_mem = '64kB'",
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; "
    "SET max_parallel_workers_per_gather = 2",
)
"""Each gives the planner or the executor another way; none may change what a query means."""

_SHUFFLE = """
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass AS name, quote_ident(a.attname) AS col
        FROM pg_catalog.pg_class c JOIN LATERAL (
            SELECT attname FROM pg_catalog.pg_attribute
            WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = ''
            ORDER BY attnum LIMIT 1
        ) a ON true
        WHERE c.relkind = 'r' AND c.relnamespace NOT IN
            (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname ~ '^pg_' OR nspname = 'information_schema')
    LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', one.name);
        EXECUTE format('UPDATE %s SET %s = %s WHERE random() < 0.5', one.name, one.col, one.col);
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER USER', one.name);
    END LOOP;
END $$
"""
"""Half of the rows of every table move to its end."""


async def graded(oracle: Oracle, grades: Grader) -> AsyncIterator[Finding]:
    """Grade a task's references as if a system had submitted them.

    Raises:
        TemplateDrift: a template has changed.
    """
    async with grades.task(oracle) as opened:
        for number, sub_task in ((1, oracle.first), (2, oracle.follow_up)):
            before = oracle.first.sol_sql if number == 2 else ()
            grade = await opened.grade(number, sub_task.sol_sql, before)
            for code, message in _judged(grade.strict, grade.official):
                yield Finding(oracle.instance_id, oracle.database, number, code, message)


def _judged(strict: Verdict, official: Verdict) -> Iterator[tuple[Code, str]]:
    """Details are not passed on: they may tell of the reference."""
    if strict.outcome is Outcome.INFRASTRUCTURE:
        yield Code.NOT_GRADED, "it could not be graded here"
    elif strict.detail == PASSES_NOTHING:
        yield Code.ACCEPTS_EVERYTHING, PASSES_NOTHING
    elif not strict.passed:
        yield Code.NEVER_PASSES, f"the reference itself does not pass: {strict.outcome}"
    elif not official.passed:
        yield Code.REGIMES_DIFFER, f"the reference passes `strict`, but in `official` it is {official.outcome}"


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Runs references again where nothing that counts differs."""

    clones: Pool
    limits: Limits

    async def check(self, oracle: Oracle, number: int, template: Template) -> AsyncIterator[Finding]:
        """A sub-task (1 or 2) of a task that the audit found nothing else wrong with. Only Query sub-tasks are run.

        Raises:
            DatabaseError: when the server is lost, or the task is not sound after all.
        """
        sub_task = oracle.first if number == 1 else oracle.follow_up
        if sub_task.category is not Category.QUERY:
            return
        base = State(template).then(oracle.preprocess_sql)
        async with self.clones.source(base if number == 1 else base.then(oracle.first.sol_sql), self.limits) as source:
            async for code, message in self._varied(source, sub_task):
                yield Finding(oracle.instance_id, oracle.database, number, code, message)

    async def _varied(self, source: Source, sub_task: SubTask) -> AsyncIterator[tuple[Code, str]]:
        try:
            reference = await compute(self.clones, source, sub_task, self.limits)
        except GoldFault as fault:
            yield Code.SOLUTION_FAILED, fault.verdict.detail
            return
        if (plan := await self._other_plan(source, reference)) is not None:
            yield Code.PLAN_DEPENDENT, f"its result is another one under: {plan}"
        async with self.clones.clone(source, Access.WRITE, ahead=0) as clone:
            await run(clone, (_SHUFFLE,), self.limits)
            await reclaim(clone)
            if await self._differs(clone, reference):
                yield (
                    Code.ORDER_DEPENDENT,
                    "its result is another one when rows are stored in another order",
                )

    async def _other_plan(self, source: Source, reference: Reference) -> str | None:
        """A plan under which the result is another one. One that only reads does not need a clone a plan."""
        plans = [PLANS] if reference.access is Access.READ else [(plan,) for plan in PLANS]
        for several in plans:
            async with self.clones.clone(source, reference.access, ahead=0) as clone:
                for plan in several:
                    if await self._differs(clone, reference, plan):
                        return plan
        return None

    async def _differs(self, clone: Clone, reference: Reference, *settings: str) -> bool:
        try:
            found = await run(clone, (*settings, *reference.statements), self.limits)
        except (QueryError, QueryTimeout):
            return True
        return difference(_visible(found, reference), reference.table, reference.rule) is not None


def _visible(table: Table, reference: Reference) -> Table:
    width = len(reference.table.columns) - reference.rule.hidden
    rows = tuple(row[:width] for row in table.rows)
    return replace(table, columns=table.columns[:width], types=table.types[:width], rows=rows)
