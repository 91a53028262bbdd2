"""Guard: a run's folder. Scores into it, and reads it back: ledger, scorecard, certificate or refusal, report."""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmark_core.errors import InputError
from guard.chats import HttpChats, StandIns
from guard.choices import Choices, Role
from guard.forecast import Rehearsal
from guard.ledger import Header, ScoredItem, read_header, stream
from guard.ledger_writer import Ledger
from guard.prices import Prices, paid
from guard.purse import CostReached, Purse
from guard.scorecard import Scorecard, expected_keys, tally
from guard.scoring import Free, Hooks, Plan, Scope, Till, plan, plan_of, score, standings, todo
from guard.tab import Tab
from guard.wiring import build, header, rehearsal
from suites.load import Suite


@dataclass(frozen=True, slots=True)
class Watch:
    """How a run is watched, and whether it goes on with what is there.

    Attributes:
        started: called once with the plan and the number of items done before; returns what is called per item.
    """

    started: Callable[[Plan, int], Callable[[ScoredItem], None]]
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """A run as counted from its ledger, which can be larger than memory: see `guard.ledger.final`.

    Attributes:
        cost_usd: of all attempts, in US dollars; None where the prices were not given.
    """

    header: Header
    ledger: Path
    scorecard: Scorecard
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run."""

    root: Path

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.jsonl"

    @property
    def completions(self) -> Path:
        return self.root / "completions.sqlite"

    @property
    def scorecard(self) -> Path:
        return self.root / "scorecard.json"

    @property
    def certificate(self) -> Path:
        return self.root / "certificate.json"

    @property
    def preflight(self) -> Path:
        return self.root / "preflight.json"

    @property
    def report(self) -> Path:
        return self.root / "report.html"


def run(suite: Suite, choices: Choices, scope: Scope, folder: RunFolder, watch: Watch) -> Counted:
    """Score into a folder and count.

    Raises:
        InputError, DigestMismatch, LedgerError, EndpointLost: see `Ledger.open` and `scoring.score`.
        CostReached: the limit of `choices.money` was reached; what is done is kept.
    """
    asyncio.run(_score(suite, choices, scope, folder, watch))
    counted, prices = count(suite, folder), choices.money.prices
    return replace(counted, cost_usd=spent(folder, prices)) if prices else counted


async def _score(suite: Suite, choices: Choices, scope: Scope, folder: RunFolder, watch: Watch) -> None:
    work = plan(suite, scope)
    async with AsyncExitStack() as stack:
        chats = HttpChats(stack, folder.completions, choices.concurrency)
        built = await build(suite, work, choices, chats, stack)
        ledger = stack.enter_context(Ledger.open(folder.ledger, header(built, suite, work), resume=watch.resume))
        done = standings(ledger.path)
        till = await _till(suite, work, choices, folder)
        await score(built.bench, todo(work, done), ledger, Hooks(watch.started(work, len(done)), till))
        if isinstance(till, Tab) and till.refused:
            purse = till.purse
            raise CostReached(
                f"stopped before --max-cost {purse.limit:.2f}: {purse.spent:.4f} US dollars are spent, and the next "
                "question might cost more than the rest; go on with --resume and a higher --max-cost"
            )


async def _till(suite: Suite, work: Plan, choices: Choices, folder: RunFolder) -> Till:
    money = choices.money
    if money.limit is None:
        return Free()
    if unknown := sorted(choices.models.keys() - money.prices.keys()):
        flags = {Role.SIMULATOR: "--price", Role.JUDGE: "--judge-price"}
        raise InputError(f"--max-cost needs {' and '.join(flags[Role(role)] for role in unknown)}")
    return Tab(Purse(money.limit, spent(folder, money.prices)), await rehearse(suite, work, choices), money.prices)


async def rehearse(suite: Suite, work: Plan, choices: Choices) -> Rehearsal:
    """A bench on stand-ins, which sends nothing.

    Raises:
        InputError: see `wiring.build`.
    """
    stand_ins = StandIns()
    return Rehearsal(await rehearsal(suite, work, choices, stand_ins), stand_ins.by_role)


def spent(folder: RunFolder, prices: Prices) -> float:
    """US dollars that a run has cost so far, by the tokens that the servers counted."""
    return sum(paid(item.calls, item.attempt, prices, {}) for item in stream(folder.ledger))


def count(suite: Suite, folder: RunFolder) -> Counted:
    """Read a run back and count it; writes `scorecard.json`.

    Raises:
        LedgerError, InputError: the ledger is damaged, or of another suite.
    """
    head = read_header(folder.ledger)
    scorecard = tally(stream(folder.ledger), head, expected_keys(plan_of(suite, head).questions))
    write_atomically(folder.scorecard, json.dumps(scorecard.to_json(), indent=1))
    return Counted(head, folder.ledger, scorecard)


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner alone."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    draft.replace(path)
