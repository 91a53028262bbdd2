"""Bench: reports of large ledgers: seconds and peak memory, ten times the rows against one time. Part of `make bench`.

Two ledgers of each size: one of few questions that were tried again and again, one of as many questions as rows (there
the suite itself takes memory: the command that only reads the suite is measured beside it).
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from suite_builder import write_suite

from benchmark_core.errors import SimulatorFailure
from guard.chats import StandIns
from guard.choices import Choices, JudgeChoice, SimulatorChoice
from guard.ledger import Call, Header, ScoredItem, dump_header, dump_item
from guard.scoring import Scope, plan
from guard.wiring import build, header
from judge.rubric import Rating
from suites.load import Suite, load

SIZES = (10_000, 100_000)
REPLY = "Sorry, that is not something I can help you with. " * 12
MEASURE = """
import resource, runpy, sys, time
sys.argv = ["usersim-guard", *sys.argv[1:]]
start = time.perf_counter()
try:
    runpy.run_module("guard", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""


def items(suite: Suite, rows: int) -> Iterator[ScoredItem]:
    """All questions in turn, again and again: the endpoint fails until the last round."""
    rounds = rows // len(suite.questions)
    call = Call("simulator", "m", "fp", 900, 40, 1, False, 0.7)
    for attempt in range(1, rounds + 1):
        for question in suite.questions:
            item = ScoredItem(
                question.key, question.database, reply=REPLY, rating=Rating.B, reason=REPLY, calls=(call,)
            )
            if attempt < rounds:
                item = replace(item, rating=None, failure=SimulatorFailure.TIMEOUT)
            yield replace(item, attempt=attempt)


def write_run(suite: Suite, folder: Path, rows: int) -> Path:
    """A run folder whose ledger holds so many rows."""
    folder.mkdir()
    with (folder / "ledger.jsonl").open("wb") as file:
        file.write(dump_header(asyncio.run(_header(suite))) + b"\n")
        file.writelines(dump_item(item) + b"\n" for item in items(suite, rows))
    return folder


async def _header(suite: Suite) -> Header:
    work, choices = plan(suite, Scope()), Choices(SimulatorChoice("mute"), JudgeChoice())
    async with AsyncExitStack() as stack:
        return header(await build(suite, work, choices, StandIns(), stack), suite, work)


def measure(*arguments: str | Path) -> tuple[float, float]:
    """Seconds and peak megabytes of one command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    seconds, megabytes = done.stderr.split()[-2:]
    return float(seconds), float(megabytes)


def main(say: Callable[[str], object]) -> None:
    """Print a line for each ledger."""
    shapes: dict[str, Callable[[int], tuple[int, int]]] = {
        "2,000 questions, retried": lambda _: (11, 20),
        "a question a row": lambda rows: (100, rows // 900),
    }
    with tempfile.TemporaryDirectory() as scratch:
        for shape, size in shapes.items():
            spent = []
            for rows in SIZES:
                root = Path(scratch) / f"{shape[0]}-{rows}"
                tasks, points = size(rows)
                suite = load(write_suite(root / "suite", tasks=tasks, points=points))
                seconds, peak = measure("report", write_run(suite, root / "run", rows), "--suite", suite.root)
                _, alone = measure("data", "check", "--suite", suite.root, "--json")
                spent.append(seconds)
                say(
                    f"report, ledger of {rows:,} rows ({shape}): {seconds:.1f} s, peak {peak:.0f} MB "
                    f"({alone:.0f} MB to read the suite alone)"
                )
            say(f"  ten times the rows: {spent[1] / spent[0]:.1f} x the time")


if __name__ == "__main__":
    main(lambda text: sys.stdout.write(text + "\n"))
