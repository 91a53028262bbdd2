"""Guard: a run's folder. Scores into it, and reads it back: ledger, scorecard, certificate or refusal, report."""

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from guard.ledger import Header, ScoredItem, read_header, stream
from guard.ledger_writer import Ledger
from guard.scorecard import Scorecard, expected_keys, tally
from guard.scoring import Plan, Scope, plan, plan_of, score, standings, todo
from guard.wiring import Choices, build, header
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
    """A run as counted from its ledger, which can be larger than memory: see `guard.ledger.final`."""

    header: Header
    ledger: Path
    scorecard: Scorecard


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
    def report(self) -> Path:
        return self.root / "report.html"


def run(suite: Suite, choices: Choices, scope: Scope, folder: RunFolder, watch: Watch) -> Counted:
    """Score into a folder and count.

    Raises:
        InputError, DigestMismatch, LedgerError, EndpointLost: see `Ledger.open` and `scoring.score`.
    """
    asyncio.run(_score(suite, choices, scope, folder, watch))
    return count(suite, folder)


async def _score(suite: Suite, choices: Choices, scope: Scope, folder: RunFolder, watch: Watch) -> None:
    work = plan(suite, scope)
    folder.root.mkdir(parents=True, exist_ok=True)
    async with build(suite, choices, folder.completions) as built:
        with Ledger.open(folder.ledger, header(built, suite, work), resume=watch.resume) as ledger:
            done = standings(ledger.path)
            await score(built.bench, todo(work, done), ledger, watch.started(work, len(done)))


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
