"""Benchmark core: what grading a submission comes to."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The first five are the system's; the others are the suite's or ours: retried, reported apart, no attempt."""

    PASSED = "passed"
    MISMATCH = "mismatch"
    EXECUTION_ERROR = "execution_error"
    TIMEOUT = "timeout"
    REFUSED = "refused"  # it would have changed what it was only to read, or reached out of its database
    GOLD_ERROR = "gold_error"  # the sub-task's own reference or test fails, or accepts everything
    GOLD_TIMEOUT = "gold_timeout"
    INFRASTRUCTURE = "infrastructure"

    @property
    def of_the_system(self) -> bool:
        """Whether the system answers for it: only such an outcome counts, and costs an attempt."""
        return self not in (Outcome.GOLD_ERROR, Outcome.GOLD_TIMEOUT, Outcome.INFRASTRUCTURE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One regime's outcome.

    Attributes:
        message: may be shown to the system: nothing of the reference, of our commands or of other tasks is in it.
        detail: for the operator only; may say what the reference did.
    """

    outcome: Outcome
    message: str = ""
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED


PASSED = Verdict(Outcome.PASSED)


@dataclass(frozen=True, slots=True)
class Grade:
    """Both regimes, always: `strict` is right, `official` is comparable with published scores."""

    strict: Verdict
    official: Verdict


class GoldFault(Exception):
    """The sub-task cannot be graded, whoever answers. Turned into a `Verdict` where grading begins.

    Args:
        detail: for the operator only.
    """

    def __init__(self, detail: str, *, timeout: bool = False) -> None:
        super().__init__(detail)
        outcome = Outcome.GOLD_TIMEOUT if timeout else Outcome.GOLD_ERROR
        self.verdict = Verdict(outcome, "this sub-task cannot be graded", detail)
