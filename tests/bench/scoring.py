"""Bench: speed as ratios, measured side by side in one run. `make bench`; nothing here passes or fails.

Seconds depend on the machine and are printed for orientation alone; only the ratios are claims.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from chat_server import Answer, ChatServer, completion
from throughput import throughput

from guard.choices import Choices, EndpointChoice, JudgeChoice, SimulatorChoice
from guard.runs import RunFolder, Watch, run
from guard.scoring import Scope
from judge.rule_judge import RuleJudge
from suites.load import load
from suites.questions import AmbReference, LocReference

LATENCY_S = 0.05
REPEATS = 3
QUIET = Watch(lambda _plan, _done: lambda _item: None)


def seconds(work: Callable[[], object]) -> float:
    """Best of a few runs."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> None:
    suite = load()
    folders = iter(range(10_000))

    with tempfile.TemporaryDirectory() as scratch:

        def scored(simulator: SimulatorChoice, concurrency: int = 8, scope: Scope | None = None) -> None:
            folder = RunFolder(Path(scratch) / str(next(folders)))
            run(suite, Choices(simulator, JudgeChoice(), concurrency), scope or Scope(), folder, QUIET)

        controls = seconds(lambda: [scored(SimulatorChoice(name)) for name in ("oracle", "leaky", "mute")])
        say(f"{len(suite.questions)} questions x 3 controls, rule judge: {controls:.1f} s")

        with ChatServer(lambda _: Answer(completion("I cannot say."), delay_s=LATENCY_S)) as server:
            backbone = SimulatorChoice("baseline", EndpointChoice("m", server.base_url))
            few = Scope(limit=96)
            alone, many = (seconds(lambda n=n: scored(backbone, n, few)) for n in (1, 16))
        say(f"96 questions, {LATENCY_S * 1000:.0f} ms server, concurrency 16 against 1: {alone / many:.1f} x as fast")

    judge = RuleJudge(suite.oracles)
    pairs = [(q, q.reference.answer) for q in suite.questions if isinstance(q.reference, AmbReference | LocReference)]
    once, tenfold = (seconds(lambda n=n: [judge.rate(q, a) for q, a in pairs * n]) for n in (1, 10))
    say(f"rule judge, ten times the replies: {tenfold / once:.1f} x the time ({len(pairs) / once:.0f} replies/s)")
    throughput(say)


if __name__ == "__main__":
    main()
