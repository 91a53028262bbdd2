"""Guard: seals a decision as a certificate or a refusal, and verifies such a document.

It holds counts, digests and identities; no question, reply, reason of a judge or other text of a row gets in.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from benchmark_core.digest import canonical, digest, digest_tree
from benchmark_core.errors import CertificateError
from guard import ledger, signing
from guard.certification import Decision, KindDecision, Pass, decide
from guard.document import FORMAT, Document, differences, document_digest, parse
from guard.ledger import Header, ScoredItem
from guard.outcomes import Expected
from guard.policy import DEFAULT, Policy
from guard.reasons import CLASS_SAYS, Class
from guard.scorecard import KindScore, Scorecard, tally
from guard.statistics import Interval, Verdict
from judge.calibration import Calibration

SELF_ISSUED = "self-issued"
_PACKAGES = ("benchmark_core", "guard", "judge", "simulators", "suites")


@dataclass(frozen=True, slots=True)
class Issue:
    """What a decision is sealed with.

    Attributes:
        issued: a time with its zone.
        attempt: how many runs of this simulator are known, this one included (see `attempt_number`).
        key: signs the document; None leaves it self-issued.
    """

    issued: datetime
    attempt: int
    policy: Policy = DEFAULT
    calibration: Calibration | None = None
    key: Ed25519PrivateKey | None = None


@dataclass(frozen=True, slots=True)
class Recount:
    """What a document is counted and decided again from."""

    header: Header
    items: Iterable[ScoredItem]
    expected: Expected
    policy: Policy = DEFAULT
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Demands:
    """What a document must stand up to.

    Attributes:
        now: a time with its zone; an expired certificate is refused.
        public_key: the issuer that is trusted; None takes any issuer, self-issued documents too.
        digests: what the document must be about, such as `simulator` -> `sha256:…`.
    """

    now: datetime
    public_key: Ed25519PublicKey | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    recount: Recount | None = None


@dataclass(frozen=True, slots=True)
class CertifiedSimulator:
    """A simulator whose certificate holds; made by `certified` alone. All but the class and issuer are digests."""

    simulator: str
    certificate: str
    suite: str
    certificate_class: Class
    issuer: str


def seal(decision: Decision, scorecard: Scorecard, header: Header, issue: Issue) -> dict[str, Any]:
    """The sealed document of a decision, plain JSON values, class first."""
    body = _body(decision, scorecard, header, issue)
    body["issuer"] = signing.issuer(issue.key.public_key()) if issue.key else SELF_ISSUED
    document: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False))
    document["certificate_digest"] = document_digest(document)
    document["signature"] = signing.sign(issue.key, document["certificate_digest"]) if issue.key else None
    return document


def verify(document: Mapping[str, Any], demands: Demands) -> Document:
    """Verify a certificate or a refusal; returns it, parsed. A refusal can be genuine too: see `certified`.

    Raises:
        CertificateError: it does not hold; the message names what differs.
        LedgerError: a recount from a ledger that is no whole run.
    """
    parsed = parse(document)
    if document_digest(document) != parsed.certificate_digest:
        raise CertificateError("certificate_digest: the document was changed after it was sealed")
    _check_signature(parsed, demands.public_key)
    _check_sense(parsed)
    if parsed.expires is not None and demands.now >= datetime.fromisoformat(parsed.expires):
        raise CertificateError(f"expires: expired at {parsed.expires}")
    for name, wanted in demands.digests.items():
        if parsed.digests.get(name) != wanted:
            raise CertificateError(f"digests.{name}: is of {parsed.digests.get(name)}, not of {wanted}")
    if demands.recount is not None:
        _check_recount(document, parsed, demands.recount)
    return parsed


def certified(document: Mapping[str, Any], simulator: str, demands: Demands) -> CertifiedSimulator:
    """The simulator with digest `simulator`, if the document is a certificate of it that holds.

    Raises:
        CertificateError: it does not hold, is a refusal, or is of another simulator.
    """
    found = verify(document, demands)
    if found.kind != "certificate":
        raise CertificateError("kind: a refusal, not a certificate")
    if found.digests.get("simulator") != simulator:
        raise CertificateError(f"digests.simulator: is of {found.digests.get('simulator')}, not of {simulator}")
    suite = found.digests["suite"] or ""
    return CertifiedSimulator(simulator, found.certificate_digest, suite, found.certificate_class, found.issuer)


def attempt_number(ledgers: Iterable[Path], simulator: str) -> int:
    """How many of the ledgers are runs of the simulator with this digest.

    Raises:
        LedgerError: for one that cannot be read.
    """
    return sum(ledger.read_header(path).digests.get("simulator") == simulator for path in ledgers)


def code_digest() -> str:
    """`sha256:…` over the source files and prompts of our packages."""
    roots = {name: Path(import_module(name).__path__[0]) for name in _PACKAGES}
    return digest({name: [digest_tree(root, pattern) for pattern in ("*.py", "*.j2")] for name, root in roots.items()})


def _body(decision: Decision, scorecard: Scorecard, header: Header, issue: Issue) -> dict[str, Any]:
    certificate = isinstance(decision, Pass)
    expires = issue.issued + timedelta(days=issue.policy.valid_days)
    return {
        "class": decision.certificate_class,
        "class_reasons": [{"code": code, "says": CLASS_SAYS[code]} for code in decision.provisional],
        "format": FORMAT,
        "kind": "certificate" if certificate else "refusal",
        "decision": decision.verdict,
        "reasons": [{**asdict(reason), "mend": reason.mend} for reason in decision.reasons],
        "kinds": {kind: _kind(scorecard.kinds[kind], found) for kind, found in decision.kinds.items()},
        "digests": {
            **header.digests,
            "calibration": issue.calibration.digest if issue.calibration else None,
            "policy": issue.policy.digest,
            "scorecard": scorecard.digest,
            "code": code_digest(),
        },
        "identities": header.identities,
        "judge_class": header.judge_class,
        "policy": issue.policy.to_json(),
        "excluded_tasks": header.excluded_tasks,
        "usage": {role: asdict(usage) for role, usage in scorecard.usage.items()},
        "attempt": issue.attempt,
        "started": header.started,
        "issued": issue.issued.isoformat(timespec="seconds"),
        "expires": expires.isoformat(timespec="seconds") if certificate else None,
    }


def _kind(score: KindScore, decision: KindDecision) -> dict[str, Any]:
    same = (
        "rate",
        "best_rate",
        "missing",
        "retried",
        "ratings",
        "unjudged",
        "failures",
        "chosen",
        "targets",
        "evidence",
    )
    return {
        "verdict": decision.verdict,
        "floor": decision.floor,
        "interval": _bounds(decision.interval),
        "corrected": decision.corrected,
        "n_eff": decision.n_eff,
        "published_rule": decision.published,
        "rows": score.total.rows,
        "accepted": score.total.accepted,
        "rejected": score.total.rejected,
        "failed": score.total.failed,
        "tasks": len(score.tasks),
        "plain": _bounds(score.plain),
        "by_database": _bounds(score.by_database),
        "whole_tasks": _bounds(score.whole_tasks),
        **{name: getattr(score, name) for name in same},
    }


def _bounds(interval: Interval) -> list[float]:
    return [interval.lower, interval.upper]


def _check_signature(parsed: Document, trusted: Ed25519PublicKey | None) -> None:
    if trusted is not None and parsed.issuer != signing.issuer(trusted):
        raise CertificateError(f"issuer: {parsed.issuer}, not the trusted {signing.issuer(trusted)}")
    if parsed.signature is None and parsed.issuer == SELF_ISSUED:
        return
    if parsed.signature is None or not signing.signed_by(parsed.issuer, parsed.certificate_digest, parsed.signature):
        raise CertificateError(f"signature: not one of {parsed.issuer}")


def _check_sense(parsed: Document) -> None:
    """What a forger may have sealed: a document that contradicts itself."""
    certificate = parsed.kind == "certificate"
    passed = all(part.verdict is Verdict.PASS for part in parsed.kinds.values()) and not parsed.reasons
    whole = (parsed.decision is Verdict.PASS, parsed.certificate_class is not Class.REFUSED, parsed.expires is not None)
    if any(part is not certificate for part in whole) or (certificate and not passed):
        raise CertificateError("decision: class, kind, decision, reasons and expiry contradict each other")
    named = {**parsed.identities, "policy": parsed.policy}
    for name in sorted({*named, "simulator", "suite", "judge"}):
        if name not in named or digest(named[name]) != parsed.digests.get(name):
            raise CertificateError(f"digests.{name}: not the digest of what the document says it was made of")


def _check_recount(document: Mapping[str, Any], parsed: Document, recount: Recount) -> None:
    scorecard = tally(recount.items, recount.header, recount.expected, recount.policy)
    decision = decide(scorecard, recount.header, recount.calibration, recount.policy)
    issue = Issue(datetime.fromisoformat(parsed.issued), parsed.attempt, recount.policy, recount.calibration)
    wanted = json.loads(canonical(_body(decision, scorecard, recount.header, issue)))
    wanted["digests"]["code"] = parsed.digests.get("code")  # another version may recount; the counts must agree
    if differing := list(differences({name: document.get(name) for name in wanted}, wanted)):
        raise CertificateError("the ledger says otherwise: " + "; ".join(differing[:5]))
