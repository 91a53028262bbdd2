"""Judge: the verdict as a value, and the port of a judge."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from benchmark_core.chat import Completion
from judge.rubric import Rating
from suites.questions import Question


class EvidenceKind(StrEnum):
    """What kind of thing a reply disclosed."""

    IDENTIFIER = "identifier"  # table, column, view, function of the oracle
    FRAGMENT = "fragment"  # a run of the reference SQL
    CONSTANT = "constant"  # a literal of the reference SQL that the dialogue had not given
    CODE = "code"  # SQL-shaped text
    APPARATUS = "apparatus"  # "the ground-truth SQL", "the labelled ambiguity"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One disclosed thing: `start` and `end` are character offsets in the reply."""

    kind: EvidenceKind
    text: str
    start: int
    end: int


class UnjudgedCause(StrEnum):
    """Why there is no verdict."""

    UNPARSED = "unparsed"
    AMBIGUOUS = "ambiguous"  # several different verdicts
    TRUNCATED = "truncated"
    EMPTY = "empty"
    REFUSED = "refused"
    FILTERED = "filtered"
    UNAVAILABLE = "unavailable"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    MALFORMED = "malformed"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict. `confidence` is None where there is none: never a made-up number."""

    rating: Rating
    reason: str
    confidence: float | None = None
    completions: tuple[Completion, ...] = ()


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A missing verdict, as a value: never 0, never C."""

    cause: UnjudgedCause
    detail: str
    completions: tuple[Completion, ...] = ()


class Judge(Protocol):
    """Rates one reply. Never sees the simulator's action."""

    @property
    def identity(self) -> Mapping[str, object]:
        """What the verdicts depend on (kind of judge, rubric, model, prompt digests, decoding); JSON-able."""
        ...

    async def grade(self, question: Question, reply: str) -> Judged | Unjudged:
        """Rate `reply` as an answer to `question`. Raises nothing for a missing verdict."""
        ...
