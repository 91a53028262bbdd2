"""Tests: PostgreSQL is killed at random moments during gradings."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from graders import SALES, management, query, task, with_grader
from postgres_facts import TRIALS, names

from benchmark_core.grading.grade import Grader
from benchmark_core.grading.outcome import Grade, Outcome
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.server import Server
from suites.tasks import Category, Oracle

KILLS = 20
MOST_S = 200
INSERT = "INSERT INTO archive SELECT id, shop FROM sale WHERE qty >= 5"
TEST = (
    "def test_case(pred_sqls, sol_sqls, db_name, conn):\n    assert len(execute_queries({!r}, db_name, conn)[0]) == 2"
)
TASKS = {
    "query": task(query("SELECT shop, sum(qty) FROM sale GROUP BY shop")),
    "state": task(
        management(INSERT, **{"SELECT id FROM archive": [(2,), (5,)]}), query("SELECT count(*) FROM archive")
    ),
    "tests": task(query(INSERT, category=Category.MANAGEMENT, test_cases=[TEST.format("SELECT * FROM archive")])),
}
SUBMISSIONS = {
    "query": [("SELECT shop, sum(qty) FROM sale GROUP BY 1", True), ("SELECT shop, qty FROM sale", False)],
    "state": [(INSERT, True), ("INSERT INTO archive VALUES (1, 'x')", False)],
    "tests": [(INSERT, True), ("SELECT 1", False)],
}  # fmt: skip


@dataclass(slots=True)
class Killed:
    """A server that somebody kills."""

    folder: Path
    random: random.Random
    server: Server | None = None
    kills: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def find(self) -> Server:
        self.server = servers.start(self.folder)
        return self.server

    async def kill(self) -> None:
        """Kill each server that is found, some time after."""
        last = None
        while self.kills < KILLS:
            if self.server is None or self.server.pid in (None, last):
                await asyncio.sleep(0.01)
                continue
            await asyncio.sleep(self.random.uniform(0.0, 1.2))
            last = self.server.pid
            assert last is not None
            os.kill(last, signal.SIGKILL)
            self.kills += 1

    async def grade(self, grades: Grader, name: str, oracle: Oracle) -> None:
        """Grade without end, until all kills have been, and then once more."""
        over = False
        while not over:
            over = self.kills == KILLS
            async with grades.task(oracle) as opened:
                for statement, right in SUBMISSIONS[name]:
                    self.count(await opened.grade(1, (statement,)), right, name)
                if name == "state":
                    self.count(await opened.grade(2, ("SELECT 2::bigint",), (INSERT,)), True, "follow-up")

    def count(self, found: Grade, right: bool, name: str) -> None:
        for verdict in (found.strict, found.official):
            if verdict.outcome is Outcome.INFRASTRUCTURE:
                self.outcomes["infrastructure"] += 1
            else:
                assert verdict.outcome is (Outcome.PASSED if right else Outcome.MISMATCH), (name, found)
                self.outcomes["right"] += 1


@pytest.mark.timeout(MOST_S + 60)
@pytest.mark.parametrize("seed", [20, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_twenty_kills_cost_no_system_anything(state_dir: Path, seed: int) -> None:
    killed = Killed(state_dir, random.Random(seed))
    begun = time.monotonic()

    async def work(grades: Grader) -> None:
        async with asyncio.timeout(MOST_S):
            killing = asyncio.create_task(killed.kill())
            await asyncio.gather(*(killed.grade(grades, name, oracle) for name, oracle in TASKS.items()), killing)

    asyncio.run(with_grader(killed.find, {"db": SALES}, work))
    assert killed.kills == KILLS
    assert killed.outcomes["right"] > killed.outcomes["infrastructure"], killed.outcomes
    print(f"{KILLS} kills in {time.monotonic() - begun:.0f} s: {dict(killed.outcomes)}")  # noqa: T201 - seen with -s
    server = servers.status(state_dir)
    assert server is not None and not names(server.dsn, *TRIALS), "a run that ended in order leaves nothing"
