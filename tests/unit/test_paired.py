"""Two runs on the same questions: the mathematics against reference values, against scipy, and against simulation."""

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from guard.paired import Pairs, cluster_difference, holm, mcnemar, total
from guard.statistics import critical_value

REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "statistics_reference.json"
ALWAYS = 10, 0.2
NEVER_FEW = 0, 0.0


def _singles(both: int, first: int, second: int, neither: int) -> list[Pairs]:
    """Every pair a unit of its own."""
    kinds = ((Pairs(1, 0, 0, 0), both), (Pairs(0, 1, 0, 0), first), (Pairs(0, 0, 1, 0), second))
    return [pair for pair, count in (*kinds, (Pairs(0, 0, 0, 1), neither)) for _ in range(count)]


# Each check returns (found, wanted) pairs, and fits the entries whose name begins with its key.


def _check_mcnemar(given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    return [(mcnemar(given["b"], given["c"]), wanted["p_exact"]), (mcnemar(given["c"], given["b"]), wanted["p_exact"])]


def _check_difference(given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    names = ("a_both_pass", "b_first_only", "c_second_only", "d_neither")
    units = _singles(*(given[name] for name in names))
    found = cluster_difference(units, *NEVER_FEW)
    # of single pairs, the cluster variance is Wald's with n - 1 in place of n
    wald = math.sqrt(found.taylor * (len(units) - 1) / len(units))
    return [(found.difference, wanted["difference"]), (wald, wanted["wald_se"])]


def _check_holm(given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    return [*zip(holm(given["p"]), wanted["holm"], strict=True), (len(holm(given["p"])), len(given["p"]))]


CHECKS = {"mcnemar_": _check_mcnemar, "paired_difference_": _check_difference, "multiplicity_": _check_holm}


def test_reference_values() -> None:
    if not REFERENCE.exists():
        pytest.skip("the reference values are not beside this checkout")
    covered: Counter[str] = Counter()
    for entry in json.loads(REFERENCE.read_text(encoding="utf-8")):
        prefix = next((prefix for prefix in CHECKS if entry["name"].startswith(prefix)), None)
        if prefix is None:
            continue
        covered[prefix] += 1
        for found, wanted in CHECKS[prefix](entry["inputs"], entry["expected"]):
            assert found == pytest.approx(wanted, rel=0, abs=max(entry["tolerance"], 1e-12)), entry["name"]
    assert covered == {"mcnemar_": 6, "paired_difference_": 4, "multiplicity_": 4}


def test_values_known_without_the_reference_file() -> None:
    assert mcnemar(30, 18) == pytest.approx(0.111402891)
    assert mcnemar(45, 18) == pytest.approx(0.000898047)
    assert mcnemar(0, 0) == 1
    assert holm([0.01, 0.04, 0.03, 0.005, 0.2]) == pytest.approx((0.04, 0.09, 0.09, 0.025, 0.2))
    found = cluster_difference(_singles(520, 30, 18, 132), *NEVER_FEW)
    assert found.difference == pytest.approx(12 / 700)
    assert math.sqrt(found.taylor * 699 / 700) == pytest.approx(0.0098762016)


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_test_is_scipys_binomial_one(first: int, second: int) -> None:
    n = first + second
    wanted = stats.binomtest(first, n).pvalue if n else 1.0
    assert mcnemar(first, second) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


def test_the_cluster_variance_by_hand() -> None:
    """Net +2 of 4 and 0 of 4: share 1/4, deviations 1 and -1, so 2 * 2/1 / 64."""
    found = cluster_difference([Pairs(2, 2, 0, 0), Pairs(2, 1, 1, 0)], *NEVER_FEW)
    assert (found.difference, found.taylor, found.clusters) == (0.25, 4 / 64, 2)
    half = critical_value(0.95, 1) * 0.25
    assert half > 1
    assert (found.interval(0.95).lower, found.interval(0.95).upper) == (-1, 1)


def test_pairs_that_hang_together_widen_the_interval() -> None:
    spread = cluster_difference([Pairs(7, 1, 0, 1)] * 40, *ALWAYS)
    lumped = cluster_difference([Pairs(0, 9, 0, 0)] * 4 + [Pairs(7, 0, 0, 2)] * 32 + [Pairs(8, 1, 0, 0)] * 4, *ALWAYS)
    assert spread.difference == lumped.difference == pytest.approx(1 / 9)
    assert lumped.variance > 3 * spread.variance
    assert lumped.interval(0.95).lower < spread.interval(0.95).lower - 0.05


@pytest.mark.parametrize("same", [Pairs(9, 0, 0, 0), Pairs(0, 0, 0, 9), Pairs(0, 9, 0, 0), Pairs(0, 0, 9, 0)])
def test_pairs_that_are_all_alike_are_not_certainty(same: Pairs) -> None:
    found = cluster_difference([same] * 15, *ALWAYS)
    assert found.taylor == 0
    interval = found.interval(0.95)
    assert interval.upper - interval.lower > 0.02
    assert interval.lower <= found.difference <= interval.upper


def test_few_differing_pairs_raise_the_variance() -> None:
    nine = cluster_difference([Pairs(8, 1, 0, 0)] * 9 + [Pairs(9, 0, 0, 0)] * 51, *ALWAYS)
    ten = cluster_difference([Pairs(8, 1, 0, 0)] * 10 + [Pairs(9, 0, 0, 0)] * 50, *ALWAYS)
    assert nine.variance == pytest.approx(2.6 * (10 - 81 / 542) / 542**2)
    assert ten.variance == pytest.approx((11 - 100 / 542) / 542**2)


@pytest.mark.parametrize(
    "broken",
    [
        lambda: cluster_difference([Pairs(1, 0, 0, 0)], *ALWAYS),
        lambda: cluster_difference([Pairs(1, 0, 0, 0), Pairs(0, 0, 0, 0)], *ALWAYS),
        lambda: mcnemar(-1, 3),
        lambda: holm([0.5, 1.5]),
        lambda: holm([float("nan")]),
    ],
)
def test_broken_preconditions_are_errors(broken: Any) -> None:
    with pytest.raises(ValueError):
        broken()


COUNTS = st.integers(0, 9)
UNITS = st.lists(st.builds(Pairs, COUNTS, COUNTS, COUNTS, COUNTS).filter(lambda p: p.n > 0), min_size=2)


@given(UNITS)
def test_swapping_the_runs_turns_the_sign_and_nothing_else(units: list[Pairs]) -> None:
    found = cluster_difference(units, *ALWAYS)
    turned = cluster_difference([Pairs(p.both, p.second, p.first, p.neither) for p in units], *ALWAYS)
    assert turned.difference == -found.difference
    assert turned.variance == pytest.approx(found.variance)
    ends, other = found.interval(0.95), turned.interval(0.95)
    assert (ends.lower, ends.upper) == pytest.approx((-other.upper, -other.lower))


@given(UNITS)
def test_the_difference_is_that_of_the_two_rates_and_lies_in_its_interval(units: list[Pairs]) -> None:
    whole, found = total(units), cluster_difference(units, *ALWAYS)
    rates = ((whole.both + whole.first) / whole.n, (whole.both + whole.second) / whole.n)
    assert found.difference == pytest.approx(rates[0] - rates[1])
    interval = found.interval(0.95)
    assert -1 <= interval.lower <= found.difference <= interval.upper <= 1


@given(st.lists(st.floats(0, 1), max_size=12))
def test_adjusted_p_values_keep_their_order_and_never_shrink(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    ranked = sorted(zip(p_values, adjusted, strict=True))
    assert [a for _, a in ranked] == sorted(adjusted)
    assert min(adjusted, default=0) == min(1, len(p_values) * min(p_values, default=0))


@pytest.mark.parametrize("gain", [0.0, 0.1])
def test_coverage_where_the_pairs_of_a_task_hang_together(gain: float) -> None:
    """30 tasks of 9 pairs, seeded; tasks differ in how much better A is, by `gain` on the whole.

    The clustered interval covers it, one that takes pairs as independent does not; and of no difference at all, the
    test for independent pairs sees one far more often than one time in twenty.
    """
    seeded, runs = random.Random(20261201), 600
    covered = naive = alarms = 0
    for _ in range(runs):
        units = []
        for _ in range(30):
            lean = gain + seeded.uniform(-0.4, 0.4)
            draws = [seeded.random() for _ in range(9)]
            first = sum(draw < 0.25 + lean / 2 for draw in draws)
            second = sum(draw >= 0.75 + lean / 2 for draw in draws)
            units.append(Pairs(9 - first - second, first, second, 0))
        found, whole = cluster_difference(units, *ALWAYS), total(units)
        interval = found.interval(0.95)
        covered += interval.lower <= gain <= interval.upper
        naive += abs(found.difference - gain) <= 1.96 * math.sqrt(whole.first + whole.second) / whole.n
        alarms += mcnemar(whole.first, whole.second) < 0.05
    assert 0.92 <= covered / runs <= 0.985
    assert naive / runs < 0.9
    assert alarms / runs > 0.1
