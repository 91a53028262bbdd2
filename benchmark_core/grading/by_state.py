"""Benchmark core: grading a Management submission by the state that it leaves: post-conditions, or test cases."""

from collections.abc import Sequence

from benchmark_core.errors import QueryError, QueryTimeout
from benchmark_core.grading.conditions import shadows, violated
from benchmark_core.grading.ground import Ground
from benchmark_core.grading.outcome import PASSED, Grade, Outcome, Verdict
from benchmark_core.grading.reference import DENIED
from benchmark_core.grading.site import Site, Sites
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import run
from suites.tasks import SubTask

NO_JAIL = Verdict(Outcome.INFRASTRUCTURE, "this sub-task was not run", "test cases cannot be run on this machine")


async def grade_by_state(ground: Ground, sites: Sites, sub_task: SubTask, prediction: Sequence[str]) -> Grade:
    """Post-conditions where there are any, in both regimes: the public code has none. Else test cases.

    Raises:
        GoldFault: conditions or tests do not tell the reference from doing nothing.
        DatabaseError: when the server is lost.
    """
    if not sub_task.post_conditions:
        return await _by_tests(ground, sites, sub_task, prediction)
    allowed = await ground.check_conditions(sites.strict, sub_task)
    strict = await _by_conditions(ground, sites.strict, sub_task, prediction, allowed)
    if sub_task.test_cases:
        return Grade(strict, (await _by_tests(ground, sites, sub_task, prediction)).official)
    if sites.official is sites.strict:
        return Grade(strict, strict)
    return Grade(strict, await _by_conditions(ground, sites.official, sub_task, prediction, allowed))


async def _by_tests(ground: Ground, sites: Sites, sub_task: SubTask, prediction: Sequence[str]) -> Grade:
    if (cases := ground.cases) is None:
        return Grade(NO_JAIL, NO_JAIL)
    await ground.check_tests(sites.strict, sub_task)
    strict = await cases.strict(sub_task, prediction, lambda: sites.strict.clone(Access.WRITE))
    async with sites.official.clone(Access.WRITE) as clone:
        return Grade(strict, await cases.official(sub_task, prediction, clone))


async def _by_conditions(
    ground: Ground, site: Site, sub_task: SubTask, prediction: Sequence[str], allowed: frozenset[str]
) -> Verdict:
    async with site.clone(Access.WRITE) as clone:
        try:
            await run(clone, prediction, ground.limits)
        except QueryTimeout as error:
            return Verdict(Outcome.TIMEOUT, f"the submission was {error}")
        except QueryError as error:
            if error.sqlstate in DENIED:
                return Verdict(Outcome.REFUSED, f"the submission may not do this: {error}")
            return Verdict(Outcome.EXECUTION_ERROR, str(error))
        if names := await shadows(clone) - allowed:
            found = ", ".join(sorted(names))
            return Verdict(Outcome.REFUSED, f"the submission leaves what would stand for PostgreSQL's own: {found}")
        problems = await violated(clone, sub_task.post_conditions, ground.limits)
    return Verdict(Outcome.MISMATCH, "the database is not as expected", problems[0]) if problems else PASSED
