"""Guard: asks a simulator every question of a plan, has each reply judged, and writes each item down at once."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark_core.chat import Completion
from benchmark_core.digest import digest
from benchmark_core.errors import InputError, LedgerError, SimulatorError, SimulatorFailure, UserSimGuardError
from benchmark_core.ports import Action, Ask, Reply, UserSimulator
from benchmark_core.sql.fragments import overlaps
from guard.ledger import Call, Header, ScoredItem, stream
from guard.ledger_writer import Ledger
from judge.verdict import Evidence, Judge, Judged, Unjudged, UnjudgedCause
from suites.load import Suite
from suites.questions import AmbReference, Kind, LocReference, Question, QuestionKey, Stratum
from suites.tasks import Oracle

MAX_ATTEMPTS = 3  # of one item over all resumes: without a cap, retrying only failures would raise the rate
GIVE_UP_AFTER = 12  # infrastructure failures in a row: the endpoint is gone, and every further item would fail too
_INFRASTRUCTURE = {"unavailable", "rate_limited", "timeout", "rejected"}  # of SimulatorFailure and UnjudgedCause alike


class EndpointLost(UserSimGuardError):
    """So many infrastructure failures in a row that the run stopped. What is done is kept; resume goes on."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which part of the suite is scored. Anything but all kinds and tasks without a limit makes the run partial.

    Attributes:
        tasks: instance ids; empty means all.
        excluded_tasks: ungradable tasks by the gold audit; kept out of rates without making the run partial.
    """

    kinds: tuple[Kind, ...] = tuple(Kind)
    tasks: tuple[str, ...] = ()
    limit: int | None = None
    excluded_tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run covers. `partial` when that is less than the suite's gradable core questions."""

    questions: tuple[Question, ...]
    scope: Scope
    partial: bool

    def identity(self) -> dict[str, Any]:
        """What decides the plan, and a digest of the keys, JSON-able."""
        keys = [[q.key.instance_id, q.key.question_id, q.key.style, q.key.kind] for q in self.questions]
        return {
            "kinds": sorted(self.scope.kinds),
            "tasks": sorted(self.scope.tasks),
            "limit": self.scope.limit,
            "excluded_tasks": sorted(self.scope.excluded_tasks),
            "keys": digest(keys),
        }


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


def plan(suite: Suite, scope: Scope) -> Plan:
    """Choose the questions, grouped by database and task so that a serving engine's prefix cache works.

    With a limit, the choice is stratified: kinds, databases and styles take turns, always in the same way.

    Raises:
        InputError: for a task that the suite does not hold.
    """
    if unknown := set(scope.tasks) - {task.instance_id for task in suite.tasks}:
        raise InputError(f"no task has the id {', '.join(sorted(unknown))}")
    gradable = [q for q in suite.questions if q.key.instance_id not in scope.excluded_tasks]
    core = [q for q in gradable if q.stratum is Stratum.CORE]
    chosen = [q for q in core if q.kind in scope.kinds and (not scope.tasks or q.key.instance_id in scope.tasks)]
    if scope.limit is not None and scope.limit < len(chosen):
        chosen = _stratified(chosen, scope.limit)
    chosen.sort(key=lambda q: (q.database, q.key))
    return Plan(tuple(chosen), scope, len(chosen) < len(core))


def plan_of(suite: Suite, header: Header) -> Plan:
    """The plan of a run on disk, made anew from the suite.

    Raises:
        InputError: when the suite at hand is not the run's.
        LedgerError: when the header names no plan that can be made anew.
    """
    try:
        of_run, was = header.identities["suite"]["digest"], header.identities["plan"]
        kinds = tuple(Kind(kind) for kind in was["kinds"])
        scope = Scope(kinds, tuple(was["tasks"]), was["limit"], tuple(was["excluded_tasks"]))
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"the header's plan cannot be read ({type(error).__name__}: {error})") from None
    if of_run != suite.digest:
        raise InputError(
            f"the run is of a suite with digest {of_run}, this one has {suite.digest}; give it with --suite"
        )
    again = plan(suite, scope)
    if again.identity() != was:
        raise LedgerError("the header's plan cannot be made anew from this suite: the header was changed")
    return again


def _stratified(questions: Sequence[Question], limit: int) -> list[Question]:
    strata: dict[tuple[str, str, str], list[Question]] = {}
    for question in sorted(questions, key=lambda q: (q.key.question_id, q.key)):
        strata.setdefault((question.key.style, question.database, question.kind), []).append(question)
    queues = [strata[name] for name in sorted(strata)]
    deepest = max(map(len, queues))
    turns = [queue[depth] for depth in range(deepest) for queue in queues if depth < len(queue)]
    return turns[:limit]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one question stands: how often it was tried, and whether it is tried again."""

    attempts: int
    settled: bool


def standings(ledger: Path) -> dict[QuestionKey, Standing]:
    """Where each question of a ledger stands; empty for a run that has just begun.

    Failed and unjudged items are tried again: `MAX_ATTEMPTS` times in all, or as often as needed where only the
    endpoint failed.
    """
    found = {}
    for item in stream(ledger):
        tried_enough = item.attempt >= MAX_ATTEMPTS and not _infrastructure(item)
        found[item.key] = Standing(item.attempt, item.rating is not None or tried_enough)
    return found


def todo(work: Plan, done: Mapping[QuestionKey, Standing]) -> Iterator[tuple[Question, int]]:
    """The questions still to be asked, each with the number of its next attempt."""
    for question in work.questions:
        standing = done.get(question.key, Standing(0, settled=False))
        if not standing.settled:
            yield question, standing.attempts + 1


async def score(
    bench: Bench, queue: Iterator[tuple[Question, int]], ledger: Ledger, progress: Callable[[ScoredItem], None]
) -> None:
    """Score what `todo` yields, with a fixed set of workers.

    Raises:
        EndpointLost: after `GIVE_UP_AFTER` infrastructure failures in a row.
    """
    health = _Health()

    async def worker() -> None:
        for question, attempt in queue:
            item = await score_one(bench, question)
            item = replace(item, attempt=attempt)
            ledger.append(item)
            progress(item)
            health.note(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(bench.concurrency):
                group.create_task(worker())
    except* EndpointLost as lost:
        raise lost.exceptions[0] from None


def _infrastructure(item: ScoredItem) -> bool:
    """Whether the item failed for a reason that says nothing about simulator or judge."""
    return (item.failure or item.unjudged) in _INFRASTRUCTURE


class _Health:
    """Counts infrastructure failures in a row."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def note(self, item: ScoredItem) -> None:
        self._in_a_row = self._in_a_row + 1 if _infrastructure(item) else 0
        if self._in_a_row >= GIVE_UP_AFTER:
            who = "simulator" if item.failure else "judge"
            raise EndpointLost(
                f"stopped after {GIVE_UP_AFTER} failures in a row, the last of the {who}'s endpoint: {item.reason}. "
                "What is done is kept: mend the endpoint and go on with --resume"
            )


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
