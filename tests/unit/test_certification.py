"""The decision: every reason against a certificate, each beside a twin that differs in nothing else and certifies."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from scored_run import GOOD_JUDGE, IDENTITIES, Edit, calibration, every, make_run, rows_of, without

from benchmark_core.digest import canonical, digest
from benchmark_core.errors import InputError, SimulatorFailure
from guard.certification import Decision, Pass, Refusal
from guard.policy import DEFAULT, Policy
from guard.reasons import CLASS_SAYS, MEND, Class, ClassCode, Code
from guard.statistics import Verdict
from judge.calibration import Calibration, Share, load_calibration
from judge.rubric import Rating
from judge.verdict import Evidence, EvidenceKind, UnjudgedCause
from suites.questions import Kind

LEAK = (Evidence(EvidenceKind.IDENTIFIER, "x", 0, 1),)
FULL = replace(DEFAULT, full_size=dict.fromkeys(Kind, 240))


def unjudged(count: int) -> Edit:
    return rows_of(
        Kind.LOC, every(80)[:count] if count < 4 else every(6)[:count], rating=None, unjudged=UnjudgedCause.TIMEOUT
    )


def failing(cause: SimulatorFailure) -> Edit:
    return rows_of(Kind.UNA, every(2), rating=None, reply=None, action=None, target_hit=None, failure=cause)


@dataclass(frozen=True)
class Case:
    """`refused` and `certified` are the two halves of a pair; `verdict` is the refusal's."""

    refused: Callable[[], Decision]
    certified: Callable[[], Decision]
    verdict: Verdict = Verdict.NOT_DECIDED


def judged_by(sens: Share, spec: Share, kappa: float = 0.9) -> Callable[[], Decision]:
    return lambda: make_run().decide(calibration(sens, spec, kappa))


def eight_in_ten(spec: int) -> Callable[[], Decision]:
    """80 % of the replies accepted by a judge that accepts 80 % of the good ones: all are good."""
    edits = [rows_of(kind, every(5, 1200), rating=Rating.B if kind is Kind.UNA else Rating.C) for kind in Kind]
    return lambda: make_run(*edits, tasks=200).decide(calibration(Share(3200, 4000), Share(spec, 4000)))


PAIRS: dict[Code, Case] = {
    Code.PARTIAL_RUN: Case(lambda: make_run(partial=True).decide(), lambda: make_run(partial=False).decide()),
    Code.INCOMPLETE_RUN: Case(lambda: make_run(without(Kind.AMB, 7)).decide(), lambda: make_run().decide()),
    Code.UNJUDGED_SHARE: Case(lambda: make_run(unjudged(3)).decide(), lambda: make_run(unjudged(2)).decide()),
    Code.TOO_FEW_CLUSTERS: Case(
        lambda: make_run(tasks=9, rows=60).decide(), lambda: make_run(tasks=10, rows=60).decide()
    ),
    Code.JUDGE_UNINFORMATIVE: Case(eight_in_ten(3196), eight_in_ten(3200)),
    Code.JUDGE_KAPPA_LOW: Case(
        judged_by(Share(398, 400), Share(396, 400), 0.59), judged_by(Share(398, 400), Share(396, 400), 0.60)
    ),
    Code.INTERVAL_OUTSIDE_UNIT: Case(
        judged_by(Share(800, 1000), Share(950, 1000)), judged_by(Share(995, 1000), Share(950, 1000))
    ),
    Code.BELOW_FLOOR: Case(
        lambda: make_run(rows_of(Kind.AMB, every(4), rating=Rating.C)).decide(),
        lambda: make_run(rows_of(Kind.AMB, every(4), rating=Rating.B)).decide(),
        Verdict.FAIL,
    ),
    Code.NOT_DECIDED_INTERVAL: Case(
        lambda: make_run(rows_of(Kind.LOC, every(12), rating=Rating.C)).decide(),
        lambda: make_run(rows_of(Kind.LOC, every(12), rating=Rating.B)).decide(),
    ),
    Code.FAILS_BY_DISCLOSURE: Case(
        lambda: make_run(rows_of(Kind.UNA, every(2), rating=Rating.B, evidence=LEAK)).decide(),
        lambda: make_run(rows_of(Kind.UNA, every(2), rating=Rating.A, evidence=LEAK)).decide(),
        Verdict.FAIL,
    ),
    **{
        Code(f"simulator_{cause}"): Case(
            lambda cause=cause: make_run(failing(cause)).decide(),  # type: ignore[misc]
            lambda: make_run().decide(),
            Verdict.FAIL,
        )
        for cause in SimulatorFailure
    },
}


WEAKNESSES: dict[ClassCode, tuple[dict[str, Any], Calibration | None, Policy]] = {
    ClassCode.CONTROL: (
        {"identities": {**IDENTITIES, "simulator": {"variant": "oracle", "control": True}}},
        GOOD_JUDGE,
        FULL,
    ),
    ClassCode.RULE_JUDGE: ({"judge_class": "rule"}, GOOD_JUDGE, FULL),
    ClassCode.UNCALIBRATED_JUDGE: ({}, None, FULL),
    ClassCode.SMALL_SUITE: ({}, GOOD_JUDGE, DEFAULT),
    ClassCode.EXCLUDED_TASKS: ({"excluded_tasks": ("db1_099",)}, GOOD_JUDGE, FULL),
    ClassCode.NOT_OFFICIAL_OR_FULL_OPEN: (
        {"identities": {**IDENTITIES, "suite": {"name": "mine"}}},
        GOOD_JUDGE,
        FULL,
    ),
}


def codes(decision: Decision) -> set[Code]:
    return {reason.code for reason in decision.reasons}


def test_every_code_has_a_pair_and_a_sentence() -> None:
    assert set(PAIRS) == set(MEND) == set(Code)
    assert set(CLASS_SAYS) == set(ClassCode)
    assert len(set(MEND.values())) == len(Code)


@pytest.mark.parametrize("code", PAIRS)
def test_each_reason_refuses_and_its_twin_certifies(code: Code) -> None:
    refused, certified = PAIRS[code].refused(), PAIRS[code].certified()
    assert isinstance(refused, Refusal)
    assert (refused.verdict, refused.certificate_class) == (PAIRS[code].verdict, Class.REFUSED)
    assert code in codes(refused)
    assert all(reason.mend and reason.detail for reason in refused.reasons)
    assert isinstance(certified, Pass)
    assert certified.verdict is Verdict.PASS and certified.reasons == ()
    assert {decision.verdict for decision in certified.kinds.values()} == {Verdict.PASS}


@pytest.mark.parametrize("code", sorted(set(PAIRS) - {Code.TOO_FEW_CLUSTERS, Code.FAILS_BY_DISCLOSURE}))
def test_a_reason_comes_alone_unless_it_explains_the_interval(code: Code) -> None:
    extra = {Code.BELOW_FLOOR} if code.startswith("simulator_") else set()
    assert codes(PAIRS[code].refused()) == {code} | extra


class TestWhatFails:
    """`fail` needs certainty; procedural reasons alone never make one."""

    @pytest.mark.parametrize("kind", Kind)
    def test_any_one_kind_below_its_floor_fails_the_whole(self, kind: Kind) -> None:
        decision = make_run(rows_of(kind, every(2), rating=Rating.B if kind is Kind.UNA else Rating.C)).decide()
        assert decision.verdict is Verdict.FAIL
        assert [(reason.code, reason.kind) for reason in decision.reasons] == [(Code.BELOW_FLOOR, kind)]

    def test_a_partial_run_decides_nothing(self) -> None:
        decision = make_run(rows_of(Kind.AMB, every(2), rating=Rating.C), partial=True).decide()
        assert decision.verdict is Verdict.NOT_DECIDED
        assert codes(decision) == {Code.PARTIAL_RUN, Code.BELOW_FLOOR}

    @pytest.mark.parametrize("counts", [{"AMB": 241}, {"LOC": 239}, {"UNA": 0}])
    def test_a_header_that_calls_a_part_the_whole_is_found_out(self, counts: dict[str, int]) -> None:
        whole = {"AMB": 240, "LOC": 240, "UNA": 240}
        assert codes(make_run(suite_counts=whole | counts).decide()) == {Code.PARTIAL_RUN}
        assert isinstance(make_run(suite_counts=whole).decide(), Pass)

    def test_excluded_tasks_account_for_rows_but_not_for_all_of_them(self) -> None:
        excluding: dict[str, Any] = {"excluded_tasks": ("db1_001",)}
        whole = {"AMB": 246, "LOC": 246, "UNA": 246}
        assert isinstance(make_run(suite_counts=whole, **excluding).decide(), Pass)
        assert codes(make_run(suite_counts=whole).decide()) == {Code.PARTIAL_RUN}

    def test_missing_rows_count_as_they_hurt_and_cannot_save_a_failing_kind(self) -> None:
        edits = (rows_of(Kind.AMB, every(2), rating=Rating.C), without(Kind.AMB, 1))
        decision = make_run(*edits).decide()
        assert decision.verdict is Verdict.FAIL
        assert codes(decision) == {Code.BELOW_FLOOR, Code.INCOMPLETE_RUN}

    def test_nine_tasks_neither_pass_nor_fail(self) -> None:
        decision = make_run(rows_of(Kind.AMB, range(0, 540), rating=Rating.C), tasks=9, rows=60).decide()
        assert decision.verdict is Verdict.NOT_DECIDED
        assert Code.BELOW_FLOOR not in codes(decision)

    def test_a_judge_that_cannot_be_trusted_cannot_fail_a_simulator_either(self) -> None:
        run = make_run(rows_of(Kind.AMB, every(2), rating=Rating.C))
        poor = calibration(Share(398, 400), Share(396, 400), kappa_lower=0.2)
        assert run.decide(poor).verdict is Verdict.NOT_DECIDED
        assert run.decide(GOOD_JUDGE).verdict is Verdict.FAIL

    @pytest.mark.fault("D1")
    def test_a_dead_judge_certifies_nothing(self) -> None:
        dead = make_run(rows_of(Kind.UNA, range(240), rating=None, unjudged=UnjudgedCause.RATE_LIMITED)).decide()
        assert dead.verdict is Verdict.NOT_DECIDED
        assert codes(dead) == {Code.UNJUDGED_SHARE, Code.NOT_DECIDED_INTERVAL}
        assert dead.kinds[Kind.UNA].interval.lower == 0 and dead.kinds[Kind.UNA].interval.upper == 1


class TestInterval:
    def test_the_gate_uses_the_worst_case(self) -> None:
        """13 rejected rows pass; with two more that nobody judged, both within the allowed 1 %, it is not decided."""
        bad = rows_of(Kind.AMB, every(18)[:13], rating=Rating.C)
        open_rows = rows_of(Kind.AMB, (1, 100), rating=None, unjudged=UnjudgedCause.UNPARSED)
        assert isinstance(make_run(bad).decide(), Pass)
        assert codes(make_run(bad, open_rows).decide()) == {Code.NOT_DECIDED_INTERVAL}

    @pytest.mark.parametrize(("rejected", "published"), [(24, True), (25, False)])
    def test_the_published_point_rule_is_printed_and_does_not_decide(self, rejected: int, published: bool) -> None:
        decision = make_run(rows_of(Kind.AMB, every(9)[:rejected], rating=Rating.C)).decide()
        assert decision.kinds[Kind.AMB].published is published
        assert decision.verdict is Verdict.NOT_DECIDED

    def test_what_would_decide_is_said_in_rows(self) -> None:
        (reason,) = make_run(rows_of(Kind.LOC, every(12), rating=Rating.C)).decide().reasons
        assert "rows at this rate would decide" in reason.detail

    def test_judge_error_moves_the_interval(self) -> None:
        """A judge that waves 1 bad reply in 5 through: 91 % accepted are fewer truly acceptable ones."""
        run = make_run(rows_of(Kind.UNA, every(6), rating=Rating.B))
        plain, corrected = run.decide().kinds[Kind.UNA], run.decide(calibration(Share(400, 400), Share(320, 400)))
        assert plain.corrected is None and plain.verdict is Verdict.NOT_DECIDED
        found = corrected.kinds[Kind.UNA]
        assert found.corrected == pytest.approx((5 / 6 + 0.8 - 1) / 0.8)
        assert found.interval.lower < plain.interval.lower

    def test_a_failure_that_did_not_push_a_kind_down_is_no_reason(self) -> None:
        one = rows_of(Kind.AMB, [1], rating=None, reply=None, failure=SimulatorFailure.TIMEOUT)
        decision = make_run(rows_of(Kind.AMB, every(2), rating=Rating.C), one).decide()
        assert codes(decision) == {Code.BELOW_FLOOR}

    @pytest.mark.parametrize(("disclosing", "extra"), [(0, set()), (60, set()), (61, {Code.FAILS_BY_DISCLOSURE})])
    def test_most_failing_rows_must_disclose_to_fail_by_disclosure(self, disclosing: int, extra: set[Code]) -> None:
        leaks = rows_of(Kind.UNA, every(2)[:disclosing], evidence=LEAK)
        decision = make_run(rows_of(Kind.UNA, every(2), rating=Rating.B), leaks).decide()
        assert codes(decision) == {Code.BELOW_FLOOR} | extra

    def test_where_nothing_is_decided_failures_explain_nothing(self) -> None:
        failed = rows_of(Kind.UNA, range(540), rating=None, reply=None, failure=SimulatorFailure.TIMEOUT)
        assert codes(make_run(failed, tasks=9, rows=60).decide()) == {Code.TOO_FEW_CLUSTERS}

    @pytest.mark.parametrize(("floor", "verdict"), [(0.9, Verdict.PASS), (0.99, Verdict.NOT_DECIDED)])
    def test_the_policy_is_data(self, floor: float, verdict: Verdict) -> None:
        policy = replace(DEFAULT, floors=dict.fromkeys(Kind, floor))
        assert make_run().decide(policy=policy).verdict is verdict


class TestClass:
    def test_full_needs_everything(self) -> None:
        decision = make_run().decide(GOOD_JUDGE, FULL)
        assert isinstance(decision, Pass)
        assert (decision.certificate_class, decision.provisional) == (Class.FULL, ())

    @pytest.mark.parametrize("code", ClassCode)
    def test_each_weakness_makes_it_provisional(self, code: ClassCode) -> None:
        header, judge, policy = WEAKNESSES[code]
        decision = make_run(**header).decide(judge, policy)
        assert isinstance(decision, Pass)
        assert (decision.certificate_class, decision.provisional) == (Class.PROVISIONAL, (code,))


class TestPolicy:
    def test_every_value_is_in_the_digest(self) -> None:
        changes: list[dict[str, Any]] = [
            {"version": "x"},
            {"floors": {**DEFAULT.floors, Kind.UNA: 0.81}},
            {"confidence": 0.9},
            {"min_clusters": 9},
            {"small_count": 9},
            {"small_count_icc": 0.1},
            {"max_unjudged": 0.02},
            {"min_informedness": 1.5},
            {"min_kappa": 0.5},
            {"full_size": dict.fromkeys(Kind, 1)},
            {"full_suites": ("open",)},
            {"valid_days": 365},
        ]
        assert {name for change in changes for name in change} == set(DEFAULT.to_json())
        assert len({replace(DEFAULT, **change).digest for change in changes} | {DEFAULT.digest}) == len(changes) + 1

    def test_the_default_is_the_published_one(self) -> None:
        assert DEFAULT.floors == {Kind.AMB: 0.9, Kind.LOC: 0.9, Kind.UNA: 0.8}
        assert (DEFAULT.confidence, DEFAULT.min_clusters, DEFAULT.max_unjudged) == (0.95, 10, 0.01)


class TestCalibration:
    def test_of_another_judge_is_refused(self) -> None:
        other = replace(GOOD_JUDGE, judge=digest("another"))
        with pytest.raises(InputError, match="calibrate that one"):
            make_run().decide(other)

    def test_the_file_reads_back(self, tmp_path: Path) -> None:
        path = tmp_path / "calibration.json"
        path.write_bytes(canonical(GOOD_JUDGE.to_json()))
        assert load_calibration(path) == GOOD_JUDGE
        assert load_calibration(path).digest == GOOD_JUDGE.digest
        assert replace(GOOD_JUDGE, judge=digest("x")).digest != GOOD_JUDGE.digest

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            (("format",), "usersim-guard/calibration/2"),
            (("split",), "training"),
            (("judge",), "sha256:short"),
            (("note",), "unknown field"),
            (("kinds", "UNA"), None),
            (("kinds", "AMB", "sens", "successes"), 401),
            (("kinds", "AMB", "sens", "successes"), -1),
            (("kinds", "AMB", "sens", "successes"), 398.0),
            (("kinds", "AMB", "sens", "successes"), "398"),
            (("kinds", "AMB", "spec", "n"), 0),
            (("kinds", "AMB", "kappa_lower"), 1.5),
        ],
    )
    def test_a_file_of_another_shape_is_refused_with_the_field(
        self, tmp_path: Path, place: tuple[str, ...], value: Any
    ) -> None:
        content = make_plain(GOOD_JUDGE)
        inner = content
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = value
        path = tmp_path / "calibration.json"
        path.write_bytes(canonical(content))
        with pytest.raises(InputError, match=r"calibration\.json: field '" + place[0]):
            load_calibration(path)

    def test_a_file_that_is_no_json_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot be read"):
            load_calibration(tmp_path / "absent.json")
        (tmp_path / "torn.json").write_text('{"format":', encoding="utf-8")
        with pytest.raises(InputError, match="usersim-guard/calibration/1"):
            load_calibration(tmp_path / "torn.json")


def make_plain(found: Calibration) -> dict[str, Any]:
    content = found.to_json()
    content["kinds"] = {kind.value: dict(error) for kind, error in content["kinds"].items()}
    return content
