"""The completion cache: nothing is paid twice, nothing is shared that differs, and a kill loses what was in flight."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, ChatServer, completion

from benchmark_core.chat import ChatRequest, Completion, Decoding, Message, Usage
from benchmark_core.chat_cache import ChatCache, cache_key
from benchmark_core.errors import ChatError, InputError
from benchmark_core.openai_chat import Endpoint, OpenAIChat

BASE = ChatRequest((Message("user", "hi"),), Decoding())


def ask(server: ChatServer, path: Path, *requests: ChatRequest, model: str = "m") -> list[Completion]:
    """Ask all at once."""

    async def run() -> list[Completion]:
        with ChatCache(path) as cache:
            async with OpenAIChat(Endpoint(server.base_url, model), cache) as chat:
                return await asyncio.gather(*(chat.complete(request) for request in requests))

    return asyncio.run(run())


def test_a_stored_completion_is_not_paid_again(tmp_path: Path) -> None:
    with ChatServer("first", "second") as server:
        [paid] = ask(server, tmp_path / "c.db", BASE)
        [kept] = ask(server, tmp_path / "c.db", BASE)
    assert server.paid == 1
    assert (paid.cached, paid.attempts) == (False, 1)
    assert (kept.text, kept.cached, kept.attempts, kept.latency_s) == ("first", True, 0, 0.0)
    assert (kept.model, kept.system_fingerprint, kept.usage) == ("served-model", "fp-1", Usage(12, 3, 8))


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, trial=1),
        replace(BASE, messages=(Message("user", "hi "),)),
        replace(BASE, messages=(Message("system", "hi"),)),
        replace(BASE, messages=(Message("user", "h"), Message("user", "i"))),
        replace(BASE, decoding=Decoding(temperature=0.1)),
        replace(BASE, decoding=Decoding(max_tokens=9)),
        replace(BASE, decoding=Decoding(reasoning_effort=None)),
        replace(BASE, decoding=Decoding(seed=1)),
        replace(BASE, extra={"response_format": {"type": "json_object"}}),
    ],
)
def test_what_differs_is_not_shared(tmp_path: Path, other: ChatRequest) -> None:
    with ChatServer("first", "second") as server:
        ask(server, tmp_path / "c.db", BASE)
        assert ask(server, tmp_path / "c.db", other)[0].text == "second"
    assert cache_key("u", "m", BASE) != cache_key("u", "m", other)


def test_other_models_and_servers_are_not_shared(tmp_path: Path) -> None:
    assert len({cache_key(u, m, BASE) for u in ("http://a/v1", "http://b/v1") for m in ("m", "n")}) == 4
    with ChatServer("first", "second") as server:
        ask(server, tmp_path / "c.db", BASE, model="m")
        assert ask(server, tmp_path / "c.db", BASE, model="n")[0].text == "second"


def test_the_trial_is_not_sent(tmp_path: Path) -> None:
    with ChatServer("ok") as server:
        ask(server, tmp_path / "c.db", *(replace(BASE, trial=i) for i in range(3)))
    assert list(server.calls.values()) == [3]


@pytest.mark.parametrize("bad", [completion("cut", finish="length"), completion(""), Answer("no", 400)])
def test_failures_are_not_stored(tmp_path: Path, bad: Any) -> None:
    with ChatServer(bad, "ok") as server:
        with pytest.raises(ChatError):
            ask(server, tmp_path / "c.db", BASE)
        assert ask(server, tmp_path / "c.db", BASE)[0].text == "ok"
    assert server.paid == 2


def test_equal_requests_in_flight_are_sent_once(tmp_path: Path) -> None:
    with ChatServer(Answer(completion("ok"), delay_s=0.2)) as server:
        got = ask(server, tmp_path / "c.db", *[BASE] * 8, replace(BASE, trial=1))
    assert server.paid == 2
    assert sum(not one.cached for one in got) == 2
    assert {one.text for one in got} == {"ok"}


def test_a_cancelled_first_request_does_not_take_the_second_with_it(tmp_path: Path) -> None:
    async def run() -> Completion:
        with ChatCache(tmp_path / "c.db") as cache:
            async with OpenAIChat(Endpoint(server.base_url, "m"), cache) as chat:
                first, second = (asyncio.create_task(chat.complete(BASE)) for _ in range(2))
                while server.paid == 0:
                    await asyncio.sleep(0.01)
                first.cancel()
                return await second

    with ChatServer(Answer(completion("late"), delay_s=60), "ok") as server:
        assert asyncio.run(run()).text == "ok"


def test_the_file_is_private_and_holds_no_prompt_and_no_key(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    path.touch(mode=0o644)

    async def run() -> None:
        with ChatCache(path) as cache:
            end = Endpoint(server.base_url, "m", api_key="sk-secret")
            async with OpenAIChat(end, cache) as chat:
                await chat.complete(ChatRequest((Message("user", "GOLD-PROMPT"),), Decoding()))
            assert len(cache) == 1
            for file in tmp_path.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
                assert b"GOLD-PROMPT" not in file.read_bytes()
                assert b"sk-secret" not in file.read_bytes()

    with ChatServer("answered text") as server:
        asyncio.run(run())
    assert b"answered text" in path.read_bytes()


@pytest.mark.parametrize("content", [b"not a database at all " * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.db"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"chat cache .*c\.db.*move the file away"):
        ChatCache(path)
    assert path.read_bytes() == content


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with ChatCache(path) as cache:
        cache.put("k", Completion("ok", "m"))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE completions SET body = '{}'")
    db.close()
    with ChatCache(path) as cache, pytest.raises(InputError, match="move the file away"):
        cache.get("k")


def test_another_format_and_other_places_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(InputError, match="format 9, expected 1"):
        ChatCache(path)
    with pytest.raises(InputError, match="cannot be opened"):
        ChatCache(tmp_path)
    with pytest.raises(InputError, match="cannot be opened"):
        ChatCache(tmp_path / "no" / "c.db")


def test_two_processes_may_share_the_file(tmp_path: Path) -> None:
    with ChatCache(tmp_path / "c.db") as one, ChatCache(tmp_path / "c.db") as two:
        one.put("k", Completion("first", "m"))
        two.put("k", Completion("second", "m"))
        two.put("l", Completion("third", "m"))
        assert [cache.get(key).text for cache in (one, two) for key in "kl"] == ["first", "third"] * 2  # type: ignore[union-attr]
        assert one.get("absent") is None


WORKER = """
import asyncio, sys
from pathlib import Path
from benchmark_core.chat import ChatRequest, Decoding, Message
from benchmark_core.chat_cache import ChatCache
from benchmark_core.openai_chat import Endpoint, OpenAIChat

async def main(url, path):
    with ChatCache(Path(path)) as cache:
        async with OpenAIChat(Endpoint(url, "m"), cache) as chat:
            for i in range(40):
                await chat.complete(ChatRequest((Message("user", str(i)),), Decoding()))
                print(i, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_kill_loses_only_what_was_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with ChatServer(Answer(completion("ok"), delay_s=0.02)) as server:
        command = [sys.executable, "-c", WORKER, server.base_url, str(path)]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as worker:
            assert worker.stdout is not None
            done = [worker.stdout.readline() for _ in range(15)]
            worker.send_signal(signal.SIGKILL)
            done += worker.stdout.readlines()
        assert worker.returncode == -signal.SIGKILL
        time.sleep(0.1)  # a request that was on its way when the worker died
        before = server.paid
        with ChatCache(path) as cache:
            kept = len(cache)
        ask(server, path, *(ChatRequest((Message("user", str(i)),), Decoding()) for i in range(40)))
    assert 15 <= len(done) <= kept <= len(done) + 1
    assert server.paid - before == 40 - kept
    assert max(server.calls.values()) <= 2
    assert sum(n - 1 for n in server.calls.values()) <= 1
