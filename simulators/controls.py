"""Simulators: controls that need no model. They check the measure, not a backbone.

A control answers from the annotation of the question, so it is given the annotations when it is built; an `Ask` still
carries no kind and no label.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmark_core.errors import SimulatorError, SimulatorFailure
from benchmark_core.ports import Ask, Reply, UserSimulator
from suites.questions import AmbReference, Kind, LocReference, Question, QuestionKey
from suites.tasks import Oracle

REFUSALS = (
    "Sorry, that is not something I can help you with.",
    "I can't tell you that, I only know what I want to find out.",
    "That one is for you to work out, I can't answer it.",
)


class Fault(StrEnum):
    """What a faulty reply does wrong."""

    LEAK = "leak"
    WRONG_ANSWER = "wrong_answer"
    OVER_REFUSAL = "over_refusal"


@dataclass(frozen=True, slots=True)
class FaultyReply:
    """A reply, written by hand for one point, that must not be accepted."""

    instance_id: str
    question_id: str
    kind: Kind
    fault: Fault
    reply: str


class Annotations:
    """Looks the annotated question of an `Ask` up by task and text."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self._by_text = {(question.key.instance_id, question.text): question for question in questions}

    def find(self, ask: Ask) -> Question:
        """The annotated question.

        Raises:
            SimulatorError: for a question that the suite does not hold: controls answer no others.
        """
        question = self._by_text.get((ask.oracle.instance_id, ask.text))
        if question is None:
            raise SimulatorError(SimulatorFailure.CRASHED, "a control answers only the suite's own questions")
        return question


class OracleControl:
    """Says what the annotation says a right answer conveys; refuses UNA. Must meet every floor (harness check)."""

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations

    async def answer(self, ask: Ask) -> Reply:
        reference = self._annotations.find(ask).reference
        if isinstance(reference, AmbReference | LocReference):
            return Reply(reference.answer)
        return Reply(_refusal(ask))


class LeakyControl:
    """Always pastes the SQL fragment. Must fail every kind for disclosure."""

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations

    async def answer(self, ask: Ask) -> Reply:
        return Reply(f"In the query that is: {_fragment(self._annotations.find(ask), ask.oracle)}")


class MuteControl:
    """Always refuses. Must fail AMB and LOC, and pass UNA."""

    async def answer(self, ask: Ask) -> Reply:
        return Reply(_refusal(ask))


class DoseControl:
    """The oracle with a known share of faulty replies: the measure must find the share again.

    Args:
        faults: the faulty reply of each question that has one; see `dose`.
    """

    def __init__(self, oracle: UserSimulator, annotations: Annotations, faults: Mapping[QuestionKey, str]) -> None:
        self._oracle, self._annotations, self._faults = oracle, annotations, faults

    async def answer(self, ask: Ask) -> Reply:
        fault = self._faults.get(self._annotations.find(ask).key)
        return Reply(fault) if fault is not None else await self._oracle.answer(ask)


def dose(
    questions: Sequence[Question], pool: Iterable[FaultyReply], share: float, rng: random.Random
) -> dict[QuestionKey, str]:
    """Choose, in each kind that the pool speaks of, `share` of the questions (rounded) and a faulty reply for each.

    Raises:
        ValueError: when a kind has too few questions with a faulty reply.
    """
    by_point: dict[tuple[str, str, Kind], list[str]] = {}
    for faulty in pool:
        by_point.setdefault((faulty.instance_id, faulty.question_id, faulty.kind), []).append(faulty.reply)
    chosen: dict[QuestionKey, str] = {}
    for kind in sorted({kind for _, _, kind in by_point}):
        rows = sorted((q.key for q in questions if q.kind is kind), key=str)
        able = [key for key in rows if (key.instance_id, key.question_id, kind) in by_point]
        wanted = round(share * len(rows))
        if wanted > len(able):
            raise ValueError(f"{kind}: {wanted} faulty replies wanted, only {len(able)} questions have one")
        for key in rng.sample(able, wanted):
            chosen[key] = rng.choice(by_point[key.instance_id, key.question_id, kind])
    return chosen


def _refusal(ask: Ask) -> str:
    return REFUSALS[sum(ask.text.encode()) % len(REFUSALS)]


def _fragment(question: Question, oracle: Oracle) -> str:
    match question.reference:
        case AmbReference(ambiguity=term):
            return next(a.sql_snippet for a in oracle.ambiguities if a.term == term)
        case LocReference(fragment=fragment):
            return fragment
        case _:
            return max((a.sql_snippet for a in oracle.ambiguities), key=len)
