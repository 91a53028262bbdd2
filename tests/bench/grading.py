"""Bench: grading, in milliseconds for orientation and in ratios measured side by side in one run. `make bench`.

A small database on the embedded server (data in memory where it fits). Each submission is graded in both regimes.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from graders import SALES, management, query, task, with_grader

from benchmark_core.grading.grade import Grader
from benchmark_core.postgres import server as servers
from suites.tasks import Category, Oracle

SUM = "SELECT shop, sum(qty) FROM sale GROUP BY shop"
INSERT = "INSERT INTO archive SELECT id, shop FROM sale WHERE qty >= 5"
TEST = (
    "def test_case(pred_sqls, sol_sqls, db_name, conn):\n"
    "    assert len(execute_queries('SELECT id FROM archive', db_name, conn)[0]) == 2"
)
KINDS = {
    "Query": (task(query(SUM)), f"{SUM} ORDER BY 1", 25),
    "Management, post-conditions": (task(management(INSERT, **{"SELECT id FROM archive": [(2,), (5,)]})), INSERT, 120),
    "Management, test case": (task(query(INSERT, category=Category.MANAGEMENT, test_cases=[TEST])), INSERT, 120),
}
SUBMISSIONS, TASKS, EACH = 40, 8, 12


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


async def submit(grades: Grader, oracle: Oracle, statement: str, times: int) -> list[float]:
    """Seconds of each of several submissions for one task, in a sandbox that is kept."""
    took = []
    async with grades.task(oracle) as opened:
        for _ in range(times):
            begun = time.perf_counter()
            grade = await opened.grade(1, (statement,))
            took.append(time.perf_counter() - begun)
            assert grade.strict.passed and grade.official.passed, grade
    return took


async def several(grades: Grader, oracle: Oracle, statement: str, tasks: int, at_once: int) -> float:
    """Seconds for tasks of a few submissions each."""
    slots = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with slots:
            await submit(grades, oracle, statement, EACH)

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(tasks)))
    return time.perf_counter() - begun


def busy() -> tuple[int, int]:
    """Jiffies of all cores, busy and in all."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


async def measure(grades: Grader) -> None:
    for name, (oracle, statement, most) in KINDS.items():
        first, *rest = await submit(grades, oracle, statement, SUBMISSIONS)
        median = statistics.median(rest) * 1000
        say(f"{name}: median {median:.1f} ms (aim: {most}), the first {first * 1000:.0f} ms")
    for name, (oracle, statement, _) in KINDS.items():
        alone = await several(grades, oracle, statement, TASKS, 1)
        before = busy()
        together = await several(grades, oracle, statement, TASKS, 8)
        after = busy()
        share = (after[0] - before[0]) / max(1, after[1] - before[1])
        say(f"{name}: 8 tasks at once {alone / together:.2f} x as fast as one by one; cores {share:.0%} busy")
    oracle, statement, _ = KINDS["Query"]
    few, many = [await several(grades, oracle, statement, tasks, 8) for tasks in (TASKS, 10 * TASKS)]
    say(f"Ten times the tasks: {many / few:.1f} x the time")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "state"
        server = servers.start(folder)
        try:
            asyncio.run(with_grader(lambda: server, {"db": SALES}, measure))
        finally:
            servers.stop(folder)


if __name__ == "__main__":
    main()
