"""Guard: every code explained: what it means, what decides or mends it, an example with the policy's own numbers."""

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmark_core.errors import InputError
from guard import document
from guard.certificate import Demands, verify
from guard.document import Document
from guard.excerpts import plain
from guard.exit_codes import ExitCode
from guard.policy import DEFAULT
from guard.reasons import CLASS_MEANS, CLASS_MEND, CLASS_SAYS, MEANS, MEND, Class, ClassCode, Code
from guard.scoring import MAX_ATTEMPTS
from guard.statistics import ClusterEstimate, lang_reiczigel, rows_to_decide, wilson_clustered
from suites.questions import Kind

LONGEST_DETAIL = 400

EXIT_CODES: Mapping[ExitCode, tuple[str, str]] = {
    ExitCode.OK: ("Done. Of `certify`: certified.", "nothing"),
    ExitCode.UNEXPECTED: ("A fault of this program.", "report it, with the command and what was printed"),
    ExitCode.USAGE: ("An unknown flag or command, or a bad value.", "see `usersim-guard COMMAND --help`"),
    ExitCode.BAD_INPUT: (
        "A file, a field or a setting must be mended.",
        "the message names file, line, field or flag, and what was expected",
    ),
    ExitCode.INCOMPLETE: (
        "The run is written, but rows are missing, without a verdict or without a reply.",
        "mend the cause, and run the same command with --resume: only such rows are asked again",
    ),
    ExitCode.REFUSED_FAIL: (
        "Of `certify`: refused, for certain below a floor.",
        "change the simulator; `usersim-guard explain RUN/certificate.json` says which kind fails and why",
    ),
    ExitCode.REFUSED_NOT_DECIDED: (
        "Of `certify`: refused, because the data cannot tell.",
        "the reason codes of the document say what would decide it; `explain RUN/certificate.json` explains them",
    ),
    ExitCode.INFRASTRUCTURE: (
        "A server or an endpoint cannot be reached.",
        "start it or mend its address; a run goes on with --resume",
    ),
    ExitCode.NOT_VERIFIED: (
        "The certificate or refusal does not hold: changed, expired, of another issuer, or of other counts.",
        "do not use it; ask its issuer for the ledger and certify again",
    ),
    ExitCode.FINDINGS: ("A check ran to its end and found something.", "mend what is listed"),
    ExitCode.INTERRUPTED: ("Stopped by the user; what was done is kept.", "go on with --resume"),
}
"""What an exit status means, and what to do."""

CITING: Mapping[Class, str] = {
    Class.FULL: "cite decision, suite and digest of the certificate, not the rate alone",
    Class.PROVISIONAL: "cite it as provisional, with its reasons: it is no full certificate",
    Class.REFUSED: "cite what was decided: a refusal that is not decided is no evidence that the simulator fails",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """A code in words. `family`: `reason`, `class reason`, `class` or `exit code`; `mend` as an order, no full stop."""

    code: str
    family: str
    means: str
    mend: str
    example: str | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """For people: name first."""
        more = (f"  For example: {self.example}",) if self.example else ()
        return (f"{self.code} ({self.family})", f"  {self.means}", *more, f"  To do: {self.mend}.")

    def to_json(self) -> dict[str, str | None]:
        """Every field."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DocumentExplained:
    """A certificate or refusal that holds, and its reasons in words. `details`: code -> what was found, by kind."""

    document: Mapping[str, Any]
    headline: str
    details: Mapping[str, tuple[str, ...]]
    reasons: tuple[Explained, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """For people: the decision first."""
        found = [self.headline]
        for reason in self.reasons:
            name, *rest = reason.lines
            found += ["", name, *(f"  Found: {detail}" for detail in self.details[reason.code]), *rest]
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Headline and reasons; the document itself is in its own file."""
        reasons = [{**reason.to_json(), "found": self.details[reason.code]} for reason in self.reasons]
        return {"headline": self.headline, "digest": self.document["certificate_digest"], "reasons": reasons}


def every() -> tuple[Explained, ...]:
    """All codes: reasons, class reasons, classes, exit codes."""
    return (
        *(Explained(code, "reason", MEANS[code], MEND[code], _example(code)) for code in Code),
        *(
            Explained(code, "class reason", f"Provisional: {CLASS_SAYS[code]}.", CLASS_MEND[code], _class_example(code))
            for code in ClassCode
        ),
        *(Explained(found, "class", CLASS_MEANS[found], CITING[found]) for found in Class),
        *(Explained(code.name.lower(), f"exit code {code.value}", *EXIT_CODES[code]) for code in ExitCode),
    )


def explain_code(name: str) -> Explained:
    """A code by its name in any case, with `-` or `_`; an exit code also by its number.

    Raises:
        InputError: there is none of this name.
    """
    wanted = name.strip().lower().replace("-", "_")
    known = {each.code: each for each in every()}
    by_number = {str(code.value): code.name.lower() for code in ExitCode}
    wanted = by_number.get(wanted, wanted)
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, 1)
        hint = f"did you mean {near[0]}?" if near else "`explain --list` names them all"
        raise InputError(f"no code is called {name!r}; {hint}")
    return known[wanted]


def explain_document(path: Path) -> DocumentExplained:
    """A certificate or refusal with every reason explained. One that has expired is explained all the same.

    Raises:
        CertificateError: it cannot be read, or does not hold.
    """
    found = document.read(path)
    issued = datetime.fromisoformat(document.parse(found).issued)
    parsed = verify(found, Demands(now=issued))
    details: dict[str, list[str]] = {}
    for reason in parsed.reasons:
        says = f"{reason.kind}: {reason.detail}" if reason.kind else reason.detail
        details.setdefault(reason.code, []).append(plain(says, LONGEST_DETAIL))
    for class_reason in parsed.class_reasons if parsed.kind == "certificate" else ():  # a refusal has no such class
        details.setdefault(class_reason.code, [])
    reasons = tuple(explain_code(code) for code in details)
    return DocumentExplained(found, _headline(parsed), {code: tuple(says) for code, says in details.items()}, reasons)


def _headline(found: Document) -> str:
    until = f", holds until {found.expires}" if found.expires else ""
    return f"{found.kind}: {found.decision}, class {found.certificate_class}{until}"


def _example(code: Code) -> str | None:
    floor = DEFAULT.floors[Kind.AMB]
    match code:
        case Code.UNJUDGED_SHARE:
            rows = DEFAULT.full_size[Kind.AMB]
            return (
                f"of {rows} rows of a kind, {int(DEFAULT.max_unjudged * rows)} may lack a verdict, one more is too many"
            )
        case Code.TOO_FEW_CLUSTERS:
            return f"{DEFAULT.min_clusters - 1} tasks decide nothing, however many questions each has"
        case Code.JUDGE_UNINFORMATIVE:
            return f"sensitivity 0.85 and specificity 0.70 are 1.55; at least {DEFAULT.min_informedness} is needed"
        case Code.JUDGE_KAPPA_LOW:
            return f"kappa 0.70 with the interval [0.55, 0.85]; its lower end must reach {DEFAULT.min_kappa}"
        case Code.INTERVAL_OUTSIDE_UNIT:
            return _outside()
        case Code.BELOW_FLOOR:
            bounds = wilson_clustered(_estimate(0.75), DEFAULT.confidence)
            return f"75 % of 240 rows in 40 tasks: [{bounds.lower:.3f}, {bounds.upper:.3f}] against {floor}"
        case Code.NOT_DECIDED_INTERVAL:
            needed = {rate: rows_to_decide(_estimate(rate), floor, DEFAULT.confidence) for rate in (0.92, 0.94, 0.96)}
            says = "; ".join(f"at {rate:.0%} about {rows:,} rows decide" for rate, rows in needed.items())
            return f"against a floor of {floor:.0%}, in 40 tasks with a design effect of 1.5: {says}"
        case Code.FAILS_BY_DISCLOSURE:
            return "of 40 failing rows, 21 disclose something"
    if code.startswith("simulator_"):
        return f"a question is tried {MAX_ATTEMPTS} times in all, and as often as needed where only the endpoint failed"
    return None


def _class_example(code: ClassCode) -> str | None:
    sizes = " ".join(f"{kind} {size}" for kind, size in DEFAULT.full_size.items())
    return f"full size is {sizes} core questions" if code is ClassCode.SMALL_SUITE else None


def _estimate(rate: float) -> ClusterEstimate:
    """240 rows in 40 tasks, at a design effect of 1.5."""
    return ClusterEstimate(rate * 240, 240, 40, rate * (1 - rate) / 240 * 1.5, 1.5, 1.5)


def _outside() -> str:
    """A judge that accepts 5 % of 600 rows, although it is known to accept 20 % of bad ones."""
    found = lang_reiczigel(0.05, 600, (180, 200), (160, 200), 1.96)
    return (
        "a judge that accepts 20 % of bad replies in its calibration accepts 5 % of 600 rows: corrected share "
        f"{found.theta:.3f}, interval [{found.unclipped.lower:.3f}, {found.unclipped.upper:.3f}]"
    )
