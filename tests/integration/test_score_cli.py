"""Integration: `score` on the command line: what it says and refuses before it pays, own simulators, and secrets."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, Received, completion
from json_server import JsonServer
from openai_server import CHAT, OpenAIServer, Route, models
from suite_builder import read_jsonl, write_jsonl, write_suite

from guard.before import kin
from guard.exit_codes import ExitCode

KEY = "sk-a-key-that-must-never-show"
FILES = {"AMB": "data_labeled.jsonl", "LOC": "data_unlabeled.jsonl", "UNA": "data_unanswerable.jsonl"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_suite(tmp_path_factory.mktemp("suite") / "s")


def chat(request: Received) -> dict[str, Any]:
    if "response_format" in request.body:
        if "reason" not in json.dumps(request.body["response_format"]):
            return completion('{"rating": "B"}')  # the preflight's question
        return completion('{"reason": "fine", "rating": "A"}')
    return completion("<reply>Sorry, I cannot say.</reply>")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    routes: dict[str, Route] = {"/v1/models": models("backbone", "judge", max_model_len=8192), CHAT: chat}
    with OpenAIServer(routes) as running:
        yield running


def cli(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guard", *map(str, arguments)]
    env = {**os.environ, "OPENAI_API_KEY": KEY, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=120)


def with_model(server: OpenAIServer, suite: Path, out: Path, *more: str) -> tuple[str | Path, ...]:
    backbone = ("--simulator", "baseline", "--model", "backbone", "--base-url", server.base_url)
    judge = ("--judge", "llm", "--judge-model", "judge", "--judge-base-url", server.base_url)
    return ("score", *backbone, *judge, "--suite", suite, "--out", out, *more)


def test_a_dry_run_says_what_it_takes_and_sends_nothing(server: OpenAIServer, suite: Path, tmp_path: Path) -> None:
    price = ("--price", "2.5/10", "--judge-price", "0/0", "--concurrency", "4")
    asked = with_model(server, suite, tmp_path / "r", "--dry-run", *price)
    dry = cli(*asked)
    assert dry.returncode == ExitCode.OK, dry.stderr
    assert "18 questions to do; nothing was sent." in dry.stdout
    assert "About 0:00:09 at 1 s an answer." in dry.stdout
    found = json.loads(cli(*asked, "--json").stdout)
    assert found["schema"] == "usersim-guard/forecast/1"
    assert {role: part["calls"] for role, part in found["roles"].items()} == {"simulator": 18, "judge": 18}
    assert 0 < found["roles"]["simulator"]["usd"] < found["roles"]["simulator"]["most_usd"]
    assert server.received == []
    assert not (tmp_path / "r").exists()


def test_a_dry_run_of_a_resumed_run_counts_what_is_left(server: OpenAIServer, suite: Path, tmp_path: Path) -> None:
    part = with_model(server, suite, tmp_path / "r")
    assert cli(*part).returncode == ExitCode.OK
    left = json.loads(cli(*part, "--resume", "--dry-run", "--json").stdout)
    assert left["questions"] == 0


def test_the_preflight_stops_a_run_that_cannot_work(server: OpenAIServer, suite: Path, tmp_path: Path) -> None:
    run = with_model(server, suite, tmp_path / "r")
    for routes, says in (
        ({"/v1/models": models("backbones", "judge")}, "backbones"),
        ({"/v1/models": models("backbone", "judge", max_model_len=900)}, "900 tokens"),
        ({"/v1/models": Answer("no", status=401)}, "OPENAI_API_KEY"),
        ({CHAT: lambda _: completion("Z")}, "schema"),
    ):
        before = dict(server.routes)
        server.routes.update(routes)
        stopped = cli(*run)
        assert (stopped.returncode, stopped.stdout) == (ExitCode.BAD_INPUT, "")
        assert says in stopped.stderr
        assert "no question was asked" in stopped.stderr
        assert not (tmp_path / "r" / "ledger.jsonl").exists()
        server.routes.clear()
        server.routes.update(before)
    assert len(server.paid_calls) == 1, "the probe of the judge alone"
    assert cli(*run).returncode == ExitCode.OK
    written = json.loads((tmp_path / "r" / "preflight.json").read_text())
    assert {end["model"] for end in written["endpoints"]} == {"backbone", "judge"}


@pytest.mark.fault("D21")
@pytest.mark.parametrize(
    ("simulator", "judge", "related"),
    [
        ("Qwen/Qwen3-8B", "qwen3-235b", "qwen"),
        ("gpt-4o", "gpt-4o", "gpt"),
        ("meta-llama/Meta-Llama-3-8B", "llama-4", "llama"),
        ("acme-7b", "acme-70b", "acme"),
        ("gpt-4o", "Qwen3-235B", None),
        ("acme-7b", "apex-7b", None),
    ],
)
def test_a_judge_of_the_simulators_family_is_warned_of(simulator: str, judge: str, related: str | None) -> None:
    said = kin({"simulator": simulator, "judge": judge})
    assert len(said) == (related is not None)
    assert not related or f"({related})" in said[0]


def test_an_endpoint_that_is_away_is_no_bad_input(suite: Path, tmp_path: Path) -> None:
    with OpenAIServer({}) as gone:
        pass
    assert cli(*with_model(gone, suite, tmp_path / "r")).returncode == ExitCode.INFRASTRUCTURE


def test_max_cost_stops_with_its_own_message(server: OpenAIServer, suite: Path, tmp_path: Path) -> None:
    price = ("--price", "3000/3000", "--judge-price", "0/0")
    stopped = cli(*with_model(server, suite, tmp_path / "r", "--max-cost", "14", *price))
    assert stopped.returncode == ExitCode.INCOMPLETE
    assert "--resume and a higher --max-cost" in stopped.stderr
    done = cli(*with_model(server, suite, tmp_path / "r", "--resume", "--max-cost", "50", *price))
    assert done.returncode == ExitCode.OK, done.stderr
    assert f"Cost so far: {18 * 15 * 3000 / 1e6:.4f} US dollars." in done.stdout


def test_no_key_is_written_or_shown_or_in_the_process_list(server: OpenAIServer, suite: Path, tmp_path: Path) -> None:
    def echo(request: Received) -> Answer:
        listed = [Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
        for cmdline in listed:
            try:
                seen.append(cmdline.read_bytes())
            except OSError:
                continue
        return Answer({"error": {"message": f"bad key {request.headers['authorization']}"}}, status=400)

    seen: list[bytes] = []
    server.routes[CHAT] = echo
    failed = cli("--verbose", *with_model(server, suite, tmp_path / "r", "--no-preflight"))
    assert failed.returncode == ExitCode.INFRASTRUCTURE
    written = b"".join(path.read_bytes() for path in (tmp_path / "r").iterdir())
    assert seen
    assert KEY.encode() not in written + b"".join(seen)
    assert KEY not in failed.stdout + failed.stderr


def replies(suite: Path, path: Path) -> Path:
    rows = [row | {"response": "Sorry, I cannot say."} for name in FILES.values() for row in read_jsonl(suite / name)]
    write_jsonl(path, [{k: v for k, v in row.items() if k not in ("reference", "label", "stratum")} for row in rows])
    return path


def test_replies_of_ones_own(suite: Path, tmp_path: Path) -> None:
    file = replies(suite, tmp_path / "replies.jsonl")
    run = ("score", "--simulator", "replay", "--name", "mine", "--suite", suite, "--out", tmp_path / "r")
    done = cli(*run, "--replies", file, "--json")
    assert json.loads(done.stdout)["kinds"]["UNA"]["ratings"] == {"A": 6}
    header = json.loads((tmp_path / "r" / "ledger.jsonl").read_text().splitlines()[0])
    assert header["identities"]["simulator"]["name"] == "mine"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    lacking = cli(*run[:-1], tmp_path / "other", "--replies", file)
    assert lacking.returncode == ExitCode.BAD_INPUT
    assert "have no reply" in lacking.stderr


def test_a_remote_simulator(suite: Path, tmp_path: Path) -> None:
    with JsonServer({"reply": "Sorry, I cannot say."}) as server:
        run = ("score", "--simulator", "remote", "--url", server.url, "--suite", suite, "--out", tmp_path / "r")
        assert "needs a name" in cli(*run).stderr
        done = cli(*run, "--name", "mine", USERSIM_GUARD_REMOTE_KEY=KEY)
        assert done.returncode == ExitCode.OK, done.stderr
        assert {request.headers.get("authorization") for request in server.received} == {f"Bearer {KEY}"}
        sent = json.dumps([request.body for request in server.received])
        assert "sale_amount" not in sent, "no oracle unless it is asked for"
    assert KEY.encode() not in b"".join(path.read_bytes() for path in (tmp_path / "r").iterdir())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--simulator", "mute", "--model", "m"), "--model"),
        (("--simulator", "mute", "--replies", "x"), "--replies"),
        (("--simulator", "replay", "--url", "http://h"), "--url"),
        (("--simulator", "baseline", "--model", "m", "--option", "a=b"), "--option"),
        (("--simulator", "oracle", "--name", "x"), "--name"),
        (("--simulator", "replay"), "--replies FILE"),
        (("--simulator", "remote"), "--url"),
        (("--simulator", "plugin:nobody"), "nobody"),
        (("--simulator", "plugin:nobody", "--option", "a"), "NAME=VALUE"),
        (("--simulator", "mute", "--price", "3"), "2.5/10"),
    ],
)
def test_what_makes_no_sense_is_refused(suite: Path, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    refused = cli("score", *arguments, "--suite", suite, "--out", tmp_path / "r")
    assert refused.returncode == ExitCode.BAD_INPUT, refused.stderr
    assert says in refused.stderr
    assert not (tmp_path / "r").exists()
