"""The interval mathematics against reference values, against scipy, and against simulation."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from guard.statistics import (
    UNKNOWN,
    Interval,
    Status,
    Verdict,
    against_floor,
    clopper_pearson,
    cluster_proportion,
    critical_value,
    kish_deff,
    lang_reiczigel,
    mix_unjudged,
    policy_deff,
    rows_to_decide,
    wilson,
    wilson_clustered,
)

REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "statistics_reference.json"
Z = critical_value(0.95)
ELEVEN_TWELFTHS = [(3, 3), (3, 4), (5, 5), (2, 6), (7, 7), (7, 8), (9, 9), (2, 4), (4, 5), (6, 6), (4, 7), (8, 8)]


def _clusters(rows: list[list[int]]) -> list[tuple[float, int]]:
    return [(sum(row), len(row)) for row in rows]


def _pair(interval: Interval) -> list[float]:
    return [interval.lower, interval.upper]


# Each check returns (found, wanted) pairs, and fits the entries whose name begins with its key.


def _check_interval(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    k, n, confidence = given["k"], given["n"], given["conf_level"]
    exact = clopper_pearson(k, n, confidence)
    found = wilson(k / n, n, critical_value(confidence)) if name.startswith("wilson") else exact
    return [(found.lower, wanted["lower"]), (found.upper, wanted["upper"])]


def _check_min_passing(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    n, floor = given["n"], given["threshold"]

    def least(method: str) -> int:
        confidence = 0.95 if method.endswith("95") else 0.90
        if method.startswith("wilson"):
            return next(k for k in range(n) if wilson(k / n, n, critical_value(confidence)).lower >= floor)
        return next(k for k in range(500, n) if clopper_pearson(k, n, confidence).lower >= floor)

    return [(least(method), wanted[method]) for method in given["methods"]]


def _check_cluster(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    found = cluster_proportion(_clusters(given["clusters"]))
    pairs: list[tuple[Any, Any]] = [(getattr(found, field), wanted[field]) for field in ("p", "n", "clusters", "df")]
    pairs += [(found.variance**0.5, wanted["se_taylor"]), (found.deff_raw, wanted["deff_vs_p1p_over_n"])]
    if found.deff == found.deff_raw:
        pairs += [(found.n_eff, wanted["n_eff"])]
        pairs += zip(_pair(wilson_clustered(found, 0.95)), wanted["interval_wilson_neff_t"], strict=True)
        pairs += zip(_pair(wilson(found.p, found.n_eff, Z)), wanted["interval_wilson_neff_z"], strict=True)
    else:
        pairs += [(found.n_eff, found.n)]
    return pairs


def _check_all_pass(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    found = clopper_pearson(given["clusters_all_pass"], given["clusters"], given["conf_level"])
    return [(found.lower, wanted["lower"]), (found.upper, wanted["upper"])]


def _check_deff(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    deff = kish_deff(given["mean_cluster_size"], given["icc"])
    return [(deff, wanted["deff"]), (given["n"] / deff, wanted["n_eff"])]


def _check_corrected(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    sens, spec = (given["sens_successes"], given["n_sens"]), (given["spec_successes"], given["n_spec"])
    found = lang_reiczigel(given["k_judged_pass"] / given["n"], given["n"], sens, spec, Z)
    pairs: list[tuple[Any, Any]] = [(found.theta, wanted["theta_raw"]), (found.status, wanted["suggested_status"])]
    if found.theta is None:
        return [*pairs, *zip(_pair(found.unclipped), wanted["interval"], strict=True)]
    clipped = found.unclipped.clipped()
    ends = ("lower_unclipped", "upper_unclipped", "lower_clipped", "upper_clipped")
    return pairs + list(zip(_pair(found.unclipped) + _pair(clipped), (wanted[end] for end in ends), strict=True))


def _check_plugin(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    sens = (round(given["q1_sensitivity"] * given["m1"]), given["m1"])
    spec = (round(given["q0_specificity"] * given["m0"]), given["m0"])
    found = lang_reiczigel(given["p"], given["n"], sens, spec, Z)
    return [(found.theta, wanted["theta"]), *zip(_pair(found.unclipped), wanted["interval"], strict=True)]


def _check_clustered_corrected(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    found = cluster_proportion(_clusters(given["clusters_inline"]))
    pairs: list[tuple[Any, Any]] = [(found.n_eff, wanted["n_eff"])]
    for critical, field in ((Z, "lang_reiczigel_neff"), (critical_value(0.95, found.df), "lang_reiczigel_neff_t")):
        corrected = lang_reiczigel(found.p, found.n_eff, (95, 100), (72, 80), critical)
        pairs += zip(_pair(corrected.unclipped), wanted[f"{field}_unclipped"], strict=True)
        pairs += [(corrected.theta, wanted["theta"])]
    return pairs


def _check_unjudged(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    n = given["judged"] + given["unjudged"]
    worst, best = given["passes"] / n, (given["passes"] + given["unjudged"]) / n
    union = wilson(worst, n, Z).union(wilson(best, n, Z))
    exact = clopper_pearson(given["passes"], n, 0.95)
    exact = exact.union(clopper_pearson(given["passes"] + given["unjudged"], n, 0.95))
    pairs: list[tuple[Any, Any]] = [(worst, wanted["worst"]), (best, wanted["best"])]
    pairs += zip(_pair(union), wanted["union_wilson"], strict=True)
    return pairs + list(zip(_pair(exact), wanted["union_clopper_pearson"], strict=True))


def _check_unjudged_clustered(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    judged = zip(_clusters(given["clusters"]), given["unjudged_per_cluster"], strict=True)
    cells = [(good, size, unjudged) for (good, size), unjudged in judged]
    worst = cluster_proportion([(good, size + unjudged) for good, size, unjudged in cells])
    best = cluster_proportion([(good + unjudged, size + unjudged) for good, size, unjudged in cells])
    union = wilson_clustered(worst, 0.95).union(wilson_clustered(best, 0.95))
    pairs: list[tuple[Any, Any]] = [(worst.p, wanted["worst"]), (best.p, wanted["best"])]
    pairs += [(worst.variance**0.5, wanted["worst_se"]), (best.variance**0.5, wanted["best_se"])]
    return pairs + list(zip(_pair(union), wanted["union_wilson_neff_t"], strict=True))


def _check_decision(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    k, n, floor = given["k"], given["n"], given["threshold"]
    found = {"wilson": wilson(k / n, n, Z), "clopper_pearson": clopper_pearson(k, n, 0.95)}
    verdicts = {method: against_floor(interval, floor) for method, interval in found.items()}
    return [(verdicts[method], wanted[method].replace(" ", "_")) for method in wanted]


def _check_corrected_unjudged(name: str, given: Any, wanted: Any) -> list[tuple[Any, Any]]:
    sens, spec = (given["sens_successes"], given["n_sens"]), (given["spec_successes"], given["n_spec"])
    judged = given["judged"]
    corrected = lang_reiczigel(given["k_judged_pass"] / judged, judged, sens, spec, Z).unclipped.clipped()
    mixed = mix_unjudged(corrected, judged / (judged + given["unjudged"]))
    verdict = against_floor(mixed, given["threshold"])
    ends: list[tuple[Any, Any]] = list(zip(_pair(mixed), (wanted["lower"], wanted["upper"]), strict=True))
    return [*ends, (verdict, wanted["decision"].replace(" ", "_"))]


CHECKS = {
    "wilson_": _check_interval,
    "clopper_pearson_": _check_interval,
    "min_passing_k_": _check_min_passing,
    "cluster_proportion_": _check_cluster,
    "cluster_all_pass_": _check_all_pass,
    "effective_n_": _check_deff,
    "rogan_gladen_": _check_corrected,
    "judge_plugin_": _check_plugin,
    "clustered_judge_corrected": _check_clustered_corrected,
    "unjudged_bounds_clustered": _check_unjudged_clustered,
    "unjudged_bounds_": _check_unjudged,
    "decision_": _check_decision,
    "judge_corrected_with_unjudged_": _check_corrected_unjudged,
}


def test_reference_values() -> None:
    if not REFERENCE.exists():
        pytest.skip("the reference values are not beside this checkout")
    covered = 0
    for entry in json.loads(REFERENCE.read_text(encoding="utf-8")):
        check = next((check for prefix, check in CHECKS.items() if entry["name"].startswith(prefix)), None)
        if check is None:
            continue
        covered += 1
        pairs = check(entry["name"], entry["inputs"], entry["expected"])
        assert len(pairs) >= 2
        for found, wanted in pairs:
            if isinstance(wanted, float):
                assert found == pytest.approx(wanted, rel=0, abs=max(entry["tolerance"], 1e-12)), entry["name"]
            else:
                assert found == wanted, entry["name"]
    assert covered == 88  # of 147: the others are of methods that no certificate needs


def test_values_known_without_the_reference_file() -> None:
    assert _pair(wilson(644 / 700, 700, Z)) == pytest.approx([0.8975, 0.9379], abs=5e-5)
    assert wilson(645 / 700, 700, Z).lower < 0.90 <= wilson(646 / 700, 700, Z).lower
    assert wilson(580 / 700, 700, Z).lower < 0.80 <= wilson(581 / 700, 700, Z).lower
    assert wilson(614 / 700, 700, Z).upper < 0.90 <= wilson(615 / 700, 700, Z).upper
    assert clopper_pearson(12, 12, 0.95).lower == pytest.approx(0.025 ** (1 / 12))
    assert critical_value(0.95, 11) == pytest.approx(2.200985160)
    found = cluster_proportion(ELEVEN_TWELFTHS)
    assert found.p == pytest.approx(5 / 6)
    assert (found.n, found.df) == (72, 11)
    assert found.deff == found.deff_raw == pytest.approx(2.36969696969697)
    assert _pair(wilson_clustered(found, 0.95)) == pytest.approx([0.6418922222, 0.9330985018])
    typical = lang_reiczigel(0.4, 1000, (180, 200), (140, 200), Z)
    assert _pair(typical.unclipped) == pytest.approx([0.0563507248, 0.2627330258])


def test_wilson_is_scipy_s_for_whole_numbers() -> None:
    for k in (0, 1, 13, 20):
        theirs = stats.binomtest(k, 20).proportion_ci(0.9, method="wilson")
        assert _pair(wilson(k / 20, 20, critical_value(0.9))) == pytest.approx([theirs.low, theirs.high], abs=1e-12)


def test_few_failures_or_successes_raise_the_design_effect() -> None:
    nine = [(9.0, 9)] * 60
    all_agree = cluster_proportion(nine)
    assert (all_agree.variance, all_agree.deff_raw, all_agree.deff) == (0, None, 1)
    assert policy_deff(all_agree, 10, 0.2).deff == pytest.approx(2.6)
    nine_failures = cluster_proportion([(8, 9)] * 9 + nine[:51])
    ten_failures = cluster_proportion([(8, 9)] * 10 + nine[:50])
    assert policy_deff(nine_failures, 10, 0.2).deff == pytest.approx(2.6)
    assert policy_deff(ten_failures, 10, 0.2) == ten_failures
    nine_successes = cluster_proportion([(1, 9)] * 9 + [(0.0, 9)] * 51)
    assert policy_deff(nine_successes, 10, 0.2).deff == pytest.approx(2.6)


def test_a_larger_measured_design_effect_stands() -> None:
    lumped = cluster_proportion([(0, 9)] + [(9, 9)] * 59)  # nine failures in one cluster
    assert lumped.deff == pytest.approx(9, rel=0.02)
    assert policy_deff(lumped, 10, 0.2) == lumped


def test_a_negative_correlation_never_makes_rows_worth_more_than_one() -> None:
    found = cluster_proportion([(2, 3), (2, 4), (3, 5), (4, 6)])
    assert found.deff_raw is not None and found.deff_raw < 0.2
    assert (found.deff, found.n_eff) == (1, 18)


def test_a_judge_that_contradicts_the_rows_is_not_certainty() -> None:
    found = lang_reiczigel(1.0, 700, (95, 100), (90, 100), Z)
    assert found.status is Status.INTERVAL_OUTSIDE_UNIT
    assert found.unclipped.lower > 1
    assert _pair(found.unclipped.clipped()) == [1, 1]  # why clipping alone would hide it


@pytest.mark.parametrize("spec", [(50, 100), (49, 100), (0, 1)])
def test_a_guessing_judge_corrects_nothing(spec: tuple[int, int]) -> None:
    found = lang_reiczigel(0.65, 200, (50, 100), spec, Z)
    assert (found.theta, found.unclipped, found.status) == (None, UNKNOWN, Status.JUDGE_UNINFORMATIVE)


def test_rows_to_decide_is_where_the_interval_leaves_the_floor() -> None:
    found = cluster_proportion([(11, 12)] * 40)
    needed = rows_to_decide(found, 0.9, 0.95)
    assert needed is not None and needed > found.n
    critical = critical_value(0.95, found.df)
    assert wilson(found.p, needed / found.deff, critical).lower >= 0.9
    assert wilson(found.p, (needed - 1) / found.deff, critical).lower < 0.9
    assert rows_to_decide(cluster_proportion([(9, 10)] * 40), 0.9, 0.95) is None


@pytest.mark.parametrize(
    "broken",
    [
        lambda: wilson(1.1, 10, Z),
        lambda: wilson(0.5, 0, Z),
        lambda: wilson(float("nan"), 10, Z),
        lambda: clopper_pearson(11, 10, 0.95),
        lambda: cluster_proportion([(1, 1)]),
        lambda: cluster_proportion([(2, 1), (1, 1)]),
        lambda: cluster_proportion([(0, 0), (1, 1)]),
        lambda: lang_reiczigel(0.5, 10, (1, 0), (1, 1), Z),
        lambda: lang_reiczigel(0.5, 10, (2, 1), (1, 1), Z),
        lambda: mix_unjudged(UNKNOWN, 1.1),
        lambda: kish_deff(0.5, 0.2),
        lambda: critical_value(1.0),
        lambda: critical_value(0.95, 0),
    ],
)
def test_broken_preconditions_are_errors(broken: Any) -> None:
    with pytest.raises(ValueError):
        broken()


INFORMATIVE = st.integers(30, 500).flatmap(lambda n: st.tuples(st.integers(n * 4 // 5, n), st.just(n)))
CLUSTERS = st.lists(st.integers(1, 9).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m))), min_size=2)


@given(st.integers(1, 2000), st.data(), st.floats(0.5, 0.999))
def test_more_accepted_never_lowers_a_bound(n: int, data: st.DataObject, confidence: float) -> None:
    k = data.draw(st.integers(0, n - 1))
    critical = critical_value(confidence)
    scores = (wilson(k / n, n, critical), wilson((k + 1) / n, n, critical))
    exact = (clopper_pearson(k, n, confidence), clopper_pearson(k + 1, n, confidence))
    for fewer, more in (scores, exact):
        assert 0 <= fewer.lower <= k / n + 1e-12 and k / n - 1e-12 <= fewer.upper <= 1
        assert fewer.lower <= more.lower and fewer.upper <= more.upper


@given(st.integers(0, 699), INFORMATIVE, INFORMATIVE)
def test_more_accepted_never_lowers_a_corrected_bound(k: int, sens: tuple[int, int], spec: tuple[int, int]) -> None:
    fewer, more = (lang_reiczigel(good / 700, 700, sens, spec, Z).unclipped for good in (k, k + 1))
    assert fewer.lower <= more.lower and fewer.upper <= more.upper


@given(CLUSTERS, st.floats(0, 1))
def test_clustered_bounds_lie_in_the_unit_interval_and_hold_the_share(
    clusters: list[tuple[float, int]], w: float
) -> None:
    found = policy_deff(cluster_proportion(clusters), 10, 0.2)
    interval = wilson_clustered(found, 0.95)
    assert 0 <= interval.lower <= found.p + 1e-12 and found.p - 1e-12 <= interval.upper <= 1
    assert found.deff >= 1 and found.n_eff <= found.n
    naive = wilson(min(found.p, 1), found.n, Z)
    assert interval.lower <= naive.lower + 1e-12 and interval.upper >= naive.upper - 1e-12
    mixed = mix_unjudged(interval, w)
    assert 0 <= mixed.lower <= interval.lower and interval.upper - 1e-12 <= mixed.upper <= 1 + 1e-12


@given(CLUSTERS, st.randoms())
def test_the_order_of_clusters_does_not_matter(clusters: list[tuple[float, int]], shuffle: random.Random) -> None:
    shuffled = list(clusters)
    shuffle.shuffle(shuffled)
    assert cluster_proportion(shuffled) == cluster_proportion(clusters)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_verdict_is_exactly_one_of_three(a: float, b: float, floor: float) -> None:
    interval = Interval(min(a, b), max(a, b))
    verdict = against_floor(interval, floor)
    assert (verdict is Verdict.PASS) == (interval.lower >= floor)
    assert (verdict is Verdict.FAIL) == (interval.upper < floor)


def test_coverage_is_near_nominal_where_independence_fails() -> None:
    """40 tasks of 9 rows, icc 0.2, true share 0.9, seeded: the clustered interval covers, the plain one does not."""
    seeded, runs, share, icc = random.Random(20261201), 1500, 0.9, 0.2
    scale = 1 / icc - 1
    covered = plain = missed_low = 0
    for _ in range(runs):
        chances = [seeded.betavariate(share * scale, (1 - share) * scale) for _ in range(40)]
        clusters = [(float(sum(seeded.random() < chance for _ in range(9))), 9) for chance in chances]
        found = policy_deff(cluster_proportion(clusters), 10, 0.2)
        interval, naive = wilson_clustered(found, 0.95), wilson(found.p, found.n, Z)
        covered += interval.lower <= share <= interval.upper
        missed_low += interval.lower > share  # a false pass at a floor of exactly the true share
        plain += naive.lower <= share <= naive.upper
    assert 0.93 <= covered / runs <= 0.98
    assert missed_low / runs <= 0.045  # nominal 0.025; a large simulation of this case gives about 0.03
    assert plain / runs < 0.85
