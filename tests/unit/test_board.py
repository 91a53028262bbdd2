"""The board: what stands in one table, what a certificate on file comes to, and that names of others are harmless."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_runs import LLM, every, good, simulator, write_run
from suite_builder import small_suite

from benchmark_core.errors import InputError, LedgerError
from guard import published
from guard.board import SCHEMA, Board, build
from guard.board_page import render, write_board
from guard.certify import certify_run
from guard.document import document_digest
from guard.plots import BAD, GOOD, MUTED
from guard.runs import RunFolder
from guard.scoring import Scope
from guard.standing import Status
from suites.load import Suite
from suites.questions import Kind

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
VOID = {"meta"}
TAGS = (
    "html head meta title style body main header footer section h1 h2 h3 p small span code abbr figure div table "
    "caption thead tbody tr th td svg g path use defs clippath rect text"
).split()


class Page(HTMLParser):
    """Tags and attributes of a page, and the text of each table cell in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.tables: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, "unclosed tags"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in VOID:
            return
        self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag in ("td", "th", "caption"):
            self.tables[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data
        if {"td", "th", "caption"} & set(self._open):
            self.tables[-1][-1] += data.replace("\N{NO-BREAK SPACE}", " ")

    def table(self, caption: str) -> list[list[str]]:
        """The cells of every table of that caption, blanks folded."""
        found = [[" ".join(cell.split()) for cell in table] for table in self.tables]
        return [table[1:] for table in found if table[0] == caption]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """15 tasks: the fewest that can certify."""
    return small_suite(tmp_path_factory.mktemp("suite"), tasks=15, points=3)


def board(suite: Suite, folders: Sequence[RunFolder], now: datetime = NOW) -> Board:
    return build(lambda header: suite, folders, now)


def only_standing(suite: Suite, folder: RunFolder, now: datetime = NOW) -> Any:
    (entry,) = board(suite, [folder], now).groups[0].entries
    return entry.standing


def test_a_row_a_backbone_in_order_of_name(suite: Suite, tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "1", suite, every(50), of=simulator("function-driven", "zeta")),
        write_run(tmp_path / "2", suite, every(5), of=simulator("guarded", "Alpha", filter={"strict": True})),
        write_run(tmp_path / "3", suite, every(3), of=simulator("baseline", "zeta")),
        write_run(tmp_path / "4", suite, of=simulator("baseline", "Alpha")),
    ]
    (group,) = board(suite, runs).groups
    assert [(row.backbone, list(row.runs)) for row in group.rows] == [
        ("Alpha", ["baseline", "guarded"]),
        ("zeta", ["baseline", "function-driven"]),
    ]
    assert [entry.name for entry in group.entries] == ["4", "2", "3", "1"]
    assert [entry.number for entry in group.entries] == [1, 2, 3, 4]
    assert [row.runs["baseline"].kinds[Kind.UNA].score.rate for row in group.rows] == [1.0, 2 / 3]
    assert group.others == ()


def test_no_run_is_lost_to_another_of_the_same_cell(suite: Suite, tmp_path: Path) -> None:
    """A repeat and another decoding begin rows of their own; another revision is another backbone."""
    same, revised = simulator("baseline"), {**simulator("baseline"), "revision": "r2"}
    warm = {**simulator("function-driven"), "decoding": {"temperature": 1.0}}
    runs = [write_run(tmp_path / str(n), suite, of=of) for n, of in enumerate((same, same, revised, warm))]
    (group,) = board(suite, runs).groups
    assert [row.backbone for row in group.rows] == ["sim-1", "sim-1 (2)", "sim-1 (3)", "sim-1 @ r2"]
    assert sorted(entry.name for row in group.rows for entry in row.runs.values()) == ["0", "1", "2", "3"]


def test_other_simulators_have_rows_of_their_own(suite: Suite, tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "replay", suite, of=simulator("replay", "people")),
        write_run(tmp_path / "oracle", suite, of=simulator("oracle", None)),
        write_run(tmp_path / "base", suite),
        write_run(tmp_path / "bare", suite, of={"variant": "guarded"}),
    ]
    (group,) = board(suite, runs).groups
    assert [row.backbone for row in group.rows] == ["sim-1"]
    assert [(entry.label, entry.backbone) for entry in group.others] == [
        ("guarded", None),
        ("oracle (control)", None),
        ("replay", "people"),
    ]


@pytest.mark.fault("D22")
def test_runs_under_another_judge_or_suite_never_stand_in_one_table(suite: Suite, tmp_path: Path) -> None:
    other = small_suite(tmp_path / "s", tasks=11, points=1)
    runs = [
        write_run(tmp_path / "a", suite),
        write_run(tmp_path / "b", suite, judge=LLM),
        write_run(tmp_path / "c", other),
        write_run(tmp_path / "d", suite, judge={**LLM, "prompts": "sha256:other"}),
    ]
    suites = {s.digest: s for s in (suite, other)}
    made = build(lambda header: suites[header.identities["suite"]["digest"]], runs, NOW)
    assert sorted(entry.name for group in made.groups for entry in group.entries) == ["a", "b", "c", "d"]
    assert [len(group.entries) for group in made.groups] == [1, 1, 1, 1]
    tables = Page(render(made)).table("Backbones")
    assert len(tables) == 4
    assert all("sim-1" in table for table in tables)


def test_what_a_certificate_comes_to(suite: Suite, tmp_path: Path) -> None:
    def certified(name: str, *outcome: Any, **more: Any) -> RunFolder:
        folder = write_run(tmp_path / name, suite, *outcome, **more)
        certify_run(suite, folder)
        return folder

    good_run = certified("good")
    found = only_standing(suite, good_run)
    assert (found.status, found.says) == (Status.CERTIFIED, "certified, provisional")
    later = datetime.now(UTC) + timedelta(days=181)
    assert only_standing(suite, good_run, later).says == "expired, provisional"
    assert only_standing(suite, certified("bad", every(2))).says == Status.FAILS
    assert only_standing(suite, certified("so-so", every(12))).says == Status.NOT_DECIDED
    part = Scope(limit=90)
    assert only_standing(suite, certified("part", scope=part)).says == Status.PARTIAL
    assert only_standing(suite, write_run(tmp_path / "part-2", suite, scope=part)).says == Status.PARTIAL
    assert only_standing(suite, write_run(tmp_path / "none", suite)).says == Status.NONE


def test_a_certificate_of_another_run_or_a_damaged_one_does_not_hold(suite: Suite, tmp_path: Path) -> None:
    sound = write_run(tmp_path / "sound", suite)
    certify_run(suite, sound)
    text = sound.certificate.read_text()
    other = write_run(tmp_path / "other", suite, every(9))
    partial = json.loads(text)
    del partial["kinds"]["UNA"]
    partial["certificate_digest"] = document_digest(partial)
    for damaged, problem in (
        (text, "scorecard"),
        (text.replace('"attempt": 1', '"attempt": 2'), "certificate_digest"),
        ("not JSON", "not JSON"),
    ):
        other.certificate.write_text(damaged)
        found = only_standing(suite, other)
        assert (found.status, found.sealed) == (Status.BROKEN, None)
        assert problem in found.problem
    sound.certificate.write_text(json.dumps(partial))
    assert (
        only_standing(suite, sound).problem
        == "field 'kinds': Value error, expected AMB, LOC, UNA; expected the format usersim-guard/certificate/1"
    )


def test_a_partial_run_says_what_it_covers_and_has_no_colour_of_a_verdict(suite: Suite, tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "part", suite, scope=Scope(limit=90)),
        write_run(tmp_path / "whole", suite, of=simulator("guarded")),
    ]
    certify_run(suite, runs[1])
    html = render(board(suite, runs))
    (table,) = Page(html).table("Backbones")
    assert "partial 90 of 405 questions, run 1" in table
    assert "certified, provisional run 2" in table
    assert sum(bool(re.fullmatch(r"100\.0 % \[[\d.]+, 100\.0\]", cell)) for cell in table) == 3
    assert sum(bool(re.fullmatch(r"✓ 100\.0 % \[[\d.]+, 100\.0\]", cell)) for cell in table) == 3


def test_no_colour_of_a_verdict_in_the_drawing_of_a_partial_run(suite: Suite, tmp_path: Path) -> None:
    def drawn(*runs: RunFolder) -> str:
        return "".join(re.findall("<svg.*?</svg>", render(board(suite, runs)), re.DOTALL))

    assert "var(--bad)" in drawn(write_run(tmp_path / "whole", suite, every(1)))
    assert "var(--bad)" not in drawn(write_run(tmp_path / "part", suite, every(1), scope=Scope(limit=90)))


def test_the_page_is_self_contained_and_names_of_others_are_harmless(suite: Suite, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\u202e {{ 7*7 }} $x$ [red]"
    runs = [
        write_run(tmp_path / "<img src=x>", suite, of=simulator("baseline", evil, revision=evil)),
        write_run(tmp_path / "2", suite, of={"variant": evil, evil: evil}),
        write_run(tmp_path / "3", suite, judge={**LLM, "model": evil}),
        write_run(tmp_path / "4", suite, of={"variant": None, "model": 3, "decoding": [evil]}),
    ]
    html = render(board(suite, runs))
    page = Page(html)
    assert page.tags <= set(TAGS)
    assert not [name for name in page.attributes if name.startswith("on") or name == "src"]
    assert "<script" not in html and "\u202e" not in html and "http://" not in html.replace("http://www.w3.org", "")
    assert "U+202E {{ 7*7 }} $x$ [red]" in page.text
    assert "SECRET" not in html
    assert html.count("<svg") == 2 * len(Kind)
    assert len(re.findall(r'id="([^"]+)"', html)) == len(set(re.findall(r'id="([^"]+)"', html)))


def test_the_table_on_a_terminal_of_80_columns(suite: Suite, tmp_path: Path) -> None:
    write_run(tmp_path / "1", suite, every(3), of=simulator("function-driven", "a-model-with-a-long-name-70b"))
    write_run(tmp_path / "2", suite, of=simulator("baseline", "[red]evil\x1b[0m"))
    certify_run(suite, RunFolder(tmp_path / "2"))
    write_run(tmp_path / "3", suite, of=simulator("oracle", None), scope=Scope(limit=90))
    program = """
import sys
from pathlib import Path
from guard.board_page import write_board
from guard.cli_compare import show_board
from guard.runs import RunFolder
from suites.load import load
suite = load(Path(sys.argv[1]))
show_board(write_board(lambda header: suite, [RunFolder(Path(name)) for name in "123"], Path("board.html")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(suite.root)],
        cwd=tmp_path, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    said = done.stdout
    assert "\x1b" not in said and "[red]evilU+001B" in said
    assert "66.7 %" in said and "  oracle (control) " in said and "90 questions" in said
    assert "certified,\n" in re.sub(" +\n", "\n", said)
    assert "Published, under another judge (not named): not comparable" in said
    assert max(len(line) for line in said.splitlines() if not line.startswith(("Suite", "Source"))) <= 80


def test_published_rates_stand_apart(suite: Suite, tmp_path: Path) -> None:
    page = Page(render(board(suite, [write_run(tmp_path / "1", suite, of=simulator("baseline", "GPT-4o"))])))
    (ours,), (theirs,) = page.table("Backbones"), page.table("Published rates")
    assert "32.6 % [29.2, 36.2]" in theirs
    assert "Gemini-2.0-Flash" in theirs and "Gemini-2.0-Flash" not in ours
    assert page.text.index("Published, under another judge (not named): not comparable") > page.text.index("Runs")


def test_published_rows_and_their_intervals() -> None:
    rates = {(row.backbone, row.variant): tuple(row.rates[kind] for kind in Kind) for row in published.PUBLISHED}
    assert len(rates) == 6
    assert rates["Claude-Haiku-4.5", "baseline"] == pytest.approx((0.923, 0.92, 0.326))
    assert rates["GPT-4o", "function-driven"] == pytest.approx((0.946, 0.941, 0.973))
    gemini = next(row for row in published.PUBLISHED if row.rates[Kind.UNA] == 0.873)
    assert (gemini.interval(Kind.UNA).lower, gemini.interval(Kind.UNA).upper) == pytest.approx((0.846, 0.896), abs=5e-4)


def test_json(suite: Suite, tmp_path: Path) -> None:
    run = write_run(tmp_path / "1", suite, every(5), of=simulator("baseline", "m", revision="r", prompts="sha256:p"))
    certify_run(suite, run)
    made = json.loads(json.dumps(board(suite, [run]).to_json()))
    assert made["schema"] == SCHEMA
    (group,) = made["groups"]
    assert group["judge"]["kind"] == "rule" and group["digests"]["judge"].startswith("sha256:")
    (entry,) = group["runs"]
    assert {"model": "m", "revision": "r", "prompts": "sha256:p"}.items() <= entry["simulator"].items()
    assert entry["certificate"]["status"] == "fails"
    assert entry["certificate"]["digest"] == json.loads(run.certificate.read_text())["certificate_digest"]
    assert entry["kinds"]["LOC"]["rate"] == 0.8 and entry["kinds"]["LOC"]["verdict"] == "fail"
    assert made["published"]["judge"] is None and len(made["published"]["rows"]) == 6
    assert "SECRET" not in json.dumps(made)


def test_colours_say_what_the_interval_does(suite: Suite, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "1", suite), write_run(tmp_path / "2", suite, every(2), of=simulator("guarded"))]
    first, second = board(suite, runs).groups[0].entries
    assert (first.kinds[Kind.AMB].colour, second.kinds[Kind.AMB].colour) == (GOOD, BAD)
    assert MUTED not in (first.kinds[Kind.AMB].colour, second.kinds[Kind.AMB].colour)


def test_writing_a_board_leaves_the_runs_as_they_are(suite: Suite, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite)
    out = tmp_path / "board.html"
    made = write_board(lambda header: suite, [run], out)
    assert len(made.groups) == 1
    assert out.read_text().startswith("<!doctype html>")
    assert [path.name for path in run.root.iterdir()] == ["ledger.jsonl"]
    with pytest.raises(InputError, match="--out"):
        write_board(lambda header: suite, [run], tmp_path / "no-such-folder" / "board.html")


def test_what_cannot_be_shown_is_refused_and_named(suite: Suite, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite)
    with pytest.raises(InputError, match="at least one"):
        board(suite, [])
    with pytest.raises(InputError, match="given twice"):
        board(suite, [run, RunFolder(tmp_path / "x" / ".." / "run")])
    with pytest.raises(LedgerError, match="missing"):
        board(suite, [run, RunFolder(tmp_path / "missing")])
    other = write_run(tmp_path / "other", small_suite(tmp_path / "s", tasks=2))
    with pytest.raises(InputError, match=f"^{other.root}: .*--suite"):
        board(suite, [run, other])


def test_a_kind_without_questions_is_a_dash(suite: Suite, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite, lambda at, question: good(question), scope=Scope(kinds=(Kind.UNA,)))
    made = board(suite, [run])
    html = render(made)
    assert html.count("<svg") == 1
    assert Page(html).table("Backbones")[0].count("–") == 2 + 2 * 3
    assert json.loads(json.dumps(made.to_json()))["groups"][0]["runs"][0]["kinds"]["AMB"]["rate"] is None
