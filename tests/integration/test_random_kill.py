"""Integration: kill -9 at random moments of a run against a real server; nothing is lost, nothing is paid twice."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from chat_server import Answer, ChatServer, Received, completion
from ledgers import latest, read
from suite_builder import write_suite

from suites.load import load

CONCURRENCY = 4
LATENCY_S = 0.02
REPLY = "Everything since the first of February."
VERDICT = '{"reason": "fine", "rating": "A"}'


def _serve(body: dict[str, object]) -> Answer:
    judge = "response_format" in body
    return Answer(completion(VERDICT if judge else REPLY), delay_s=LATENCY_S)


def _command(suite: Path, out: Path, server: ChatServer) -> list[str]:
    return [
        sys.executable, "-m", "guard", "score", "--simulator", "baseline", "--suite", str(suite), "--out", str(out),
        "--model", "backbone", "--base-url", server.base_url, "--judge", "llm", "--judge-model", "judge",
        "--judge-base-url", server.base_url, "--concurrency", str(CONCURRENCY), "--no-preflight",
    ]  # fmt: skip


def _score(command: list[str], server: ChatServer, kill_after_s: float | None = None) -> float:
    """Run the command line, kill it so long after its first request; returns the seconds from there to the end."""
    before = server.paid
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while server.paid == before and process.poll() is None:
        time.sleep(0.001)
    start = time.monotonic()
    try:
        _, error = process.communicate(timeout=60 if kill_after_s is None else kill_after_s)
        assert process.returncode == 0, error.decode()
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        assert kill_after_s is not None, "the run hangs"
    return time.monotonic() - start


def _paid_twice(received: list[Received]) -> int:
    return sum(count - 1 for count in Counter(request.digest for request in received).values())


@pytest.mark.fault("D34", "D35", "G37", "G39")
@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.soak)])
def test_random_kills(tmp_path: Path, kills: int) -> None:
    """Each kill may cost what was in flight, at most one request per worker; all else is paid once and found again."""
    suite = write_suite(tmp_path / "suite", tasks=6, points=2)
    planned = {question.key for question in load(suite).questions}
    rng = random.Random(20261201)
    with ChatServer(_serve) as server:
        whole = _score(_command(suite, tmp_path / "whole", server), server)
    assert server.paid == 2 * len(planned)
    killed_midway = 0
    for number in range(kills):
        out = tmp_path / f"run-{number}"
        with ChatServer(_serve) as server:
            _score(_command(suite, out, server), server, rng.uniform(0.0, whole))
            before = server.paid
            killed_midway += 0 < before < 2 * len(planned)
            resumed = [*_command(suite, out, server), "--resume"]
            _score(resumed, server)
            items = read(out / "ledger.jsonl")[1]
            assert set(latest(items)) == planned, "nothing lost"
            assert len(items) == len(planned), "nothing scored twice"
            assert _paid_twice(server.received) <= CONCURRENCY, "only what was in flight is paid again"
            assert server.paid - _paid_twice(server.received) == 2 * len(planned)
            if number == 0:
                paid = server.paid
                _score(resumed, server)
                assert server.paid == paid, "a finished run pays nothing"
    assert killed_midway >= kills // 2, "the kill times must fall into the run"


def test_the_reference_run_is_judged_whole(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", tasks=2)
    with ChatServer(_serve) as server:
        _score(_command(suite, tmp_path / "run", server), server)
    lines = (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line)["rating"] for line in lines[1:]] == ["A"] * 18
