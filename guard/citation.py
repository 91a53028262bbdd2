"""Guard: how a certificate or refusal is cited: a sentence and a BibTeX entry that name everything it depends on."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from guard import __version__
from guard.certificate import SELF_ISSUED, code_digest
from guard.document import Document, parse
from guard.excerpts import plain
from guard.statistics import Verdict

LONGEST_NAME = 80
# braces and backslashes cannot stand in an entry: BibTeX counts braces, escaped or not
_BIBTEX = str.maketrans(
    {"{": "(", "}": ")", "\\": "/", **{letter: f"\\{letter}" for letter in "#$%&_"}, "~": "-", "^": "-"}
)


def citation(document: Mapping[str, Any]) -> str:
    """A plain sentence, an empty line, and a BibTeX entry (`@misc`).

    Args:
        document: a certificate or refusal that holds (see `guard.certificate.verify`).

    Raises:
        CertificateError: it does not have the shape of one.
    """
    found = parse(document)
    date = datetime.fromisoformat(found.issued).date().isoformat()
    policy = f"{_name(found.policy, 'version')} ({found.digests.get('policy')})"
    paper = f"{found.kind.capitalize()} {found.certificate_digest}, {_issuer(found)}{_until(found)}"
    sentence = (
        f"{_tool(found)} {_decision(found)} on the suite {_suite(found)}, judged by {_judge(found)}, under policy "
        f"{policy}, on {date}, attempt {found.attempt}. {paper}."
    )
    fields = {
        "author": "{UserSim-Guard}",
        "title": _bibtex(f"{found.kind.capitalize()} of the simulated user {_simulator(found)}"),
        "year": date[:4],
        "note": _bibtex(sentence),
    }
    key = f"usersim-guard-{found.certificate_digest.removeprefix('sha256:')[:12]}"
    entry = [f"@misc{{{key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"]
    return "\n".join([sentence, "", *entry])


def _bibtex(text: str) -> str:
    return text.translate(_BIBTEX)


def _tool(found: Document) -> str:
    """With its version where the code at hand is the code that decided; else by the digest of that code."""
    code = found.digests.get("code")
    return f"UserSim-Guard {__version__}" if code == code_digest() else f"UserSim-Guard (code {code})"


def _decision(found: Document) -> str:
    who = f"the simulated user {_simulator(found)}"
    match found.decision:
        case Verdict.FAIL:
            return f"refused to certify {who}, because it fails,"
        case Verdict.NOT_DECIDED:
            return f"refused to certify {who}, because the data do not decide it,"
    because = f" because of {', '.join(reason.code for reason in found.class_reasons)}" if found.class_reasons else ""
    return f"certified {who}, class {found.certificate_class}{because},"


def _simulator(found: Document) -> str:
    about = found.identities.get("simulator")
    told = [f"{part} {_name(about, part)}" for part in ("model", "revision") if _name(about, part)]
    return " ".join([_name(about, "variant") or "of unknown kind", *([f"({', '.join(told)})"] if told else [])])


def _suite(found: Document) -> str:
    about = found.identities.get("suite")
    digest = _name(about, "digest") or found.digests.get("suite")
    return f"{_name(about, 'name')} {_name(about, 'version')} ({digest})"


def _judge(found: Document) -> str:
    about = found.identities.get("judge")
    who = "the rule judge" if found.judge_class == "rule" else f"{_name(about, 'model')}"
    calibration = found.digests.get("calibration")
    known = f"calibrated by {calibration}" if calibration else "without a calibration"
    return f"{who} (rubric {_name(about, 'rubric')}, {known})"


def _issuer(found: Document) -> str:
    return SELF_ISSUED if found.issuer == SELF_ISSUED else f"issued by {plain(found.issuer, LONGEST_NAME)}"


def _until(found: Document) -> str:
    return f", holds until {found.expires[:10]}" if found.expires else ""


def _name(identity: Any, part: str) -> str:
    """A name in an identity, on one line; empty where it is not told. Models and suites name themselves."""
    value = identity.get(part) if isinstance(identity, Mapping) else None
    return "" if value is None else plain(" ".join(str(value).split()), LONGEST_NAME)
