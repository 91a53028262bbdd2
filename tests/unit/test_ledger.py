"""Unit: the ledger loses nothing, repeats nothing, and refuses a run of another identity."""

from dataclasses import replace
from pathlib import Path

import pytest
from ledgers import read

from benchmark_core.errors import DigestMismatch, InputError, LedgerError, SimulatorFailure
from benchmark_core.ports import Action
from guard.ledger import Call, Header, ScoredItem, final, stream
from guard.ledger_writer import Ledger
from judge.rubric import Rating
from judge.verdict import Evidence, EvidenceKind, UnjudgedCause
from suites.questions import Kind, QuestionKey, Style

HEADER = Header(
    digests={"simulator": "sha256:a", "suite": "sha256:s", "judge": "sha256:j", "plan": "sha256:p"},
    identities={"simulator": {"model": "one", "temperature": 0.0}, "suite": {"name": "mart"}},
    planned=3,
    partial=False,
    judge_class="rule",
    suite_counts={"AMB": 1, "LOC": 1, "UNA": 1},
    started="2026-01-01T00:00:00+00:00",
)


def key(number: int) -> QuestionKey:
    return QuestionKey("mart_1", f"q{number}", Style.NORMAL, Kind.AMB)


def item(number: int, **changes: object) -> ScoredItem:
    base = ScoredItem(
        key=key(number),
        database="mart",
        reply='line one\nline two \u2028 and \U0001f600 " \\',
        action=Action(Kind.AMB, "recently"),
        target_hit=True,
        rating=Rating.A,
        reason="fine",
        evidence=(Evidence(EvidenceKind.IDENTIFIER, "sale_amount", 3, 14),),
        calls=(Call("simulator", "m", "fp", 10, 5, 1, False, 0.25),),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run" / "ledger.jsonl"
    failed = ScoredItem(key=key(2), database="mart", failure=SimulatorFailure.EMPTY, reason="no text")
    unjudged = item(3, rating=None, unjudged=UnjudgedCause.TRUNCATED)
    with Ledger.open(path, HEADER, resume=False) as ledger:
        for row in (item(1), failed, unjudged):
            ledger.append(row)
    assert read(path) == (HEADER, (item(1), failed, unjudged))
    assert path.stat().st_mode & 0o077 == 0, "a ledger can hold gold"
    assert path.read_text().count("\n") == 4


def test_an_item_has_exactly_one_outcome() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        item(1, failure=SimulatorFailure.EMPTY)
    with pytest.raises(ValueError, match="exactly one"):
        item(1, rating=None)


@pytest.mark.fault("G39")
@pytest.mark.parametrize("cut", range(1, 60))
def test_a_torn_last_line_costs_that_item_alone(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path, HEADER, resume=False) as ledger:
        ledger.append(item(1))
        ledger.append(item(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with Ledger.open(path, HEADER, resume=True) as ledger:
        assert tuple(stream(path)) == (item(1),)
        ledger.append(item(2))
    assert path.read_bytes() == whole


def test_a_torn_header_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"digests": {"simu')
    Ledger.open(path, HEADER, resume=False).close()
    assert read(path) == (HEADER, ())


def test_a_second_run_needs_resume(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger.open(path, HEADER, resume=False).close()
    with pytest.raises(InputError, match="--resume"):
        Ledger.open(path, HEADER, resume=False)


@pytest.mark.fault("D7", "G38")
def test_another_identity_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger.open(path, HEADER, resume=False).close()
    other = replace(
        HEADER,
        digests={**HEADER.digests, "simulator": "sha256:b"},
        identities={**HEADER.identities, "simulator": {"model": "two", "temperature": 0.0}},
    )
    with pytest.raises(DigestMismatch, match='simulator: model was "one", is "two"'):
        Ledger.open(path, other, resume=True)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path, HEADER, resume=False), pytest.raises(InputError, match="another process"):
        Ledger.open(path, HEADER, resume=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{}", ":2: field 'key'"),
        (b"", ":2:"),
        (b"not json", ":2:"),
        (b'{"key": null, "extra": 1}', ":2:"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger.open(path, HEADER, resume=False).close()
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(LedgerError, match=words):
        read(path)


@pytest.mark.fault("G14")
def test_a_repeated_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path, HEADER, resume=False) as ledger:
        ledger.append(item(1))
        ledger.append(item(1))
    with pytest.raises(LedgerError, match=r":3: attempt 1 of .* after attempt 1"):
        read(path)


def test_of_each_key_the_last_attempt_is_final(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    failed = item(1, rating=None, unjudged=UnjudgedCause.TIMEOUT)
    with Ledger.open(path, HEADER, resume=False) as ledger:
        for row in (failed, item(2), replace(failed, attempt=2), item(1, attempt=3)):
            ledger.append(row)
    assert tuple(final(path)) == (item(2), item(1, attempt=3))


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger.open(path, replace(HEADER, format="usersim-guard/ledger/9"), resume=False).close()
    with pytest.raises(LedgerError, match="ledger/9"):
        read(path)
