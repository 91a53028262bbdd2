"""Guard: what each question of a run came to. One pass over ledger lines; texts are let go, a few fields a key stay."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark_core.errors import LedgerError
from guard.books import Books, Usage
from guard.ledger import Header, ScoredItem
from judge.rubric import Rating, accepted
from judge.verdict import EvidenceKind
from suites.questions import Kind, QuestionKey

NO_ACTION = "no action"
Expected = Mapping[Kind, Sequence[QuestionKey]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last attempt at one question. Exactly one of `rating`, `unjudged`, `failure` is set.

    Attributes:
        chosen: stage 1's choice; "no action" where there was none.
        evidence: kinds of what the reply disclosed.
    """

    attempt: int
    rating: Rating | None
    unjudged: str | None
    failure: str | None
    chosen: str
    target_hit: bool | None
    evidence: tuple[EvidenceKind, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """A run's lines, boiled down.

    Attributes:
        databases: instance id -> database, of every task with a line.
        usage: role -> model calls over all attempts.
    """

    outcomes: Mapping[QuestionKey, Outcome]
    databases: Mapping[str, str]
    usage: Mapping[str, Usage]


def column(kind: Kind, outcome: Outcome | None) -> str:
    """The field of `Cell` that counts a row: a question without a line or a verdict is open."""
    if outcome is None or outcome.unjudged is not None:
        return "open"
    if outcome.rating is None:
        return "failed"
    return "accepted" if accepted(kind, outcome.rating) else "rejected"


def collect(items: Iterable[ScoredItem], header: Header, expected: Expected) -> Collected:
    """Boil a run down; the order of the items does not matter, and of each key the last attempt counts.

    Raises:
        LedgerError: the same attempt twice, an item that was not planned, a rating that is not on its kind's menu, a
            task in two databases, or a plan that is not the header's.
    """
    known = _planned(header, expected)
    outcomes: dict[QuestionKey, Outcome] = {}
    attempts: dict[QuestionKey, int] = dict.fromkeys(known, 0)  # bit n: attempt n was seen
    databases: dict[str, str] = {}
    books = Books()
    for item in items:
        _check(item, attempts, databases)
        attempts[item.key] |= 1 << item.attempt
        books.add(item.calls)
        last = outcomes.get(item.key)
        if last is None or item.attempt > last.attempt:
            outcomes[item.key] = _outcome(item)
    return Collected(outcomes, databases, books.usage())


def _planned(header: Header, expected: Expected) -> list[QuestionKey]:
    planned = [key for keys in expected.values() for key in keys]
    if len(planned) != header.planned or len(set(planned)) != len(planned):
        raise LedgerError(f"the run planned {header.planned} questions, {len(set(planned))} are given: another plan")
    if misplaced := [key for kind, keys in expected.items() for key in keys if key.kind is not kind]:
        raise LedgerError(f"expected under {misplaced[0].kind}: {misplaced[0]}")
    return planned


def _check(item: ScoredItem, attempts: Mapping[QuestionKey, int], databases: dict[str, str]) -> None:
    if item.key not in attempts:
        raise LedgerError(f"not planned: {item.key}")
    if attempts[item.key] >> item.attempt & 1:
        raise LedgerError(f"attempt {item.attempt} of {item.key} stands twice")
    if databases.setdefault(item.key.instance_id, item.database) != item.database:
        raise LedgerError(f"task {item.key.instance_id} stands in two databases")
    if item.rating is not None:
        try:
            accepted(item.key.kind, item.rating)
        except ValueError as error:
            raise LedgerError(f"{item.key}: {error}") from None


def _outcome(item: ScoredItem) -> Outcome:
    return Outcome(
        attempt=item.attempt,
        rating=item.rating,
        unjudged=item.unjudged,
        failure=item.failure,
        chosen=item.action.kind if item.action else NO_ACTION,
        target_hit=item.target_hit,
        evidence=tuple(sorted({found.kind for found in item.evidence})),
    )
