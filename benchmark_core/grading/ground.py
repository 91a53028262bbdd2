"""Benchmark core: what all gradings of a run share while one server lives: clones, and what the gold comes to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from benchmark_core.errors import QueryError, QueryTimeout
from benchmark_core.grading.cases import CaseGrader
from benchmark_core.grading.conditions import shadows, violated
from benchmark_core.grading.once import Once
from benchmark_core.grading.outcome import GoldFault
from benchmark_core.grading.reference import Reference, compute
from benchmark_core.grading.site import Site
from benchmark_core.jail.jail import Jail
from benchmark_core.postgres.pool import Pool, pool
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.postgres.templates import Template, Workspace
from suites.tasks import SubTask

_PATIENCE = 2.0  # how much longer than a submission the gold may take: a busy machine is not the suite's fault
_ROWS = 200_000


@dataclass(frozen=True, slots=True)
class Seeds:
    """A database's template, and the one with other rows in the same tables, where the suite has one."""

    first: Template
    second: Template | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """Shared by the gradings of a run. Holds gold: never shown, never written.

    Attributes:
        limits: for a submission.
        cases: None where test cases cannot be run.
        seeds: by name of the database, once found.
    """

    clones: Pool
    limits: Limits
    cases: CaseGrader | None
    seeds: Once[Seeds] = field(default_factory=Once)
    _references: Once[Reference] = field(default_factory=Once)
    _conditions: Once[frozenset[str]] = field(default_factory=Once)
    _tests: Once[None] = field(default_factory=Once)

    @property
    def gold_limits(self) -> Limits:
        """For a reference."""
        return replace(self.limits, deadline_s=_PATIENCE * self.limits.deadline_s)

    async def reference(self, site: Site, sub_task: SubTask) -> Reference:
        """What the reference returns there; worked out once.

        Raises:
            GoldFault: the reference fails, is stopped, returns no columns, or more rows than the caps let through.
            DatabaseError: when the server is lost.
        """
        key = site.state, sub_task.sol_sql, sub_task.conditions
        return await self._references.get(key, lambda: compute(self.clones, site.source, sub_task, self.gold_limits))

    async def check_conditions(self, site: Site, sub_task: SubTask) -> frozenset[str]:
        """Whether post-conditions tell the reference from doing nothing; worked out once. Gives the names that may
        stand for PostgreSQL's own afterwards.

        Raises:
            GoldFault: they do not, or the reference fails.
            DatabaseError: when the server is lost.
        """
        key = site.state, sub_task.sol_sql, sub_task.post_conditions
        return await self._conditions.get(key, lambda: self._check_conditions(site, sub_task))

    async def check_tests(self, site: Site, sub_task: SubTask) -> None:
        """The same for test cases."""
        if (cases := self.cases) is not None:
            key = site.state, sub_task.sol_sql, sub_task.test_cases, sub_task.conditions
            await self._tests.get(key, lambda: cases.check_tests(sub_task, lambda: site.clone(Access.WRITE)))

    async def close(self) -> None:
        """End what is still being worked out."""
        for once in (self.seeds, self._references, self._conditions, self._tests):
            await once.close()

    async def _check_conditions(self, site: Site, sub_task: SubTask) -> frozenset[str]:
        async with site.clone(Access.WRITE) as clone:
            if not await violated(clone, sub_task.post_conditions, self.gold_limits):
                raise GoldFault("all post-conditions hold before the reference has run")
            try:
                await run(clone, sub_task.sol_sql, self.gold_limits)
            except QueryTimeout as error:
                raise GoldFault(f"the reference was {error}", timeout=True) from None
            except QueryError as error:
                raise GoldFault(f"the reference fails: {error} (SQLSTATE {error.sqlstate})") from None
            if problems := await violated(clone, sub_task.post_conditions, self.gold_limits):
                raise GoldFault(problems[0])
            return await shadows(clone)


@asynccontextmanager
async def ground(space: Workspace, jail: Jail | None, limits: Limits) -> AsyncIterator[Ground]:
    """Open the ground of a run in its workspace."""
    async with pool(space) as clones:
        capped = replace(limits, rows=_ROWS)
        shared = Ground(clones, capped, CaseGrader(jail, capped) if jail else None)
        try:
            yield shared
        finally:
            await shared.close()
