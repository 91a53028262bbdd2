"""Guard: the interval mathematics of a certificate. Pure functions; they know no ledger, policy or file.

Shares are fractions of 1; intervals are two-sided at the stated confidence. A broken precondition is a `ValueError`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scipy import special

Cluster = tuple[float, int]
"""Successes (a fraction where a row's value was set, not observed) and rows of one sampled unit."""


class Verdict(StrEnum):
    """What an interval says about a floor. `not_decided` is no mild fail: the data cannot tell."""

    PASS = "pass"
    FAIL = "fail"
    NOT_DECIDED = "not_decided"


class Status(StrEnum):
    """Whether a judge-corrected interval can be used."""

    OK = "ok"
    ESTIMATE_OUTSIDE_UNIT = "estimate_outside_unit"  # usable: the interval still reaches into [0, 1]
    INTERVAL_OUTSIDE_UNIT = "interval_outside_unit"  # the rows contradict the calibration; clipping would hide it
    JUDGE_UNINFORMATIVE = "judge_uninformative"  # the judge cannot be told from guessing


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval of shares; outside [0, 1] only where it is called unclipped."""

    lower: float
    upper: float

    def clipped(self) -> "Interval":
        """The part in [0, 1]; of an interval wholly outside, the nearer end."""
        return Interval(min(max(self.lower, 0.0), 1.0), min(max(self.upper, 0.0), 1.0))

    def union(self, other: "Interval") -> "Interval":
        """The smallest interval that holds both."""
        return Interval(min(self.lower, other.lower), max(self.upper, other.upper))


UNKNOWN = Interval(0.0, 1.0)
"""What is known of a share without data."""


@dataclass(frozen=True, slots=True)
class ClusterEstimate:
    """A share estimated from clusters.

    Attributes:
        variance: Taylor variance of `p`.
        deff_raw: variance over p(1-p)/n; None where p is 0 or 1, and the variance says nothing.
        deff: the design effect in use, never below 1.
    """

    successes: float
    n: int
    clusters: int
    variance: float
    deff_raw: float | None
    deff: float

    @property
    def p(self) -> float:
        return self.successes / self.n

    @property
    def n_eff(self) -> float:
        """Independent rows that would say as much."""
        return self.n / self.deff

    @property
    def df(self) -> int:
        return self.clusters - 1


@dataclass(frozen=True, slots=True)
class Corrected:
    """A share corrected for judge error. `theta` is None and `unclipped` is [0, 1] where no correction exists."""

    theta: float | None
    unclipped: Interval
    status: Status


def critical_value(confidence: float, df: int | None = None) -> float:
    """Two-sided quantile: Student's t with `df` degrees of freedom, normal without."""
    _require(0 < confidence < 1, "confidence lies in (0, 1)")
    _require(df is None or df >= 1, "df is at least 1")
    tail = (1 + confidence) / 2
    return float(special.ndtri(tail) if df is None else special.stdtrit(df, tail))


def wilson(p: float, n: float, critical: float) -> Interval:
    """Score interval (Wilson 1927), without continuity correction; `n` may be an effective number of rows.

    scipy's version takes whole numbers and the normal quantile only.
    """
    _require(0 <= p <= 1 and n > 0 and critical > 0, "p lies in [0, 1]; n and the critical value are positive")
    z2 = critical**2
    centre, half = p + z2 / (2 * n), critical * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    # at the ends centre and half are equal but for rounding
    lower, upper = (centre - half) / scale if p > 0 else 0.0, (centre + half) / scale if p < 1 else 1.0
    return Interval(lower, upper).clipped()


def clopper_pearson(successes: int, n: int, confidence: float) -> Interval:
    """Exact interval (Clopper & Pearson 1934): quantiles of beta distributions.

    From scipy.special: importing scipy.stats would take longer than counting a run.
    """
    _require(0 <= successes <= n and n > 0, "0 <= successes <= n, n is positive")
    tail, failures = (1 - confidence) / 2, n - successes
    lower = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    upper = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return Interval(lower, upper)


def kish_deff(mean_size: float, icc: float) -> float:
    """Design effect of clusters of a mean size with an intra-class correlation (Kish 1965)."""
    _require(mean_size >= 1 and 0 <= icc <= 1, "mean size is at least 1, icc lies in [0, 1]")
    return 1 + (mean_size - 1) * icc


def cluster_proportion(clusters: Sequence[Cluster]) -> ClusterEstimate:
    """Ratio estimate over two or more clusters; Taylor variance with K/(K-1) (Cochran 1977, ch. 11)."""
    _require(len(clusters) >= 2, "at least two clusters")
    _require(all(size >= 1 and 0 <= good <= size for good, size in clusters), "each cluster has 0..size successes")
    count, n = len(clusters), sum(size for _, size in clusters)
    successes = math.fsum(good for good, _ in clusters)
    p = min(successes / n, 1.0)
    variance = math.fsum((good - p * size) ** 2 for good, size in clusters) * count / (count - 1) / n**2
    spread = p * (1 - p) / n
    raw = variance / spread if spread > 0 else None
    return ClusterEstimate(successes, n, count, variance, raw, max(1.0, raw or 1.0))


def policy_deff(estimate: ClusterEstimate, min_count: int, icc: float) -> ClusterEstimate:
    """The estimate with a design effect of at least Kish's, where successes or failures are fewer than `min_count`.

    With so few of them the Taylor variance is unreliable, and 0 when all rows agree. Our rule, not a theorem.
    """
    if min(estimate.successes, estimate.n - estimate.successes) >= min_count:
        return estimate
    return replace(estimate, deff=max(estimate.deff, kish_deff(estimate.n / estimate.clusters, icc)))


def wilson_clustered(estimate: ClusterEstimate, confidence: float) -> Interval:
    """Wilson on the effective number of rows with t(K-1) (Dean & Pagano 2015; Franco et al. 2019)."""
    return wilson(min(estimate.p, 1.0), estimate.n_eff, critical_value(confidence, estimate.df))


def lang_reiczigel(p: float, n: float, sens: tuple[int, int], spec: tuple[int, int], critical: float) -> Corrected:
    """Share of truly acceptable rows where a judge accepts a share `p` of `n` (possibly effective) rows.

    Args:
        sens: of rows that people accept, (accepted by the judge, all).
        spec: of rows that people do not accept, (not accepted by the judge, all).

    Sources: Rogan & Gladen 1978 for `theta`; Lang & Reiczigel 2014 (Prev Vet Med 113:13-22) for the interval, which is
    that of Lee et al. (arXiv 2511.21140). With n_eff and t(K-1) in it, it is our composition, checked by simulation.
    """
    _require(0 <= p <= 1 and n > 0 and critical > 0, "p lies in [0, 1]; n and the critical value are positive")
    for good, size in (sens, spec):
        _require(0 <= good <= size and size > 0, "0 <= successes <= n, n is positive")
    youden = sens[0] / sens[1] + spec[0] / spec[1] - 1
    (se, se_var), (sp, sp_var) = _plus_one(*sens), _plus_one(*spec)
    j = se + sp - 1
    if youden <= 0 or j <= 0:
        return Corrected(None, UNKNOWN, Status.JUDGE_UNINFORMATIVE)
    theta = (p + spec[0] / spec[1] - 1) / youden
    z2 = critical**2
    p_adjusted = (n * p + z2 / 2) / (n + z2)
    centre = (p_adjusted + sp - 1) / j
    shift = 2 * z2 * (centre * se_var - (1 - centre) * sp_var)
    variance = (p_adjusted * (1 - p_adjusted) / (n + z2) + (1 - centre) ** 2 * sp_var + centre**2 * se_var) / j**2
    half = critical * math.sqrt(variance)
    unclipped = Interval(centre + shift - half, centre + shift + half)
    if j - critical * math.sqrt(se_var + sp_var) <= 0:
        return Corrected(theta, unclipped, Status.JUDGE_UNINFORMATIVE)
    if unclipped.lower > 1 or unclipped.upper < 0:
        return Corrected(theta, unclipped, Status.INTERVAL_OUTSIDE_UNIT)
    return Corrected(theta, unclipped, Status.OK if 0 <= theta <= 1 else Status.ESTIMATE_OUTSIDE_UNIT)


def mix_unjudged(judged: Interval, weight: float) -> Interval:
    """Interval over all rows from that of the judged ones, which are a share `weight`; the others may be anything.

    Worst-case bounds (Manski 1989). Correct for judge error first, mix after: else filled-in verdicts are corrected.
    """
    _require(0 <= weight <= 1, "weight lies in [0, 1]")
    return Interval(weight * judged.lower, weight * judged.upper + 1 - weight)


def against_floor(interval: Interval, floor: float) -> Verdict:
    """Pass if the lower bound reaches the floor, fail if the upper one does not, else not decided."""
    if interval.lower >= floor:
        return Verdict.PASS
    return Verdict.FAIL if interval.upper < floor else Verdict.NOT_DECIDED


def rows_to_decide(estimate: ClusterEstimate, floor: float, confidence: float) -> int | None:
    """Rows that would decide at the same share and design effect; None where the share is the floor itself.

    Wilson excludes the floor when (p - floor)^2 >= z^2 floor (1 - floor) / n_eff: it inverts that test.
    """
    distance = estimate.p - floor
    if abs(distance) < 1e-12:
        return None
    critical = critical_value(confidence, estimate.df)
    return math.ceil(estimate.deff * critical**2 * floor * (1 - floor) / distance**2)


def _plus_one(good: int, size: int) -> tuple[float, float]:
    """A calibration share with one success and one failure added, and its variance."""
    share = (good + 1) / (size + 2)
    return share, share * (1 - share) / (size + 2)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
