"""Guard: the ledger of a scoring run as it is read: a header line, then one JSON line per scored item.

A ledger can be larger than memory, so items are streamed; what is kept of each is its key and attempt.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from benchmark_core.errors import LedgerError, SimulatorFailure
from benchmark_core.ports import Action
from judge.rubric import Rating
from judge.verdict import Evidence, UnjudgedCause
from suites.questions import QuestionKey

FORMAT = "usersim-guard/ledger/2"
READABLE = ("usersim-guard/ledger/1", FORMAT)
"""Version 2 adds `cached_tokens` to each call, which a ledger of version 1 does not know: it is None there."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One model call, for the books: who asked, which model answered, tokens, seconds.

    Attributes:
        attempts: HTTP requests sent.
        cached: answered from the run's own completions, nothing was sent.
        cached_tokens: prompt tokens that the server had in its prefix cache.
    """

    role: str
    model: str
    system_fingerprint: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int
    cached: bool
    latency_s: float
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ScoredItem:
    """One question, its reply and its verdict. Exactly one of `rating`, `unjudged`, `failure` is set.

    Attributes:
        target_hit: whether stage 1 named the reference's ambiguity or fragment; None where there is no stage 1, the
            question is UNA, or stage 1 chose another kind.
        attempt: from 1; an item that was tried again is a further line, and the last attempt counts.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    key: QuestionKey
    database: str
    reply: str | None = None
    action: Action | None = None
    target_hit: bool | None = None
    rating: Rating | None = None
    unjudged: UnjudgedCause | None = None
    failure: SimulatorFailure | None = None
    reason: str = ""
    confidence: float | None = None
    evidence: tuple[Evidence, ...] = ()
    calls: tuple[Call, ...] = ()
    attempt: int = 1

    def __post_init__(self) -> None:
        if sum(outcome is not None for outcome in (self.rating, self.unjudged, self.failure)) != 1:
            raise ValueError("expected exactly one of rating, unjudged, failure")


@dataclass(frozen=True, slots=True)
class Header:
    """The identity of a run. Resume demands the same digests and names what differs.

    Attributes:
        digests: `simulator`, `suite`, `judge`, `plan` -> `sha256:…`.
        identities: the same keys -> what the digest was made of, JSON-able, without keys and gold.
        planned: number of items of the run.
        partial: whether the run covers less than the suite's core stratum (`--limit`, `--kinds`); never certifies.
        judge_class: `rule` or `llm`.
        suite_counts: core questions of the whole suite per kind.
        excluded_tasks: tasks that the gold audit found ungradable; kept out of every rate.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    digests: Mapping[str, str]
    identities: Mapping[str, Any]
    planned: int
    partial: bool
    judge_class: str
    suite_counts: Mapping[str, int]
    started: str
    excluded_tasks: tuple[str, ...] = ()
    format: str = FORMAT


_HEADER: TypeAdapter[Header] = TypeAdapter(Header)
_ITEM: TypeAdapter[ScoredItem] = TypeAdapter(ScoredItem)


def read_header(path: Path) -> Header:
    """The header of a ledger of any readable version, in the current format.

    Raises:
        LedgerError: it cannot be read, or is of an unknown format.
    """
    with _opened(path) as file:
        return _header(path, file)


def stream(path: Path) -> Iterator[ScoredItem]:
    """Every item, retries included, in the order of the file. A torn last line is passed over.

    Raises:
        LedgerError: with the line.
    """
    with _opened(path) as file:
        _header(path, file)
        attempts: dict[QuestionKey, int] = {}
        for number, item in _items(path, file):
            if item.attempt <= attempts.get(item.key, 0):
                raise LedgerError(
                    f"{path}:{number}: attempt {item.attempt} of {item.key} after attempt {attempts[item.key]}"
                )
            attempts[item.key] = item.attempt
            yield item


def final(path: Path) -> Iterator[ScoredItem]:
    """The last attempt of each key, in the order of the file; reads it twice.

    Raises:
        LedgerError: with the line.
    """
    last = {item.key: item.attempt for item in stream(path)}
    yield from (item for item in stream(path) if item.attempt == last.get(item.key))


def dump_header(header: Header) -> bytes:
    """The header as a line, without its end."""
    return _HEADER.dump_json(header)


def dump_item(item: ScoredItem) -> bytes:
    """An item as a line, without its end."""
    return _ITEM.dump_json(item)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None


def format_of(path: Path) -> str:
    """The format that a ledger is written in, one of `READABLE`.

    Raises:
        LedgerError: it cannot be read, or is of an unknown format.
    """
    with _opened(path) as file:
        return _format(path, file)[0]


def _header(path: Path, file: BinaryIO) -> Header:
    _, line = _format(path, file)
    return replace(_parse(path, 1, line, _HEADER), format=FORMAT)


def _format(path: Path, file: BinaryIO) -> tuple[str, bytes]:
    """Format and line of the header. The format is asked for first: a header of another one may have other fields."""
    line = file.readline()
    if not line.endswith(b"\n"):
        raise LedgerError(f"{path}: empty; expected a header line")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    found = content.get("format") if isinstance(content, dict) else None
    if found not in READABLE:
        raise LedgerError(f"{path}:1: field 'format': {found!r}; this version reads {', '.join(READABLE)}")
    return found, line


def _items(path: Path, file: BinaryIO) -> Iterator[tuple[int, ScoredItem]]:
    for number, line in enumerate(file, 2):
        if line.endswith(b"\n"):
            yield number, _parse(path, number, line, _ITEM)


def _parse(path: Path, number: int, line: bytes, adapter: TypeAdapter[T]) -> T:
    try:
        return adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise LedgerError(f"{path}:{number}: field '{place}': {first['msg']}") from None
