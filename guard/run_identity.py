"""Guard: what a run is of, read from its header and put into words. A header is a file of others."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmark_core.digest import digest
from benchmark_core.errors import InputError, LedgerError
from guard.excerpts import plain
from guard.ledger import Header, read_header
from guard.runs import RunFolder

SHORT = 12
"""Characters of a digest that are shown."""


@contextmanager
def named(folder: RunFolder) -> Iterator[None]:
    """Errors about a run begin with its folder, so that it is said which of several is at fault."""
    try:
        yield
    except (InputError, LedgerError) as error:
        if str(error).startswith(str(folder.root)):
            raise
        raise type(error)(f"{folder.root}: {error}") from None


def sound_header(folder: RunFolder) -> Header:
    """A run's header whose digests are those of the identities beside them, so that equal digests mean equal things.

    Raises:
        LedgerError: it cannot be read, or a digest is of something else.
    """
    header = read_header(folder.ledger)
    for name in ("simulator", "judge", "suite", "plan"):
        identity = header.identities.get(name)
        if not isinstance(identity, Mapping) or digest(identity) != header.digests.get(name):
            raise LedgerError(f"{folder.ledger}:1: digest '{name}': not that of the identity, the header was changed")
    return header


def short(sha256: str) -> str:
    """The beginning of a `sha256:…` digest."""
    return sha256.removeprefix("sha256:")[:SHORT]


def judge_name(header: Header) -> str:
    """`the rule judge`, or model and rubric of a language model."""
    judge = header.identities["judge"]
    if header.judge_class == "rule":
        return "the rule judge (no language model)"
    return f"{_text(judge, 'model')}, rubric {_text(judge, 'rubric')}"


def suite_name(header: Header) -> str:
    """Name and version."""
    suite = header.identities["suite"]
    return f"{_text(suite, 'name')} {_text(suite, 'version')}"


def variant(header: Header) -> str:
    """`baseline`, `function-driven`, a control's name, …"""
    return _text(header.identities["simulator"], "variant")


def backbone(header: Header) -> str | None:
    """The model behind the simulator, with its revision; None for one without a model."""
    simulator = header.identities["simulator"]
    if simulator.get("model") is None:
        return None
    revision = "" if simulator.get("revision") is None else f" @ {_text(simulator, 'revision')}"
    return _text(simulator, "model") + revision


def simulator_name(header: Header) -> str:
    """Variant and backbone."""
    return " ".join(filter(None, (variant(header), backbone(header))))


def _text(identity: Mapping[str, Any], field: str) -> str:
    return plain(str(identity.get(field, "unknown")))
