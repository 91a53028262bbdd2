"""Guard: one question: asks the simulator, has the reply judged, and puts what came of it into one item."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from benchmark_core.chat import Completion
from benchmark_core.errors import SimulatorError, SimulatorFailure
from benchmark_core.ports import Action, Ask, Reply, UserSimulator
from benchmark_core.sql.fragments import overlaps
from guard.ledger import Call, ScoredItem
from judge.verdict import Evidence, Judge, Judged, Unjudged, UnjudgedCause
from suites.questions import AmbReference, LocReference, Question
from suites.tasks import Oracle


@dataclass(frozen=True, slots=True)
class Bench:
    """The built parts of a run.

    Attributes:
        evidence: what a reply disclosed, by the deterministic detector; recorded beside any judge's verdict.
    """

    simulator: UserSimulator
    judge: Judge
    evidence: Callable[[Question, str], tuple[Evidence, ...]]
    oracles: Mapping[str, Oracle]
    concurrency: int


async def score_one(bench: Bench, question: Question) -> ScoredItem:
    """Ask, judge, and put the outcome into one item. A failure is a value here, never a rating."""
    ask = Ask(question.text, bench.oracles[question.key.instance_id])
    try:
        reply = await bench.simulator.answer(ask)
    except SimulatorError as error:
        return _failed(question, error.cause, error.detail, error.completions)
    except Exception as stray:  # noqa: BLE001 - the boundary of foreign simulators: one crash must not lose the run
        return _failed(question, SimulatorFailure.CRASHED, f"{type(stray).__name__}: {stray}", ())
    if not reply.text.strip():
        return _failed(question, SimulatorFailure.EMPTY, "the simulator returned no text", reply.completions)
    try:
        verdict = await bench.judge.grade(question, reply.text)
    except Exception as stray:  # noqa: BLE001 - as above, for judges
        verdict = Unjudged(UnjudgedCause.CRASHED, f"{type(stray).__name__}: {stray}")
    return _judged(question, reply, verdict, bench.evidence(question, reply.text))


def _failed(
    question: Question, cause: SimulatorFailure, detail: str, completions: tuple[Completion, ...]
) -> ScoredItem:
    return ScoredItem(
        key=question.key,
        database=question.database,
        failure=cause,
        reason=detail,
        calls=_calls("simulator", completions),
    )


def _judged(question: Question, reply: Reply, verdict: Judged | Unjudged, evidence: tuple[Evidence, ...]) -> ScoredItem:
    item = ScoredItem(
        key=question.key,
        database=question.database,
        reply=reply.text,
        action=reply.action,
        target_hit=target_hit(question, reply.action),
        unjudged=UnjudgedCause.CRASHED,
        evidence=evidence,
        calls=_calls("simulator", reply.completions) + _calls("judge", verdict.completions),
    )
    match verdict:
        case Judged(rating, reason, confidence):
            return replace(item, unjudged=None, rating=rating, reason=reason, confidence=confidence)
        case Unjudged(cause, detail):
            return replace(item, unjudged=cause, reason=detail)


def target_hit(question: Question, action: Action | None) -> bool | None:
    """Whether stage 1 named the reference's ambiguity or fragment; None where that cannot be asked."""
    if action is None or action.target is None or action.kind is not question.kind:
        return None
    match question.reference:
        case AmbReference(ambiguity=term):
            return action.target == term
        case LocReference(fragment=fragment):
            return overlaps(action.target, fragment)
        case _:
            return None


def _calls(role: str, completions: tuple[Completion, ...]) -> tuple[Call, ...]:
    return tuple(
        Call(
            role=role,
            model=c.model,
            system_fingerprint=c.system_fingerprint,
            prompt_tokens=c.usage.prompt_tokens,
            completion_tokens=c.usage.completion_tokens,
            attempts=c.attempts,
            cached=c.cached,
            latency_s=c.latency_s,
            cached_tokens=c.usage.cached_tokens,
        )
        for c in completions
    )
