"""Benchmark core: grading a submission by the rows that it returns, in both regimes."""

from collections.abc import Sequence

from benchmark_core.grading.ground import Ground
from benchmark_core.grading.official import grade_default
from benchmark_core.grading.outcome import Grade, Outcome, Verdict
from benchmark_core.grading.site import Sites
from benchmark_core.grading.strict import WRONG, execute, judge
from benchmark_core.postgres.roles import Access
from suites.tasks import SubTask


async def grade_by_result(ground: Ground, sites: Sites, sub_task: SubTask, prediction: Sequence[str]) -> Grade:
    """Compare with the reference's rows; `strict` also over the second data seed, where there is one.

    Raises:
        GoldFault: the reference cannot be run.
        DatabaseError: when the server is lost.
    """
    reference = await ground.reference(sites.strict, sub_task)
    most = Access.WRITE if reference.access is Access.WRITE else Access.MAKE
    ran = await execute(sites.strict, prediction, most, ground.limits)
    strict = judge(ran.result, reference)
    if strict.passed and sites.second is not None:
        elsewhere = await ground.reference(sites.second, sub_task)
        again = await execute(sites.second, prediction, most, ground.limits)
        if not judge(again.result, elsewhere).passed:
            strict = Verdict(Outcome.MISMATCH, WRONG, "it matches on the first data seed only")
    if isinstance(ran.result, Verdict) and ran.result.outcome is Outcome.TIMEOUT:
        return Grade(strict, ran.result)  # the same limit holds in both regimes; it need not be waited for twice
    # on the reader's clone where both get by as readers: nothing of the system then holds on to what is done there
    reads = ran.access is Access.READ and reference.access is Access.READ and sites.official is sites.strict
    async with sites.official.clone(Access.READ if reads else Access.WRITE) as clone:
        order = sub_task.conditions.order
        official = await grade_default(clone, prediction, sub_task.sol_sql, order=order, limits=ground.limits)
    return Grade(strict, official)
