"""Guard: the mathematics of two runs on the same questions. Pure functions; they know no ledger, policy or file.

A difference is that of two shares, first minus second, in [-1, 1]; intervals are two-sided at the stated confidence.
A broken precondition is a `ValueError`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from guard.statistics import Interval, critical_value, kish_deff

NOT_KNOWN = Interval(-1.0, 1.0)
"""What is known of a difference without data."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of one sampled unit: accepted in both runs, in the first alone, in the second alone, in neither."""

    both: int
    first: int
    second: int
    neither: int

    @property
    def n(self) -> int:
        return self.both + self.first + self.second + self.neither


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference estimated from clusters of pairs.

    Attributes:
        taylor: cluster variance of the difference.
        variance: the one in use, see `cluster_difference`.
    """

    difference: float
    clusters: int
    taylor: float
    variance: float

    def interval(self, confidence: float) -> Interval:
        """Difference and t(K-1) standard errors to each side, cut at -1 and 1."""
        half = critical_value(confidence, self.clusters - 1) * math.sqrt(self.variance)
        return Interval(max(self.difference - half, -1.0), min(self.difference + half, 1.0))


def total(clusters: Sequence[Pairs]) -> Pairs:
    """All pairs of some units as one."""
    return Pairs(
        sum(c.both for c in clusters),
        sum(c.first for c in clusters),
        sum(c.second for c in clusters),
        sum(c.neither for c in clusters),
    )


def cluster_difference(clusters: Sequence[Pairs], min_count: int, icc: float) -> Difference:
    """The difference over two or more units that each hold a pair.

    Its variance is Taylor's over the units with K/(K-1), as of any ratio (Cochran 1977, ch. 11). It is never less than
    that of independent pairs with half a pair added to each cell (Agresti & Min 2005), which is not 0 where no pair
    differs; and that times Kish's design effect at `icc` where fewer than `min_count` pairs differ, or fewer do
    anything else than differ to one side: then the spread over units is unreliable. Our rule, not a theorem.
    """
    _require(len(clusters) >= 2 and all(c.n >= 1 for c in clusters), "at least two units, each with a pair")
    count, whole = len(clusters), total(clusters)
    share = (whole.first - whole.second) / whole.n
    spread = math.fsum((c.first - c.second - share * c.n) ** 2 for c in clusters)
    taylor = spread * count / (count - 1) / whole.n**2
    few = min(whole.first + whole.second, whole.n - max(whole.first, whole.second)) < min_count
    deff = kish_deff(whole.n / count, icc) if few else 1.0
    return Difference(share, count, taylor, max(taylor, deff * _independent(whole)))


def mcnemar(first: int, second: int) -> float:
    """Exact two-sided p-value (McNemar 1947): the differing pairs against a fair coin; 1 without any.

    That of scipy's `binomtest`, from scipy.special: importing scipy.stats would take longer than counting a run.
    """
    _require(first >= 0 and second >= 0, "counts are not negative")
    if first == second:
        return 1.0
    return min(1.0, 2 * float(special.bdtr(min(first, second), first + second, 0.5)))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the given order (Holm 1979): each is compared with the error rate of the whole family."""
    _require(all(0 <= p <= 1 for p in p_values), "p-values lie in [0, 1]")
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return tuple(adjusted)


def _independent(pairs: Pairs) -> float:
    """Variance of the difference of independent pairs, half a pair added to each of the four cells."""
    n, differing, net = pairs.n + 2, pairs.first + pairs.second + 1, pairs.first - pairs.second
    return (differing - net**2 / n) / n**2


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
