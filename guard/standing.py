"""Guard: what the certificate or refusal on file says of a run, for boards that show many."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from benchmark_core.errors import CertificateError
from guard import document
from guard.document import Document
from guard.report import sealed_for
from guard.runs import Counted, RunFolder
from guard.statistics import Verdict


class Status(StrEnum):
    """What a run's certificate on file comes to."""

    CERTIFIED = "certified"
    EXPIRED = "expired"
    FAILS = "fails"
    NOT_DECIDED = "not decided"
    PARTIAL = "partial"
    NONE = "none"
    BROKEN = "does not hold"


@dataclass(frozen=True, slots=True)
class Standing:
    """The certificate or refusal on file. `problem` says why it does not hold, and `sealed` is None then."""

    status: Status
    sealed: Document | None = None
    problem: str = ""

    @property
    def says(self) -> str:
        """The status, with the class of a certificate."""
        if self.sealed is None or self.sealed.kind != "certificate":
            return self.status
        return f"{self.status}, {self.sealed.certificate_class}"


def standing(folder: RunFolder, counted: Counted, now: datetime) -> Standing:
    """Read the document in a run's folder and hold it against the run's counts.

    Args:
        now: a time with its zone, for what has expired.
    """
    if not folder.certificate.exists():
        return Standing(Status.PARTIAL if counted.header.partial else Status.NONE)
    try:
        sealed, problem = sealed_for(document.read(folder.certificate), counted)
    except CertificateError as error:
        sealed, problem = None, str(error)
    if sealed is None:
        return Standing(Status.BROKEN, problem=problem or "")
    if sealed.decision is Verdict.PASS:
        over = sealed.expires is not None and now >= datetime.fromisoformat(sealed.expires)
        return Standing(Status.EXPIRED if over else Status.CERTIFIED, sealed)
    if counted.header.partial:
        return Standing(Status.PARTIAL, sealed)
    return Standing(Status.FAILS if sealed.decision is Verdict.FAIL else Status.NOT_DECIDED, sealed)
