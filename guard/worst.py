"""Guard: the worst replies of a run as a report shows them, with or without what is gold."""

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from guard.excerpts import Piece, Role, excerpt, occurrences, spans_of
from guard.ledger import ScoredItem
from judge.rubric import MENU, Rating, accepted
from judge.verdict import EvidenceKind
from suites.load import Suite
from suites.questions import AmbReference, Kind, LocReference, Question, QuestionKey, Reference, UnaReference
from suites.suite import Part
from suites.tasks import Oracle

LIMIT = 30


@dataclass(frozen=True, slots=True)
class WorstReply:
    """One row. What may hold gold is empty or hidden where that is withheld.

    Attributes:
        disclosed: kinds of evidence that the detector found in the reply.
        reply: None where there was none.
        verdict: rating and its label, or why there is none.
        reason: the judge's, or the detail of a failure; None where there is none or it is withheld.
        stage_1: what it chose; None where there is no stage 1.
        reference: name and text of what the question was held against.
    """

    key: QuestionKey
    database: str
    question: str
    disclosed: tuple[EvidenceKind, ...]
    reply: tuple[Piece, ...] | None
    verdict: str
    accepted: bool
    reason: str | None
    stage_1: str | None
    reference: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Worst:
    """The rows to look at, worst first, at most `LIMIT`; `rows`: how many call for a look."""

    items: tuple[ScoredItem, ...]
    rows: int


def worst(items: Iterable[ScoredItem]) -> Worst:
    """The rows that call for a look: disclosing, rejected, B, without a reply, without a verdict.

    Within these, kinds take turns, and replies that disclose more come first. Of `items`, each of another question, no
    more than `LIMIT` a group are kept.
    """
    groups: dict[tuple[int, Kind], list[ScoredItem]] = {}
    rows = 0
    for item in items:
        rank = _rank(item)
        if rank is not None:
            rows += 1
            insort(groups.setdefault((rank, item.key.kind), []), item, key=_order)
            del groups[rank, item.key.kind][LIMIT:]
    order = list(Kind)
    turns = [
        (rank, turn, order.index(kind), item)
        for (rank, kind), group in groups.items()
        for turn, item in enumerate(group)
    ]
    turns.sort(key=lambda row: row[:3])
    return Worst(tuple(item for *_, item in turns[:LIMIT]), rows)


def _order(item: ScoredItem) -> tuple[int, QuestionKey]:
    return -len(item.evidence), item.key


def _rank(item: ScoredItem) -> int | None:
    if item.evidence:
        return 0
    if item.rating is not None:
        if not accepted(item.key.kind, item.rating):
            return 1
        return 2 if item.rating is not Rating.A else None
    return 3 if item.failure is not None else 4


class Showing:
    """How rows of a suite are shown.

    Args:
        gold: whether texts of the oracle may be seen. If not, disclosed words and any passage of the task's annotation
            in a reply are hidden, and what judge and stage 1 said, which may quote it, is left out. Of a task whose
            gold is not at hand no reply is shown.
    """

    def __init__(self, suite: Suite, *, gold: bool) -> None:
        self._questions = {question.key: question for question in suite.questions}
        self._secrets = None if gold else _secrets(suite)
        self._unknown = {*suite.lacking[Part.TASKS], *suite.lacking[Part.GOLD]} if not gold else set()

    def rows(self, items: Iterable[ScoredItem]) -> tuple[WorstReply, ...]:
        """Items as they are shown."""
        return tuple(self._row(item) for item in items)

    def _row(self, item: ScoredItem) -> WorstReply:
        task = item.key.instance_id
        row = _shown(item, self._questions[item.key], None if self._secrets is None else self._secrets[task])
        if task not in self._unknown or row.reply is None:
            return row
        return replace(row, reply=(Piece(Role.HIDDEN, "withheld: the task's gold is not at hand"),))


def _secrets(suite: Suite) -> dict[str, set[str]]:
    """Texts of the oracle, by task."""
    secrets: dict[str, set[str]] = {}
    for question in suite.questions:
        secrets.setdefault(question.key.instance_id, set()).update(_annotation(question.reference))
    for instance_id, oracle in suite.oracles.items():
        secrets.setdefault(instance_id, set()).update(_solution(oracle))
    return secrets


def _shown(item: ScoredItem, question: Question, secrets: set[str] | None) -> WorstReply:
    gold, reply = secrets is None, None
    if item.reply is not None:
        hidden = {*secrets, *(found.text for found in item.evidence)} if secrets is not None else ()
        spans = spans_of(item.evidence) + occurrences(item.reply, hidden)
        reply = excerpt(item.reply, spans, hide=not gold)
    return WorstReply(
        key=item.key,
        database=item.database,
        question=question.text,
        disclosed=tuple(kind for kind in EvidenceKind if any(found.kind is kind for found in item.evidence)),
        reply=reply,
        verdict=_verdict(item),
        accepted=item.rating is not None and accepted(item.key.kind, item.rating),
        reason=(item.reason or None) if gold else None,
        stage_1=_stage_1(item, gold=gold),
        reference=tuple(_reference(question.reference)) if gold else (),
    )


def _verdict(item: ScoredItem) -> str:
    if item.rating is not None:
        return f"{item.rating}, {MENU[item.key.kind][item.rating]}"
    if item.failure is not None:
        return f"no reply: {item.failure.replace('_', ' ')}"
    return f"no verdict: {item.unjudged}"


def _stage_1(item: ScoredItem, *, gold: bool) -> str | None:
    if item.action is None:
        return None
    target = f": {item.action.target}" if gold and item.action.target is not None else ""
    hit = {True: " (right target)", False: " (wrong target)", None: ""}[item.target_hit]
    return f"{item.action.kind}{target}{hit}"


def _reference(reference: Reference | None) -> Iterator[tuple[str, str]]:
    match reference:
        case AmbReference(ambiguity=term, answer=answer):
            yield from (("Ambiguity", term), ("A right answer", answer))
        case LocReference(fragment=fragment, answer=answer):
            yield from (("Reference SQL", fragment), ("A right answer", answer))
        case UnaReference(asks_for=asks_for):
            yield "Asks for", asks_for


def _annotation(reference: Reference | None) -> Iterator[str]:
    match reference:
        case AmbReference(answer=answer, facts=facts):
            yield from (answer, *(fact.text for fact in facts))
        case LocReference(fragment=fragment, answer=answer, facts=facts):
            yield from (fragment, answer, *(fact.text for fact in facts))
        case UnaReference(asks_for=asks_for):
            yield asks_for


def _solution(oracle: Oracle) -> Iterator[str]:
    for ambiguity in oracle.ambiguities:
        yield from (ambiguity.sql_snippet, ambiguity.meaning)
    for entry in oracle.masked_knowledge:
        yield from (entry.description, entry.definition)
    yield from (*oracle.preprocess_sql, *oracle.clean_up_sqls)
    for sub_task in (oracle.first, oracle.follow_up):
        yield from (sub_task.query, *sub_task.sol_sql, *sub_task.test_cases)
        yield from (condition.sql for condition in sub_task.post_conditions)
