"""Benchmark core: the `strict` regime for results: the prediction once, in a clean session, compared by type.

A Query submission starts as a reader. When PostgreSQL denies it something it gets a throw-away clone in which it may
also make objects of its own (a view, a temporary table), but not change what was there; only where the reference itself
changes data may the submission do so. Denied all the same, it is refused.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from benchmark_core.errors import QueryError, QueryTimeout
from benchmark_core.grading.compare import difference
from benchmark_core.grading.outcome import PASSED, Outcome, Verdict
from benchmark_core.grading.reference import DENIED, Reference
from benchmark_core.postgres.query import Table
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.postgres.templates import Clone

WRONG = "the result is not the expected one"


class Clones(Protocol):
    """Where clones of the sub-task's state come from."""

    def clone(self, access: Access) -> AbstractAsyncContextManager[Clone]:
        """A clone without sessions, as if fresh."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of running a prediction, and the most rights that it was given."""

    result: Table | Verdict
    access: Access


async def execute(clones: Clones, prediction: Sequence[str], most: Access, limits: Limits) -> Ran:
    """Run a prediction with as few rights as it can do with, at most `most`.

    Raises:
        ServerError: when the server is lost.
    """
    ladder = [access for access in Access if list(Access).index(access) <= list(Access).index(most)]
    denied = Verdict(Outcome.REFUSED)
    for access in ladder:
        async with clones.clone(access) as clone:
            try:
                return Ran(await run(clone, prediction, limits), access)
            except QueryTimeout as error:
                return Ran(Verdict(Outcome.TIMEOUT, f"the submission was {error}"), access)
            except QueryError as error:
                if error.sqlstate not in DENIED:
                    return Ran(Verdict(Outcome.EXECUTION_ERROR, str(error)), access)
                denied = Verdict(Outcome.REFUSED, f"the submission may not do this: {error}")
    return Ran(denied, most)


def judge(result: Table | Verdict, reference: Reference) -> Verdict:
    """Compare a prediction's result with the reference's."""
    if isinstance(result, Verdict):
        return result
    if not result.columns:
        return Verdict(Outcome.MISMATCH, "the submission's last statement returns no rows")
    found = difference(result, reference.table, reference.rule)
    return PASSED if found is None else Verdict(Outcome.MISMATCH, WRONG, found)
