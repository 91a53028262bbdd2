"""Counting a run: every planned row counts, in any order, and what cannot be counted is refused."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scored_run import CALL, Edit, Run, accepted_item, every, make_run, rows_of, without

from benchmark_core.errors import LedgerError, SimulatorFailure
from benchmark_core.ports import Action
from guard.bounds import Cell, corrected_gate, gate
from guard.ledger import Call
from guard.policy import DEFAULT
from guard.scorecard import UNKNOWN_DATABASE, tally
from guard.statistics import UNKNOWN, Status, critical_value, lang_reiczigel, mix_unjudged, wilson
from judge.calibration import KindError, Share
from judge.rubric import Rating
from judge.verdict import Evidence, EvidenceKind, UnjudgedCause
from suites.questions import Kind, QuestionKey, Style

LEAK = (Evidence(EvidenceKind.IDENTIFIER, "SECRET column", 0, 3), Evidence(EvidenceKind.CODE, "SECRET sql", 0, 3))
MIXED = (
    rows_of(Kind.AMB, range(0, 60), rating=Rating.B),
    rows_of(Kind.AMB, range(60, 72), rating=Rating.C),
    rows_of(Kind.AMB, range(72, 77), rating=None, unjudged=UnjudgedCause.TRUNCATED),
    rows_of(Kind.AMB, range(77, 80), rating=None, reply=None, action=None, failure=SimulatorFailure.TIMEOUT),
    without(Kind.AMB, 238, 239),
    rows_of(Kind.UNA, every(4), rating=Rating.B, evidence=LEAK),
    rows_of(Kind.UNA, [1], evidence=LEAK[:1]),
)


def test_every_planned_row_is_counted_once() -> None:
    score = make_run(*MIXED).tally().kinds[Kind.AMB]
    assert score.total == Cell("AMB", accepted=218, rejected=12, failed=3, open=7)
    assert score.total.rows == 240
    assert score.ratings == {"A": 158, "B": 60, "C": 12}
    assert (score.unjudged, score.failures, score.missing) == ({"truncated": 5}, {"timeout": 3}, 2)
    assert (score.rate, score.best_rate) == (218 / 240, 225 / 240)
    assert score.plain.lower == pytest.approx(wilson(218 / 240, 240, critical_value(0.95)).lower)
    assert score.plain.upper == pytest.approx(wilson(225 / 240, 240, critical_value(0.95)).upper)
    assert sum(cell.rows for cell in score.tasks) == 240 and len(score.tasks) == 40
    assert [part.total.name for part in score.styles] == sorted(Style)
    assert [part.total.rows for part in score.databases] == [60] * 4
    una = make_run(*MIXED).tally().kinds[Kind.UNA]
    assert (una.total.accepted, una.total.rejected) == (180, 60)  # B is accepted for AMB and LOC alone


def test_the_gate_is_wider_than_the_plain_interval_where_failures_lump() -> None:
    lumped = make_run(rows_of(Kind.LOC, range(36), rating=Rating.C)).tally().kinds[Kind.LOC]
    spread = make_run(rows_of(Kind.LOC, every(6, 216), rating=Rating.C)).tally().kinds[Kind.LOC]
    assert lumped.rate == spread.rate and lumped.plain == spread.plain
    assert lumped.gate.interval.lower < lumped.plain.lower
    assert lumped.gate.estimate is not None and lumped.gate.estimate.deff > 5
    assert spread.gate.estimate is not None and spread.gate.estimate.deff == 1
    assert lumped.whole_tasks.lower > spread.whole_tasks.upper  # 34 of 40 tasks whole against 4 of 40
    assert lumped.by_database.lower < lumped.by_database.upper


def test_stage_1_is_reported_apart_from_the_ratings() -> None:
    run = make_run(
        rows_of(Kind.LOC, range(10), action=Action(Kind.UNA), target_hit=None),
        rows_of(Kind.LOC, range(10, 15), target_hit=False),
        rows_of(Kind.LOC, range(15, 18), action=None, target_hit=None),
    )
    score = run.tally().kinds[Kind.LOC]
    assert score.chosen == {"LOC": 227, "UNA": 10, "no action": 3}
    assert score.targets == (222, 227)
    assert score.rate == 1
    assert run.tally().kinds[Kind.UNA].targets == (0, 0)


def test_disclosure_counts_rows_not_pieces() -> None:
    score = make_run(*MIXED).tally().kinds[Kind.UNA]
    assert score.evidence == {"any": 61, "identifier": 61, "code": 60}
    assert score.rejected_with_evidence == 60
    double = make_run(rows_of(Kind.UNA, [0], evidence=(LEAK[0], LEAK[0]))).tally().kinds[Kind.UNA]
    assert double.evidence == {"any": 1, "identifier": 1}


def test_the_last_attempt_counts_and_every_attempt_is_paid() -> None:
    run = make_run(rows_of(Kind.AMB, [5], rating=None, reply=None, failure=SimulatorFailure.EMPTY))
    again = replace(accepted_item(run.items[5].key, "db0"), attempt=2)
    card = replace(run, items=(again, *run.items)).tally()
    score = card.kinds[Kind.AMB]
    assert (score.total.accepted, score.total.failed, score.retried) == (240, 0, 1)
    assert card.usage["simulator"].calls == 721


def test_models_tokens_and_fingerprints_are_kept_per_role() -> None:
    other = Call("judge", "judge-1\x1b[31m" + "x" * 500, None, None, None, 3, True, 1.0)
    usage = (
        make_run(rows_of(Kind.LOC, [0], calls=(CALL, replace(CALL, system_fingerprint="fp_2"), other))).tally().usage
    )
    simulator, judge = usage["simulator"], usage["judge"]
    assert simulator.models == {"sim-1 @ fp_1": 720, "sim-1 @ fp_2": 1}
    assert (simulator.prompt_tokens, simulator.completion_tokens, simulator.uncounted) == (72100, 14420, 0)
    assert (judge.calls, judge.cached, judge.requests, judge.uncounted) == (1, 1, 3, 1)
    (name,) = judge.models
    assert name.isprintable() and len(name) <= 160


def test_a_missing_task_has_no_database_and_a_known_one_keeps_its_own() -> None:
    gone = make_run(without(Kind.AMB, *range(6)), without(Kind.LOC, *range(6)), without(Kind.UNA, *range(6)))
    cells = {part.total.name: part.total for part in gone.tally().kinds[Kind.AMB].databases}
    assert (cells[UNKNOWN_DATABASE].open, cells["db0"].rows) == (6, 54)
    first = make_run(without(Kind.AMB, *range(6))).tally().kinds[Kind.AMB].databases[0]
    assert (first.total.name, first.total.rows) == ("db0", 60)


def test_a_kind_without_rows_is_unknown_not_zero() -> None:
    run = make_run(lambda _, item: item if item.key.kind is Kind.AMB else None)
    only = {Kind.AMB: run.expected[Kind.AMB]}
    card = tally(run.items, replace(run.header, planned=240, partial=True), only)
    loc = card.kinds[Kind.LOC]
    assert (loc.rate, loc.gate.interval, loc.gate.estimate, loc.plain) == (None, UNKNOWN, None, UNKNOWN)
    assert json.loads(json.dumps(card.to_json()))["kinds"]["LOC"]["rate"] is None


def test_what_cannot_be_counted_is_refused() -> None:
    run = make_run()
    first, key = run.items[0], run.items[0].key
    stranger = replace(first, key=replace(key, question_id="q99"))
    broken: list[tuple[Run, str]] = [
        (replace(run, items=(*run.items, first)), "attempt 1 of .* stands twice"),
        (replace(run, items=(*run.items, stranger)), "not planned"),
        (replace(run, items=(replace(first, database="db9"), *run.items[1:])), "two databases"),
        (replace(run, header=replace(run.header, planned=719)), "the run planned 719"),
        (replace(run, expected={**run.expected, Kind.AMB: run.expected[Kind.LOC]}), "the run planned 720"),
        (replace(run, expected={Kind.LOC: run.expected[Kind.AMB], Kind.AMB: run.expected[Kind.LOC]}), "planned"),
        (make_run(rows_of(Kind.UNA, [0], rating=Rating.C)), "not on the menu"),
    ]
    for ledger, message in broken:
        with pytest.raises(LedgerError, match=message):
            ledger.tally()
    swapped = {**run.expected, Kind.LOC: run.expected[Kind.AMB], Kind.AMB: run.expected[Kind.LOC]}
    with pytest.raises(LedgerError, match="expected under"):
        replace(run, expected=swapped).tally()
    assert run.tally().kinds[Kind.AMB].rate == 1  # the twin of all of them


@pytest.mark.fault("D8")
def test_keys_that_read_alike_when_glued_stay_two_rows() -> None:
    keys = (
        QuestionKey("a_1", "1q", Style.NORMAL, Kind.AMB),
        QuestionKey("a_11", "q", Style.NORMAL, Kind.AMB),
    )
    items = [accepted_item(keys[0], "a"), replace(accepted_item(keys[1], "a"), rating=Rating.C)]
    header = replace(make_run().header, planned=2)
    assert tally(items, header, {Kind.AMB: keys}).kinds[Kind.AMB].ratings == {"A": 1, "C": 1}


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_matter(shuffle: random.Random) -> None:
    run = make_run(*MIXED)
    items, expected = list(run.items), {kind: list(keys) for kind, keys in run.expected.items()}
    shuffle.shuffle(items)
    for keys in expected.values():
        shuffle.shuffle(keys)
    card = tally(iter(items), run.header, expected)
    assert card == run.tally()
    assert json.dumps(card.to_json()) == json.dumps(run.tally().to_json())
    assert card.digest == run.tally().digest


def test_the_scorecard_holds_no_text_of_a_row() -> None:
    text = json.dumps(make_run(*MIXED).tally().to_json())
    assert "SECRET" not in text
    assert json.loads(text)["schema"] == "usersim-guard/scorecard/1"


@pytest.mark.parametrize("edit", [*MIXED[:6], rows_of(Kind.LOC, [3], target_hit=False)])
def test_the_digest_sees_every_count(edit: Edit) -> None:
    assert make_run(edit).tally().digest != make_run().tally().digest


CELLS = st.lists(st.tuples(*[st.integers(0, 5)] * 4).filter(any).map(lambda counts: Cell("t", *counts)), min_size=2)
ERROR = KindError(Share(95, 100), Share(90, 100), 0.8)


@given(CELLS)
def test_bounds_lie_in_the_unit_interval_and_hold_worst_and_best_case(cells: list[Cell]) -> None:
    rows = sum(cell.rows for cell in cells)
    found = gate(cells, DEFAULT).interval
    worst, best = sum(c.accepted for c in cells) / rows, sum(c.accepted + c.open for c in cells) / rows
    assert 0 <= found.lower <= worst + 1e-12 and best - 1e-12 <= found.upper <= 1
    corrected = corrected_gate(cells, ERROR, DEFAULT).interval
    assert 0 <= corrected.lower <= corrected.upper <= 1 + 1e-12


@given(st.integers(1, 300), st.data())
def test_with_one_row_a_task_more_accepted_never_lowers_the_gate(tasks: int, data: st.DataObject) -> None:
    good = data.draw(st.integers(0, tasks))
    cells = [Cell(str(i), int(i < good), int(i >= good), 0, 0) for i in range(tasks + 1)]
    more = [Cell(str(i), int(i <= good), int(i > good), 0, 0) for i in range(tasks + 1)]
    before, after = gate(cells, DEFAULT).interval, gate(more, DEFAULT).interval
    assert before.lower <= after.lower + 1e-12 and before.upper <= after.upper + 1e-12


@given(st.integers(0, 39), st.integers(1, 6))
def test_an_open_row_widens_the_gate_on_both_sides(task: int, rows: int) -> None:
    closed = [Cell(str(i), 5, 1, 0, 0) for i in range(40)]
    opened = [replace(c, accepted=5 - min(rows, 5), rejected=0, open=1 + min(rows, 5)) for c in closed[task : task + 1]]
    wider = gate([*closed[:task], *opened, *closed[task + 1 :]], DEFAULT).interval
    assert wider.lower < gate(closed, DEFAULT).interval.lower
    assert wider.upper > gate(closed, DEFAULT).interval.upper


def test_a_failed_row_is_corrected_to_exactly_zero() -> None:
    """Half the rows without a reply halve the corrected share; no judge error can lift them."""
    judged = [Cell(str(i), 4 + i % 2, 1 - i % 2, 0, 0) for i in range(40)]
    halved = [replace(cell, failed=5) for cell in judged]
    whole, half = corrected_gate(judged, ERROR, DEFAULT), corrected_gate(halved, ERROR, DEFAULT)
    assert whole.theta is not None and half.theta == pytest.approx(whole.theta / 2)
    assert whole.status is Status.OK
    nothing = corrected_gate([Cell(str(i), 0, 0, 6, 0) for i in range(40)], ERROR, DEFAULT)
    assert nothing.theta == pytest.approx(0) and nothing.interval.upper < 0.1


def test_open_rows_are_mixed_in_after_the_correction() -> None:
    judged = [Cell(str(i), 4 + i % 2, 1 - i % 2, 0, 0) for i in range(40)]
    opened = [replace(cell, open=1) for cell in judged]
    found, wanted = corrected_gate(opened, ERROR, DEFAULT), corrected_gate(judged, ERROR, DEFAULT)
    assert found.theta == wanted.theta
    assert found.interval == mix_unjudged(wanted.interval, 5 / 6)


def test_the_gate_takes_the_policy_s_design_effect() -> None:
    found = make_run().tally().kinds[Kind.AMB].gate.estimate
    assert found is not None and found.deff == pytest.approx(1 + 5 * 0.2)


def test_without_failed_and_open_rows_the_corrected_gate_is_lang_reiczigel_with_n_eff_and_t() -> None:
    cells = [Cell(str(i), 4 + i % 2, 1 - i % 2, 0, 0) for i in range(40)]
    found = corrected_gate(cells, ERROR, DEFAULT)
    assert found.estimate is not None
    wanted = lang_reiczigel(0.9, found.estimate.n_eff, ERROR.sens, ERROR.spec, critical_value(0.95, 39))
    assert found.interval == wanted.unclipped.clipped()
