"""Comparing two runs: what may be compared, what is counted, and what the verdict looks at."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from made_runs import LLM, RULE, Outcome, bad, every, good, simulator, write_run
from suite_builder import small_suite, write_suite
from typer.testing import CliRunner, Result

from benchmark_core.errors import InputError, LedgerError, SimulatorFailure
from guard.cli_compare import compare as command
from guard.cli_compare import show_comparison
from guard.compare import compare
from guard.comparison import FLIPS_SHOWN, SCHEMA, Comparison, Finding
from guard.paired import Pairs, mcnemar
from guard.runs import RunFolder
from guard.scoring import Scope
from judge.rubric import Rating
from judge.verdict import UnjudgedCause
from suites.load import Suite, load
from suites.questions import Kind

ROWS = 12 * 9
Compare = Callable[..., Comparison]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """12 tasks, 9 questions of each kind in each."""
    return small_suite(tmp_path_factory.mktemp("suite"), tasks=12, points=3)


@pytest.fixture
def of(suite: Suite, tmp_path: Path) -> Compare:
    """Compare two runs by their outcomes."""

    def made(a: Outcome, b: Outcome, **b_is: Any) -> Comparison:
        first = write_run(tmp_path / "a", suite, a)
        second = write_run(tmp_path / "b", suite, b, **{"of": simulator("function-driven"), **b_is})
        return compare(suite, first, second)

    return made


def all_good(at: int, question: Any) -> Any:
    return good(question)


def test_counts_rates_and_findings(of: Compare) -> None:
    found = of(every(6, Kind.AMB), every(2, Kind.AMB, Kind.UNA))
    amb, loc, una = (found.kinds[kind] for kind in Kind)
    assert amb.pairs == Pairs(both=54, first=36, second=0, neither=18)
    assert amb.rates == pytest.approx((90 / 108, 54 / 108))
    assert amb.difference == pytest.approx(1 / 3)
    assert amb.p == mcnemar(36, 0)
    assert amb.finding is Finding.A_HIGHER
    assert amb.interval.lower > 0
    assert (loc.pairs, loc.p, loc.p_holm, loc.finding) == (Pairs(108, 0, 0, 0), 1, 1, Finding.NONE_SHOWN)
    assert una.pairs == Pairs(54, 54, 0, 0)
    assert (una.p_holm, amb.p_holm) == pytest.approx((3 * una.p, 2 * amb.p))
    assert (found.shared, found.only, found.same_simulator) == (3 * ROWS, (0, 0), False)
    assert (len(found.lost), len(found.gained)) == (36 + 54, 0)
    assert {key.kind for key in found.lost} == {Kind.AMB, Kind.UNA}


def test_a_difference_that_chance_may_have_made_is_not_shown(of: Compare) -> None:
    part = of(all_good, every(25, Kind.LOC)).kinds[Kind.LOC]
    assert (part.pairs.first, part.p, part.p_holm) == (5, 0.0625, 0.1875)
    assert part.interval.lower < 0
    assert (part.finding, part.why) == (Finding.NONE_SHOWN, "")


def test_swapping_the_runs_swaps_the_findings(suite: Suite, tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", suite, every(6))
    b = write_run(tmp_path / "b", suite, every(2))
    forth, back = compare(suite, a, b), compare(suite, b, a)
    assert (forth.lost, forth.gained) == (back.gained, back.lost)
    for kind in Kind:
        assert (forth.kinds[kind].finding, back.kinds[kind].finding) == (Finding.A_HIGHER, Finding.B_HIGHER)
        assert forth.kinds[kind].difference == -(back.kinds[kind].difference or 0)


def test_a_rating_b_is_accepted_but_for_una(of: Compare) -> None:
    found = of(all_good, lambda at, question: replace(good(question), rating=Rating.B))
    assert [found.kinds[kind].pairs.first for kind in Kind] == [0, 0, ROWS]


def test_a_question_without_a_reply_is_not_accepted_and_counted(of: Compare) -> None:
    def dead(at: int, question: Any) -> Any:
        return replace(good(question), rating=None, reply=None, failure=SimulatorFailure.TIMEOUT)

    found = of(all_good, lambda at, q: dead(at, q) if at < 20 else good(q))
    for part in found.kinds.values():
        assert (part.pairs, part.failed, part.open) == (Pairs(ROWS - 20, 20, 0, 0), (0, 20), 0)
    assert len(found.lost) == 60


def test_open_questions_are_no_pairs_and_bound_the_difference(of: Compare) -> None:
    def unjudged(question: Any) -> Any:
        return replace(good(question), rating=None, unjudged=UnjudgedCause.MALFORMED)

    found = of(
        lambda at, q: unjudged(q) if at < 4 else good(q),
        lambda at, q: None if 2 <= at < 6 else good(q),  # 2 and 3 are open in both
    )
    part = found.kinds[Kind.LOC]
    assert (part.open, part.pairs) == (6, Pairs(ROWS - 6, 0, 0, 0))
    assert part.difference == 0
    assert (part.extremes.lower, part.extremes.upper) == pytest.approx((-4 / ROWS, 4 / ROWS))
    assert part.widest.lower < part.interval.lower
    assert not found.lost and not found.gained


def test_open_questions_that_could_turn_it(suite: Suite, tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", suite, lambda at, q: None if at % 6 == 1 else good(q))
    b = write_run(tmp_path / "b", suite, every(6))
    part = compare(suite, a, b).kinds[Kind.AMB]
    assert part.interval.lower > 0 and part.p_holm < 0.05
    assert (part.finding, part.why) == (Finding.NOT_DECIDED, "18 open questions could turn it")


def test_a_difference_of_one_task_is_not_decided(of: Compare) -> None:
    """Nine pairs for A, all in one task: McNemar sees a difference, the clustered interval does not."""
    part = of(all_good, lambda at, q: bad(q) if q.key.instance_id == "mart_1" else good(q)).kinds[Kind.UNA]
    assert (part.pairs.first, part.pairs.second) == (9, 0)
    assert part.p_holm < 0.05 and part.interval.lower < 0 < part.interval.upper
    assert part.finding is Finding.NOT_DECIDED
    assert part.why == "the test sees a difference, the clustered interval holds 0"


def test_below_ten_tasks_there_is_no_verdict(tmp_path: Path) -> None:
    small = small_suite(tmp_path / "s", tasks=9, points=3)
    a = write_run(tmp_path / "a", small)
    b = write_run(tmp_path / "b", small, every(1))
    for part in compare(small, a, b).kinds.values():
        assert part.interval.lower > 0.8
        assert part.finding is Finding.NO_VERDICT
        assert part.why == "9 tasks with a pair, at least 10 needed"


def test_a_partial_run_is_compared_on_the_shared_questions(of: Compare) -> None:
    found = of(all_good, every(2), scope=Scope(kinds=(Kind.UNA,)))
    assert (found.shared, found.only) == (ROWS, (2 * ROWS, 0))
    assert found.kinds[Kind.UNA].pairs.n == ROWS
    amb = found.kinds[Kind.AMB]
    assert (amb.pairs.n, amb.rates, amb.difference, amb.finding) == (0, None, None, Finding.NO_VERDICT)
    assert found.kinds[Kind.UNA].p_holm == found.kinds[Kind.UNA].p  # a family of one


def test_no_shared_question_is_refused_with_both_numbers(suite: Suite, tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", suite, scope=Scope(kinds=(Kind.AMB,)))
    b = write_run(tmp_path / "b", suite, scope=Scope(kinds=(Kind.UNA, Kind.LOC)))
    with pytest.raises(InputError, match="no shared question: A planned 108, B 216"):
        compare(suite, a, b)


def test_another_judge_is_refused_and_both_are_named(of: Compare) -> None:
    with pytest.raises(InputError) as refused:
        of(all_good, all_good, judge=LLM)
    assert "the rule judge (no language model)" in str(refused.value)
    assert "judge-1, rubric reference" in str(refused.value)
    assert "not comparable" in str(refused.value)


def test_judges_of_one_name_and_another_digest_are_two(of: Compare) -> None:
    with pytest.raises(InputError, match="two judges"):
        of(all_good, all_good, judge={**RULE, "version": 2})


def test_another_suite_is_refused(suite: Suite, tmp_path: Path) -> None:
    other = small_suite(tmp_path / "s", tasks=11, points=3)
    a, b = write_run(tmp_path / "a", suite), write_run(tmp_path / "b", other)
    with pytest.raises(InputError, match="two suites"):
        compare(suite, a, b)
    with pytest.raises(InputError, match=f"^{b.root}: .*--suite"):
        compare(suite, b, b)


def test_a_header_whose_digest_is_not_its_identity_s_is_refused(suite: Suite, tmp_path: Path) -> None:
    """Else a run under another judge could be passed off as one under this."""
    a, b = write_run(tmp_path / "a", suite), write_run(tmp_path / "b", suite, judge=LLM)
    digests = json.loads(a.ledger.read_text().splitlines()[0])["digests"]
    head, *rest = b.ledger.read_text().splitlines(keepends=True)
    forged = json.loads(head)
    forged["digests"]["judge"] = digests["judge"]
    b.ledger.write_text(json.dumps(forged) + "\n" + "".join(rest))
    with pytest.raises(LedgerError, match="digest 'judge'"):
        compare(suite, a, b)


def test_the_last_attempt_counts(suite: Suite, tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", suite)
    b = write_run(tmp_path / "b", suite, every(1, Kind.AMB))
    with b.ledger.open("a", encoding="utf-8") as file:
        for line in b.ledger.read_text().splitlines()[1 : 1 + ROWS]:
            file.write(json.dumps({**json.loads(line), "rating": "A", "attempt": 2}) + "\n")
    assert compare(suite, a, b).kinds[Kind.AMB].pairs == Pairs(ROWS, 0, 0, 0)


def test_json_and_print_hold_keys_and_no_text(of: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    found = of(all_good, every(2))
    made = json.loads(json.dumps(found.to_json()))
    assert made["schema"] == SCHEMA
    assert made["kinds"]["AMB"]["rates"] == [1.0, 0.5]
    assert made["lost"]["count"] == 3 * ROWS // 2
    assert len(made["lost"]["first"]) == FLIPS_SHOWN
    assert made["lost"]["first"][0] == {
        "instance_id": "mart_1", "question_id": "q1", "style": "concise", "kind": "AMB",
    }  # fmt: skip
    show_comparison(found)
    said = capsys.readouterr().out
    assert "McNemar's test takes pairs as independent" in said
    assert f"Accepted in A, not in B: {3 * ROWS // 2}, the first {FLIPS_SHOWN}:" in said
    for text in (json.dumps(made), said):
        assert "SECRET" not in text and "recently" not in text


def test_names_of_others_are_no_markup(of: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    show_comparison(of(all_good, all_good, of=simulator(model="[red]evil[/red]\x1b[31m")))
    said = capsys.readouterr().out
    assert "[red]evil[/red]U+001B[31m" in said
    assert "\x1b" not in said


def test_real_runs_of_the_command_line(tmp_path: Path) -> None:
    """Scored by the command line; `mute` refuses everything, so it is accepted on UNA alone."""
    suite = write_suite(tmp_path / "s", tasks=10, points=1)
    for name in ("oracle", "mute"):
        score = [sys.executable, "-m", "guard", "score", "--simulator", name, "--suite", suite, "--out", name]
        subprocess.run(list(map(str, score)), cwd=tmp_path, check=True, capture_output=True, timeout=120)
    oracle, mute = RunFolder(tmp_path / "oracle"), RunFolder(tmp_path / "mute")
    found = compare(load(suite), oracle, mute)
    assert [part.finding for part in found.kinds.values()] == [
        Finding.A_HIGHER, Finding.A_HIGHER, Finding.NONE_SHOWN,
    ]  # fmt: skip
    again = compare(load(suite), oracle, oracle)
    assert again.same_simulator and not again.lost


def test_the_command(tmp_path: Path) -> None:
    folder = write_suite(tmp_path / "s", tasks=10, points=1)
    loaded = load(folder)
    a, b = write_run(tmp_path / "a", loaded), write_run(tmp_path / "b", loaded, every(1))
    other = write_run(tmp_path / "c", loaded, judge=LLM)
    app = typer.Typer()
    app.command()(command)

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [*map(str, arguments), "--suite", str(folder)])

    shown = run(a.root, b.root)
    assert shown.exit_code == 0, shown.output
    assert "AMB: A higher." in shown.output
    assert "a re-run" in shown.output
    assert json.loads(run(a.root, b.root, "--json").output)["schema"] == SCHEMA
    assert isinstance(run(a.root, other.root).exception, InputError)


def test_the_table_on_a_terminal_of_80_columns(suite: Suite, tmp_path: Path) -> None:
    write_run(tmp_path / "a", suite)
    write_run(tmp_path / "b", suite, every(1, Kind.AMB, Kind.UNA))
    program = "import typer; from guard.cli_compare import compare; a = typer.Typer(); a.command()(compare); a()"
    done = subprocess.run(
        [sys.executable, "-c", program, "a", "b", "--suite", str(suite.root)],
        cwd=tmp_path, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    rows = [line for line in done.stdout.splitlines() if line.startswith(tuple(f" {kind}" for kind in Kind))]
    assert len(rows) == 3
    assert all(len(row) <= 80 and "…" not in row for row in rows)
    for row in (rows[0], rows[2]):
        assert row.split()[1:] == "108 100.0 0.0 108/0 +100.0 [+94.4, +100.0] < 0.001".split()
