"""Guard: from counted rows to the interval that a gate uses. Reads no ledger, decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from guard.policy import Policy
from guard.statistics import (
    UNKNOWN,
    Cluster,
    ClusterEstimate,
    Interval,
    Status,
    clopper_pearson,
    cluster_proportion,
    critical_value,
    lang_reiczigel,
    mix_unjudged,
    policy_deff,
    wilson,
    wilson_clustered,
)
from judge.calibration import KindError

OUTCOMES = ("accepted", "rejected", "failed", "open")


@dataclass(frozen=True, slots=True)
class Cell:
    """Rows of one group (a task, a database, a style) by outcome.

    Attributes:
        rejected: rows whose reply the judge did not accept.
        failed: rows without a reply.
        open: rows without a verdict, and rows that are missing from the ledger.
    """

    name: str
    accepted: int
    rejected: int
    failed: int
    open: int

    @property
    def rows(self) -> int:
        return self.accepted + self.rejected + self.failed + self.open

    @property
    def settled(self) -> int:
        return self.rows - self.open


@dataclass(frozen=True, slots=True)
class Gate:
    """The policy's interval.

    Attributes:
        estimate: with every open row not accepted; when corrected for judge error, over the settled rows. None below
            two clusters, where nothing can be estimated.
        theta: share corrected for judge error; None where none is folded in.
    """

    interval: Interval
    estimate: ClusterEstimate | None
    theta: float | None = None
    status: Status = Status.OK


def total(name: str, cells: Sequence[Cell]) -> Cell:
    """All rows of some groups as one."""
    return Cell(name, *(sum(getattr(cell, outcome) for cell in cells) for outcome in OUTCOMES))


def gate(cells: Sequence[Cell], policy: Policy) -> Gate:
    """Clustered interval without judge error: open rows not accepted below, accepted above (Manski 1989)."""
    worst = _estimate([(cell.accepted, cell.rows) for cell in cells], policy)
    best = _estimate([(cell.accepted + cell.open, cell.rows) for cell in cells], policy)
    if worst is None or best is None:
        return Gate(UNKNOWN, None)
    bounds = (wilson_clustered(estimate, policy.confidence) for estimate in (worst, best))
    return Gate(next(bounds).union(next(bounds)), worst)


def corrected_gate(cells: Sequence[Cell], error: KindError, policy: Policy) -> Gate:
    """Clustered interval with the judge's error folded in, then mixed with the open rows.

    A row without a reply was never judged and is not accepted for certain. It enters as 1 - specificity, the value that
    the correction maps to exactly 0, so that the spread of failures over tasks widens the interval too.
    """
    missed = 1 - error.spec.successes / error.spec.n
    clusters = [(cell.accepted + missed * cell.failed, cell.settled) for cell in cells if cell.settled]
    estimate = _estimate(clusters, policy)
    if estimate is None:
        return Gate(UNKNOWN, None)
    critical = critical_value(policy.confidence, estimate.df)
    found = lang_reiczigel(estimate.p, estimate.n_eff, error.sens, error.spec, critical)
    weight = estimate.n / sum(cell.rows for cell in cells)
    return Gate(mix_unjudged(found.unclipped.clipped(), weight), estimate, found.theta, found.status)


def plain_interval(cell: Cell, confidence: float) -> Interval:
    """Wilson as if rows were independent, from the worst case's lower to the best case's upper bound."""
    if not cell.rows:
        return UNKNOWN
    critical = critical_value(confidence)
    worst = wilson(cell.accepted / cell.rows, cell.rows, critical)
    return worst.union(wilson((cell.accepted + cell.open) / cell.rows, cell.rows, critical))


def whole_tasks(cells: Sequence[Cell], confidence: float) -> Interval:
    """Clopper-Pearson on tasks; one passes if all its rows are accepted."""
    return clopper_pearson(sum(c.accepted == c.rows for c in cells), len(cells), confidence) if cells else UNKNOWN


def _estimate(clusters: Sequence[Cluster], policy: Policy) -> ClusterEstimate | None:
    if len(clusters) < 2:
        return None
    return policy_deff(cluster_proportion(clusters), policy.small_count, policy.small_count_icc)
