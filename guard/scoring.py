"""Guard: asks a simulator every question of a plan, has each reply judged, and writes each item down at once."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from benchmark_core.digest import digest
from benchmark_core.errors import InputError, LedgerError, UserSimGuardError
from guard.asking import Bench, score_one
from guard.ledger import Header, ScoredItem, stream
from guard.ledger_writer import Ledger
from suites.load import Suite
from suites.questions import Kind, Question, QuestionKey, Stratum

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


class Till(Protocol):
    """Decides before each question whether it may be begun, and hears what came of it."""

    async def open(self, question: Question) -> bool:
        """Whether the question may be begun."""
        ...

    async def close(self, question: Question, item: ScoredItem) -> None:
        """What came of it."""
        ...


class Free:
    """A `Till` without a limit."""

    async def open(self, question: Question) -> bool:
        """Always."""
        return True

    async def close(self, question: Question, item: ScoredItem) -> None:
        """Nothing to book."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What goes along with scoring: progress per item, and who holds the money."""

    progress: Callable[[ScoredItem], None]
    till: Till


async def score(bench: Bench, queue: Iterator[tuple[Question, int]], ledger: Ledger, hooks: Hooks) -> None:
    """Score what `todo` yields, with a fixed set of workers; ends early when the till opens no further question.

    Raises:
        EndpointLost: after `GIVE_UP_AFTER` infrastructure failures in a row.
    """
    health = _Health()

    async def worker() -> None:
        for question, attempt in queue:
            if not await hooks.till.open(question):
                return
            item = replace(await score_one(bench, question), attempt=attempt)
            ledger.append(item)
            await hooks.till.close(question, item)
            hooks.progress(item)
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
