"""Guard: grades as they are kept, one JSON line each, and counted: both regimes side by side."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from benchmark_core.digest import digest
from benchmark_core.errors import DigestMismatch, InputError, LedgerError
from benchmark_core.grading.outcome import Outcome
from guard.appending import open_alone, write_line
from suites.tasks import Category

FORMAT = "usersim-guard/grades/1"
"""First line: a header with this format and the digests of suite, predictions and settings. Then one grade a line."""


@dataclass(frozen=True, slots=True)
class Key:
    """A submission: the `number`-th of a sub-task (1 or 2) of a task."""

    instance_id: str
    sub_task: int
    number: int


@dataclass(frozen=True, slots=True)
class Kept:
    """One regime's outcome. `message` may be shown to the system; `detail` is for the operator, and kept on request."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    outcome: Outcome
    message: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GradedItem:
    """A submission's grade. `recorded`: whether it passed when it was made; `seconds` is what grading it took."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    key: Key
    category: Category
    strict: Kept
    official: Kept
    recorded: bool | None = None
    seconds: float = 0.0


_ITEM = TypeAdapter(GradedItem)


class GradeFile:
    """An open file of grades: written as they come, so that a kill loses none."""

    def __init__(self, done: tuple[GradedItem, ...], descriptor: int) -> None:
        self.done, self._descriptor = done, descriptor

    @classmethod
    def open(cls, path: Path, identity: Mapping[str, str], *, resume: bool) -> Self:
        """Create the file, or go on with it.

        Raises:
            InputError: it exists and `resume` is false.
            DigestMismatch: it is of another suite, of other predictions or settings.
            LedgerError: it is damaged.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        header = {"format": FORMAT, **identity}
        descriptor = open_alone(path)
        try:
            if os.fstat(descriptor).st_size == 0:
                write_line(descriptor, json.dumps(header).encode())
                return cls((), descriptor)
            if not resume:
                raise InputError(f"{path}: holds grades already; go on with --resume, or choose another --out")
            found, done = _read(path)
            if differing := sorted(name for name in header if found.get(name) != header[name]):
                raise DigestMismatch(f"{path}: is of other {', '.join(differing)}; choose another --out")
            return cls(done, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def append(self, item: GradedItem) -> None:
        """Write one grade; it is with the operating system when this returns."""
        write_line(self._descriptor, _ITEM.dump_json(item, exclude_defaults=True))

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def identity(suite: str, predictions: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """What a file of grades is of: `sha256:…` of suite, predictions and settings."""
    return {
        "suite": suite,
        "predictions": digest(predictions.read_text(encoding="utf-8")),
        "settings": digest(settings),
    }


def _read(path: Path) -> tuple[dict[str, Any], tuple[GradedItem, ...]]:
    first, *rest = path.read_bytes().splitlines()
    try:
        header = json.loads(first)
        items = tuple(map(_ITEM.validate_json, rest))
    except (ValidationError, ValueError):
        raise LedgerError(f"{path}: is no file of grades, or damaged; choose another --out") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise LedgerError(f"{path}: expected the format {FORMAT}; choose another --out")
    return header, items


@dataclass(frozen=True, slots=True)
class Count:
    """Sub-tasks of one category in one position: passed by any of their submissions, by regime.

    Attributes:
        sub_tasks: that can be counted: neither the suite nor a server has failed them.
        apart: by outcome, sub-tasks that cannot.
    """

    sub_task: int
    category: Category
    sub_tasks: int
    strict: int
    official: int
    apart: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tally:
    """Grades counted. `differ`: submissions on which the regimes disagree, as `strict / official` outcomes."""

    submissions: int
    counts: tuple[Count, ...]
    outcomes: Mapping[str, Mapping[str, int]]
    differ: Mapping[str, tuple[str, ...]]
    recorded: Mapping[str, int]

    @property
    def incomplete(self) -> bool:
        """Whether something of ours failed, so that grading again may tell."""
        return any(Outcome.INFRASTRUCTURE in by_outcome for by_outcome in self.outcomes.values())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def tally(items: Iterable[GradedItem]) -> Tally:
    """Count grades."""
    items = tuple(items)
    regimes = {
        "strict": Counter(i.strict.outcome for i in items),
        "official": Counter(i.official.outcome for i in items),
    }
    differ: dict[str, list[str]] = {}
    for item in items:
        if item.strict.outcome is not item.official.outcome:
            pair = f"{item.strict.outcome} / {item.official.outcome}"
            differ.setdefault(pair, []).append(f"{item.key.instance_id} {item.key.sub_task}.{item.key.number}")
    return Tally(
        submissions=len(items),
        counts=tuple(_counts(items)),
        outcomes={regime: {str(o): n for o, n in sorted(found.items())} for regime, found in regimes.items()},
        differ={pair: tuple(named) for pair, named in sorted(differ.items())},
        recorded=_recorded(items),
    )


def _counts(items: tuple[GradedItem, ...]) -> Iterator[Count]:
    groups: dict[tuple[int, Category], dict[str, list[GradedItem]]] = {}
    for item in items:
        tasks = groups.setdefault((item.key.sub_task, item.category), {})
        tasks.setdefault(item.key.instance_id, []).append(item)
    for (sub_task, category), tasks in sorted(groups.items()):
        apart: Counter[str] = Counter()
        passed: Counter[str] = Counter()
        for made in tasks.values():
            told = [i for i in made if i.strict.outcome.of_the_system and i.official.outcome.of_the_system]
            if not told:
                lost = made[-1].strict.outcome
                apart[made[-1].official.outcome if lost.of_the_system else lost] += 1
                continue
            passed["strict"] += any(i.strict.outcome is Outcome.PASSED for i in told)
            passed["official"] += any(i.official.outcome is Outcome.PASSED for i in told)
        counted = len(tasks) - apart.total()
        yield Count(sub_task, category, counted, passed["strict"], passed["official"], dict(apart))


def _recorded(items: Iterable[GradedItem]) -> dict[str, int]:
    """How our `official` agrees with what was recorded, where that is known and can be told."""
    known = [i for i in items if i.recorded is not None and i.official.outcome.of_the_system]
    agree = sum((i.official.outcome is Outcome.PASSED) is i.recorded for i in known)
    return {"known": len(known), "agree": agree} if known else {}
