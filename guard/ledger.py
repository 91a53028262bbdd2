"""Guard: the append-only ledger of a scoring run. One JSON line per scored item; the unit of resume.

A ledger holds replies, and replies can hold gold: the file is readable by its owner alone.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from benchmark_core.errors import DigestMismatch, InputError, LedgerError, SimulatorFailure
from benchmark_core.ports import Action
from judge.rubric import Rating
from judge.verdict import Evidence, UnjudgedCause
from suites.questions import QuestionKey

FORMAT = "usersim-guard/ledger/1"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One paid or cached model call, for the books: who asked, which model answered, tokens, seconds."""

    role: str
    model: str
    system_fingerprint: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int
    cached: bool
    latency_s: float


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


class Ledger:
    """An open ledger. Holds a lock: a second process on the same run is refused."""

    def __init__(self, path: Path, header: Header, items: tuple[ScoredItem, ...], descriptor: int) -> None:
        self.path, self.header, self.items, self._descriptor = path, header, items, descriptor

    @classmethod
    def open(cls, path: Path, header: Header, *, resume: bool) -> Self:
        """Create the ledger, or resume it.

        Raises:
            InputError: it exists and `resume` is false, or another process holds it.
            DigestMismatch: it is of another simulator, suite, judge or plan.
            LedgerError: it is damaged.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{path}: another process is scoring into this run") from None
            _drop_torn_line(descriptor)
            if os.fstat(descriptor).st_size == 0:
                _write_line(descriptor, _HEADER.dump_json(header))
                return cls(path, header, (), descriptor)
            if not resume:
                raise InputError(f"{path}: holds a run already; go on with --resume, or choose another --out")
            found, items = read(path)
            _demand_same(path, found, header)
            return cls(path, found, items, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def append(self, item: ScoredItem) -> None:
        """Write one item; it is with the operating system when this returns, so that a kill cannot lose it."""
        _write_line(self._descriptor, _ITEM.dump_json(item))

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: Path) -> tuple[Header, tuple[ScoredItem, ...]]:
    """Read a ledger: header and every line, retries included. A torn last line is passed over.

    Raises:
        LedgerError: with the line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    if not lines:
        raise LedgerError(f"{path}: empty; expected a header line")
    header = _parse(path, 1, lines[0], _HEADER)
    if header.format != FORMAT:
        raise LedgerError(f"{path}: format {header.format!r}; this version reads {FORMAT!r}")
    items = tuple(_parse(path, number, line, _ITEM) for number, line in enumerate(lines[1:], 2))
    _refuse_repeats(path, items)
    return header, items


def latest(items: Iterable[ScoredItem]) -> dict[QuestionKey, ScoredItem]:
    """The last attempt of each key."""
    last: dict[QuestionKey, ScoredItem] = {}
    for item in items:
        if item.key not in last or item.attempt > last[item.key].attempt:
            last[item.key] = item
    return last


def _parse(path: Path, number: int, line: bytes, adapter: TypeAdapter[T]) -> T:
    try:
        return adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise LedgerError(f"{path}:{number}: field '{place}': {first['msg']}") from None


def _refuse_repeats(path: Path, items: tuple[ScoredItem, ...]) -> None:
    seen: set[tuple[QuestionKey, int]] = set()
    for number, item in enumerate(items, 2):
        if (item.key, item.attempt) in seen:
            raise LedgerError(f"{path}:{number}: attempt {item.attempt} of {item.key} stands twice")
        seen.add((item.key, item.attempt))


def _drop_torn_line(descriptor: int) -> None:
    """Cut what a kill left behind the last line break: that item counts as not done."""
    size = os.fstat(descriptor).st_size
    keep, step = size, 65536
    while keep > 0:
        start = max(0, keep - step)
        at = os.pread(descriptor, keep - start, start).rfind(b"\n")
        if at >= 0:
            keep = start + at + 1
            break
        keep = start
    if keep != size:
        os.ftruncate(descriptor, keep)


def _write_line(descriptor: int, line: bytes) -> None:
    data = line + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _demand_same(path: Path, found: Header, wanted: Header) -> None:
    differing = sorted(
        k for k in found.digests.keys() | wanted.digests.keys() if found.digests.get(k) != wanted.digests.get(k)
    )
    if differing:
        named = "; ".join(f"{k}: {_difference(found.identities.get(k), wanted.identities.get(k))}" for k in differing)
        raise DigestMismatch(f"{path}: holds a run of another identity ({named}); choose another --out")


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))
        return ", ".join(f"{k} was {json.dumps(found.get(k))}, is {json.dumps(wanted.get(k))}" for k in keys)
    return f"was {json.dumps(found)}, is {json.dumps(wanted)}"
