"""Guard: certifies the run in a folder, and verifies a certificate against the ledger it came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmark_core.errors import LedgerError
from guard import document, ledger, signing
from guard.certificate import Demands, Issue, Recount, attempt_number, seal, verify
from guard.certification import decide
from guard.document import Document
from guard.policy import DEFAULT
from guard.runs import RunFolder, count
from guard.scorecard import expected_keys
from guard.scoring import plan_of
from judge.calibration import Calibration, load_calibration
from suites.load import Suite


@dataclass(frozen=True, slots=True)
class Papers:
    """Files that a certificate can be made or checked with."""

    calibration: Path | None = None
    signing_key: Path | None = None
    public_key: Path | None = None


def certify_run(suite: Suite, folder: RunFolder, papers: Papers = Papers()) -> Mapping[str, Any]:
    """Decide by the policy and write the sealed certificate or refusal into the run's folder.

    Raises:
        InputError, LedgerError: what is given does not fit the run.
    """
    counted = count(suite, folder)
    calibration = _calibration(papers, counted.header.digests["judge"])
    decision = decide(counted.scorecard, counted.header, calibration, DEFAULT)
    issue = Issue(
        issued=datetime.now(UTC),
        attempt=_attempt(folder, counted.header.digests["simulator"]),
        calibration=calibration,
        key=signing.load_private_key(papers.signing_key) if papers.signing_key else None,
    )
    sealed = seal(decision, counted.scorecard, counted.header, issue)
    document.write(sealed, folder.certificate)
    return sealed


def verify_file(path: Path, papers: Papers, of_run: tuple[Suite, Path] | None) -> Document:
    """Verify a sealed file: digest, signature, sense, expiry, and with suite and ledger every count and the decision.

    Raises:
        CertificateError: naming what differs.
    """
    demands = Demands(
        now=datetime.now(UTC),
        public_key=signing.load_public_key(papers.public_key) if papers.public_key else None,
        recount=_recount(*of_run, papers) if of_run else None,
    )
    return verify(document.read(path), demands)


def _recount(suite: Suite, path: Path, papers: Papers) -> Recount:
    header = ledger.read_header(path)
    expected = expected_keys(plan_of(suite, header).questions)
    return Recount(header, ledger.stream(path), expected, calibration=_calibration(papers, header.digests["judge"]))


def _calibration(papers: Papers, judge: str) -> Calibration | None:
    if papers.calibration is None:
        return None
    calibration = load_calibration(papers.calibration)
    calibration.require_judge(judge)
    return calibration


def _attempt(folder: RunFolder, simulator: str) -> int:
    """How many runs of this simulator lie beside this one, this one included; a foreign or broken ledger is none."""
    attempts = 0
    for path in sorted(folder.root.resolve().parent.glob("*/ledger.jsonl")):
        try:
            attempts += attempt_number([path], simulator)
        except LedgerError:
            continue
    return max(attempts, 1)
