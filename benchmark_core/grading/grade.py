"""Benchmark core: grades submissions of many tasks, on a server that may die under it.

A server that is lost is asked for again, and what was being graded starts afresh: a state is a template and scripts, so
the new sandbox is where the old one was. What still cannot be graded is `infrastructure`: nobody's attempt.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from benchmark_core.errors import DatabaseError, JailUnavailable, QueryError, QueryTimeout
from benchmark_core.grading.by_result import grade_by_result
from benchmark_core.grading.by_state import grade_by_state
from benchmark_core.grading.ground import Ground, Seeds
from benchmark_core.grading.grounds import FindSeeds, FindServer, Grounds
from benchmark_core.grading.outcome import GoldFault, Grade, Outcome, Verdict
from benchmark_core.grading.site import Site, Sites
from benchmark_core.jail.jail import jail
from benchmark_core.postgres.fingerprint import TemplateDrift
from benchmark_core.postgres.pool import State
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import Limits
from suites.tasks import Category, Oracle, SubTask

_LOG = logging.getLogger(__name__)
_PAUSES_S = (0.0, 0.5, 2.0, 5.0)


class FollowUpFrom(StrEnum):
    """The state that `strict` grades sub-task 2 on; `official` always takes the submission's."""

    REFERENCE = "reference"
    SUBMISSION = "submission"


class Grader:
    """Grades a run's submissions. Made by `grader`."""

    def __init__(self, grounds: Grounds, follow_up_from: FollowUpFrom) -> None:
        self._grounds, self._follow_up_from = grounds, follow_up_from

    @asynccontextmanager
    async def task(self, oracle: Oracle) -> AsyncIterator["TaskGrader"]:
        """Grade submissions of one task. Its sandboxes are kept until the end."""
        opened = TaskGrader(self._grounds, oracle, self._follow_up_from)
        try:
            yield opened
        finally:
            await opened.close()


class TaskGrader:
    """Grades submissions of one task, one at a time. Made by `Grader.task`."""

    def __init__(self, grounds: Grounds, oracle: Oracle, follow_up_from: FollowUpFrom) -> None:
        self._grounds, self._oracle, self._from = grounds, oracle, follow_up_from
        self._turn = asyncio.Lock()
        self._place: _Place | None = None

    async def grade(self, number: int, prediction: Sequence[str], before: Sequence[str] = ()) -> Grade:
        """Grade a submission for sub-task 1 or 2.

        Args:
            prediction: its statements.
            before: the submission that passed sub-task 1, for sub-task 2; the reference's when empty.

        Raises:
            TemplateDrift: a template has changed: nothing of this run can be relied on.
        """
        failure: DatabaseError | None = None
        async with self._turn:
            for pause in _PAUSES_S:
                await asyncio.sleep(pause)
                try:
                    place = await self._current()
                    return await place.grade(number, tuple(prediction), tuple(before))
                except GoldFault as fault:
                    return Grade(fault.verdict, fault.verdict)
                except TemplateDrift:
                    raise
                except DatabaseError as error:
                    _LOG.warning("%s: grading begins again: %s", self._oracle.instance_id, error)
                    failure = error
                    await self._leave()
        lost = Verdict(Outcome.INFRASTRUCTURE, "the database server failed; this is not an attempt", str(failure))
        return Grade(lost, lost)

    async def close(self) -> None:
        """Drop the sandboxes."""
        async with self._turn:
            await self._leave()

    async def _current(self) -> "_Place":
        if self._place is None:
            on = await self._grounds.ground()
            try:
                seeds = await self._grounds.seeds(on, self._oracle.database)
            except DatabaseError:
                await self._grounds.failed(on)
                raise
            self._place = _Place(on, seeds, self._oracle, self._from)
        return self._place

    async def _leave(self) -> None:
        if self._place is not None:
            place, self._place = self._place, None
            await place.stack.aclose()
            await self._grounds.failed(place.ground)


@dataclass(slots=True)
class _Place:
    """The states of one task on one ground."""

    ground: Ground
    seeds: Seeds
    oracle: Oracle
    follow_up_from: FollowUpFrom
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    sites: dict[State, Site] = field(default_factory=dict)

    async def grade(self, number: int, prediction: tuple[str, ...], before: tuple[str, ...]) -> Grade:
        sub_task = self.oracle.first if number == 1 else self.oracle.follow_up
        reference, submitted = await self._states(number, before)
        left: Site | Verdict
        try:
            left = await self._site(submitted)
        except (QueryError, QueryTimeout) as error:
            if submitted == reference:
                raise _gold_fault(error) from None
            message = f"the state that the submission for sub-task 1 left cannot be made again: {error}"
            left = Verdict(Outcome.EXECUTION_ERROR, message)
        strict = left if self.follow_up_from is FollowUpFrom.SUBMISSION else await self._gold_site(reference)
        if isinstance(strict, Verdict):
            return Grade(strict, strict)
        if isinstance(left, Verdict):
            return Grade((await self._grade(Sites(strict, strict), sub_task, number, prediction)).strict, left)
        return await self._grade(Sites(strict, left), sub_task, number, prediction)

    async def _grade(self, sites: Sites, sub_task: SubTask, number: int, prediction: tuple[str, ...]) -> Grade:
        decided_by_state = sub_task.post_conditions or sub_task.test_cases
        if sub_task.category is Category.MANAGEMENT and decided_by_state:
            return await grade_by_state(self.ground, sites, sub_task, prediction)
        second = await self._second(number)
        return await grade_by_result(self.ground, replace(sites, second=second), sub_task, prediction)

    async def _states(self, number: int, before: tuple[str, ...]) -> tuple[State, State]:
        """What reference and submission of sub-task 1 leave. What a submission does beside an answer that only reads is
        not carried over."""
        base = State(self.seeds.first).then(self.oracle.preprocess_sql)
        if number == 1 or not await self._changes(base, self.oracle.first):
            return base, base
        return base.then(self.oracle.first.sol_sql), base.then(before or self.oracle.first.sol_sql)

    async def _second(self, number: int) -> Site | None:
        if self.seeds.second is None:
            return None
        base = State(self.seeds.second).then(self.oracle.preprocess_sql)
        changes = number == 2 and await self._changes(base, self.oracle.first)
        return await self._gold_site(base.then(self.oracle.first.sol_sql) if changes else base)

    async def _changes(self, state: State, first: SubTask) -> bool:
        if first.category is Category.MANAGEMENT:
            return True
        return (await self.ground.reference(await self._gold_site(state), first)).access is not Access.READ

    async def _gold_site(self, state: State) -> Site:
        try:
            return await self._site(state)
        except (QueryError, QueryTimeout) as error:
            raise _gold_fault(error) from None

    async def _site(self, state: State) -> Site:
        if (known := self.sites.get(state)) is None:
            source = await self.stack.enter_async_context(self.ground.clones.source(state, self.ground.gold_limits))
            known = self.sites[state] = Site(self.ground.clones, state, source)
            self.stack.push_async_callback(known.close)
        return known


def _gold_fault(error: QueryError | QueryTimeout) -> GoldFault:
    timeout = isinstance(error, QueryTimeout)
    return GoldFault(f"the state before the sub-task cannot be made: {error}", timeout=timeout)


@asynccontextmanager
async def grader(
    find_server: FindServer,
    find_seeds: FindSeeds,
    limits: Limits | None = None,
    follow_up_from: FollowUpFrom = FollowUpFrom.REFERENCE,
) -> AsyncIterator[Grader]:
    """Open a grader. Where the machine cannot lock test code in, the sub-tasks that have it are `infrastructure`.

    Raises:
        TemplateDrift: at the end, when a template is not what it was.
    """
    async with AsyncExitStack() as stack:
        try:
            locked = await stack.enter_async_context(jail())
        except JailUnavailable as error:
            _LOG.warning("test cases are not run: %s", error)
            locked = None
        grounds = Grounds(find_server, find_seeds, locked, limits or Limits())
        try:
            yield Grader(grounds, follow_up_from)
        finally:
            await grounds.close()
