"""Integration: files written by earlier versions. They are kept as they were written and never made anew."""

import json
from pathlib import Path

import pytest
from ledgers import read

from benchmark_core.errors import InputError
from guard.certify import Papers, verify_file
from guard.ledger import FORMAT
from guard.ledger_writer import Ledger
from guard.runs import RunFolder, count
from suites.load import load

FIRST = Path(__file__).parents[1] / "data" / "ledger-1"


def test_the_first_ledger_is_read_in_the_current_format() -> None:
    header, items = read(FIRST / "ledger.jsonl")
    assert '"format":"usersim-guard/ledger/1"' in (FIRST / "ledger.jsonl").read_text().splitlines()[0]
    assert header.format == FORMAT
    assert len(items) == 18
    assert {call.cached_tokens for item in items for call in item.calls} == {None}


def test_the_first_ledger_is_counted_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_bytes((FIRST / "ledger.jsonl").read_bytes())
    counted = count(load(FIRST / "suite"), RunFolder(tmp_path))
    sealed = json.loads((FIRST / "certificate.json").read_text())
    assert counted.scorecard.digest == sealed["digests"]["scorecard"]
    assert counted.scorecard.usage["simulator"].requests == 19


def test_the_first_document_verifies_against_its_ledger() -> None:
    found = verify_file(FIRST / "certificate.json", Papers(), (load(FIRST / "suite"), FIRST / "ledger.jsonl"))
    assert (found.kind, found.decision) == ("refusal", "not_decided")


def test_the_first_ledger_is_not_resumed(tmp_path: Path) -> None:
    """Lines of another format after its header would be a file of no format."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes((FIRST / "ledger.jsonl").read_bytes())
    with pytest.raises(InputError, match="ledger/1: it can be counted, not resumed"):
        Ledger.open(path, read(path)[0], resume=True)
    assert path.read_bytes() == (FIRST / "ledger.jsonl").read_bytes()
