"""The chat client against a real HTTP server: every failure has its cause, and exactly one completion is paid."""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from chat_server import Answer, ChatServer, completion, error

from benchmark_core.chat import ChatRequest, Completion, Decoding, Message, Usage
from benchmark_core.chat_wire import retry_after_s
from benchmark_core.errors import ChatError, ChatFailure, InputError
from benchmark_core.openai_chat import Endpoint, OpenAIChat

KEY = "sk-very-secret-0123456789"
AT_ONCE = {"retry-after-ms": "1"}


def request(text: str = "What is recent?", **fields: Any) -> ChatRequest:
    return ChatRequest((Message("system", "You are a user."), Message("user", text)), Decoding(), **fields)


def ask(server: ChatServer, one: ChatRequest | None = None, **endpoint: Any) -> Completion:
    async def run() -> Completion:
        async with OpenAIChat(Endpoint(server.base_url, "asked-model", api_key=KEY, **endpoint)) as chat:
            return await chat.complete(one or request())

    return asyncio.run(run())


def fail(*script: Any, **endpoint: Any) -> tuple[ChatError, int]:
    """The failure that a script leads to, and how many requests were paid for it."""
    with ChatServer(*script) as server, pytest.raises(ChatError) as caught:
        ask(server, **endpoint)
    assert caught.value.attempts == server.paid
    return caught.value, server.paid


def test_a_completion_carries_text_model_fingerprint_and_usage() -> None:
    with ChatServer("The last 90 days.") as server:
        got = ask(server)
    assert got.text == "The last 90 days."
    assert (got.model, got.system_fingerprint) == ("served-model", "fp-1")
    assert got.usage == Usage(prompt_tokens=12, completion_tokens=3, cached_tokens=8)
    assert (got.attempts, got.cached, server.paid) == (1, False, 1)
    assert got.latency_s > 0


def test_what_is_sent() -> None:
    decoding = Decoding(temperature=0.5, top_p=0.9, max_tokens=77, reasoning_effort="low", seed=3)
    extra = {"response_format": {"type": "json_object"}, "chat_template_kwargs": {"enable_thinking": False}}
    with ChatServer("ok") as server:
        ask(server, ChatRequest((Message("user", "Grüße 漢"),), decoding, extra, trial=4))
    assert server.received[0].path == "/v1/chat/completions"
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.received[0].body == {
        "model": "asked-model",
        "messages": [{"role": "user", "content": "Grüße 漢"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 77,
        "reasoning_effort": "low",
        "seed": 3,
        **extra,
    }


def test_what_is_not_set_is_not_sent() -> None:
    with ChatServer("ok") as server:
        ask(server, ChatRequest((Message("user", "hi"),), Decoding(reasoning_effort=None)))
    assert server.received[0].body.keys() == {"model", "messages", "temperature", "top_p", "max_tokens"}


@pytest.mark.parametrize("name", ["model", "messages", "n", "stream"])
def test_extra_cannot_change_what_is_asked_of_whom(name: str) -> None:
    with ChatServer("ok") as server, pytest.raises(InputError, match=name):
        ask(server, request(extra={name: 2}))
    assert server.paid == 0


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (completion("It means", finish="length"), ChatFailure.TRUNCATED),
        (completion("", finish="length"), ChatFailure.TRUNCATED),
        (completion("\n" * 2000, finish="length"), ChatFailure.TRUNCATED),
        (completion(None), ChatFailure.EMPTY),
        (completion(" \n\t"), ChatFailure.EMPTY),
        (completion(None, reasoning_content="A"), ChatFailure.EMPTY),
        (completion("", reasoning="The answer is A."), ChatFailure.EMPTY),
        (completion(None, refusal="I can't help with that."), ChatFailure.REFUSED),
        (completion("Some", refusal="I can't help with that."), ChatFailure.REFUSED),
        (completion("Some", finish="content_filter"), ChatFailure.FILTERED),
        (completion("Some", finish="tool_calls"), ChatFailure.MALFORMED),
        (completion("Some", finish=None), ChatFailure.MALFORMED),
        ({"choices": []}, ChatFailure.MALFORMED),
        ({"choices": None}, ChatFailure.MALFORMED),
        ({"choices": [{"finish_reason": "stop", "message": {"content": ["A"]}}]}, ChatFailure.MALFORMED),
        ({"choices": [{"finish_reason": "stop", "message": None}]}, ChatFailure.MALFORMED),
        ({"detail": "hello"}, ChatFailure.MALFORMED),
        (error("overloaded"), ChatFailure.MALFORMED),
        (Answer("<html>Sign in</html>"), ChatFailure.MALFORMED),
        (Answer('{"choices": [', headers={"Content-Type": "application/json"}), ChatFailure.MALFORMED),
        (Answer("[" * 100_000, headers={"Content-Type": "application/json"}), ChatFailure.MALFORMED),
        (Answer(b"\xff\xfe"), ChatFailure.MALFORMED),
        (Answer(""), ChatFailure.MALFORMED),
        (Answer('{"choices":[{"finish_reason":"stop","message":{"content":"\\ud800"}}]}'), ChatFailure.MALFORMED),
    ],
)
def test_an_answer_of_no_use_has_its_cause_and_is_paid_once(body: Any, cause: ChatFailure) -> None:
    failure, paid = fail(body)
    assert (failure.cause, paid) == (cause, 1)


@pytest.mark.fault("D17")
def test_a_cut_verdict_is_not_an_empty_one() -> None:
    failure, _ = fail(completion("", finish="length", reasoning="long thoughts"))
    assert failure.cause is ChatFailure.TRUNCATED
    assert "max_tokens" in failure.detail


@pytest.mark.fault("D26")
def test_whitespace_until_the_limit_is_a_cut_answer() -> None:
    assert fail(completion("{" + "\n" * 2000, finish="length"))[0].cause is ChatFailure.TRUNCATED


@pytest.mark.fault("D23")
def test_a_reasoning_field_is_never_the_answer() -> None:
    failure, _ = fail(completion(None, reasoning_content="A", reasoning="A"))
    assert failure.cause is ChatFailure.EMPTY
    assert "reasoning parser" in failure.detail


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, error("Incorrect API key provided"), ["Incorrect API key provided", "check the API key"]),
        (403, error("no access"), ["no access", "may not use this model"]),
        (404, error("The model `asked-model` does not exist."), ["does not exist", "model name"]),
        (404, {"detail": "Not Found"}, ["Not Found", "/v1"]),
        (400, error("This model's maximum context length is 4096 tokens."), ["4096", "context length"]),
        (400, error("Unrecognized request argument supplied: reasoning_effort"), ["set reasoning_effort to none"]),
        (400, error("Unknown parameter: 'guided_choice'"), ["guided_choice", "does not know a parameter"]),
        (400, {"detail": [{"msg": "field required"}]}, ["field required"]),
        (422, Answer("<html>\x1b[31mno\n</html>"), ["<html> [31mno </html>"]),
        (413, Answer("[" * 100_000), ["[[["]),
        (307, Answer("", headers={"Location": "http://127.0.0.1:1/"}), ["redirects"]),
    ],
)
def test_a_rejection_says_what_the_server_says_and_what_to_do(status: int, body: Any, words: list[str]) -> None:
    answer = body if isinstance(body, Answer) else Answer(body)
    failure, paid = fail(Answer(answer.body, status, answer.headers))
    assert (failure.cause, paid) == (ChatFailure.REJECTED, 1)
    for word in words:
        assert word in failure.detail
    assert failure.detail.isprintable()
    assert len(failure.detail) <= 800


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_passing_troubles_are_retried(status: int) -> None:
    with ChatServer(Answer("busy", status, AT_ONCE), "ok") as server:
        got = ask(server)
    assert (got.text, got.attempts, server.paid) == ("ok", 2, 2)
    assert len(set(server.calls)) == 1  # the same request


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (Answer("busy", 429, AT_ONCE), ChatFailure.RATE_LIMITED),
        (Answer("busy", 503, AT_ONCE), ChatFailure.UNAVAILABLE),
        (Answer("busy", 408, AT_ONCE), ChatFailure.UNAVAILABLE),
        (Answer(raw=b""), ChatFailure.UNAVAILABLE),
        (Answer(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), ChatFailure.UNAVAILABLE),
        (Answer(completion("half"), cut=20), ChatFailure.UNAVAILABLE),
        (Answer(b"\x1f\x8bxx", headers={"Content-Encoding": "gzip"}), ChatFailure.UNAVAILABLE),
    ],
)
def test_lasting_troubles_have_their_cause(answer: Answer, cause: ChatFailure) -> None:
    failure, paid = fail(answer, max_attempts=2)
    assert (failure.cause, paid) == (cause, 2)


def test_nobody_listens() -> None:
    with ChatServer("ok") as server:
        pass
    with pytest.raises(ChatError) as caught:
        ask(server, max_attempts=2)
    assert (caught.value.cause, caught.value.attempts) == (ChatFailure.UNAVAILABLE, 2)
    assert server.base_url in caught.value.detail


def waited(headers: dict[str, str], **endpoint: Any) -> float:
    """Seconds between the first and the second attempt."""
    started = time.monotonic()
    with ChatServer(Answer("busy", 429, headers), "ok") as server:
        assert ask(server, **endpoint).attempts == 2
    return time.monotonic() - started


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def test_the_servers_wish_to_wait_is_kept() -> None:
    assert waited({"Retry-After": "1"}) >= 1
    assert waited({"retry-after-ms": "700", "Retry-After": "60"}) >= 0.7
    assert waited({"Retry-After": http_date(3)}) >= 1.9  # dates have whole seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "Thu, 01 Jan 99999 00:00:01 GMT"}, None),
    ],
)
def test_retry_after_is_read_or_ignored(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=10.0) == seconds


@pytest.mark.parametrize("wish", ["3600", http_date(3600)])
def test_a_wish_beyond_the_deadline_ends_the_request_at_once(wish: str) -> None:
    started = time.monotonic()
    failure, paid = fail(Answer("busy", 429, {"Retry-After": wish}), deadline_s=30)
    assert (failure.cause, paid) == (ChatFailure.RATE_LIMITED, 1)
    assert "deadline" in failure.detail
    assert time.monotonic() - started < 15


def test_a_hanging_server_is_left_at_the_deadline() -> None:
    started = time.monotonic()
    failure, paid = fail(Answer(completion("late"), delay_s=60), deadline_s=0.5)
    assert (failure.cause, paid) == (ChatFailure.TIMEOUT, 1)
    assert 0.5 <= time.monotonic() - started < 15


def test_the_deadline_covers_all_attempts() -> None:
    failure, paid = fail(Answer("", 503, AT_ONCE), Answer(completion("late"), delay_s=60), deadline_s=1.0)
    assert (failure.cause, paid) == (ChatFailure.TIMEOUT, 2)


def test_waiting_for_a_slot_does_not_count() -> None:
    async def run() -> list[Completion]:
        end = Endpoint(server.base_url, "m", deadline_s=1.5, concurrency=1)
        async with OpenAIChat(end) as chat:
            return await asyncio.gather(*(chat.complete(request(str(i))) for i in range(5)))

    with ChatServer(Answer(completion("ok"), delay_s=0.5)) as server:
        assert len(asyncio.run(run())) == 5
    assert server.peak == 1


def leaves(server: ChatServer) -> str:
    """Everything that a failing request leaves behind for people to read."""
    end = Endpoint(server.base_url, "m", api_key=KEY, max_attempts=2)

    async def run() -> str:
        async with OpenAIChat(end) as chat:
            try:
                await chat.complete(request())
            except ChatError as failure:
                seen = "".join(traceback.format_exception(failure))
                chain: list[Any] = [failure, failure.__cause__, failure.__context__]
                return "\n".join([seen, repr(chain), failure.detail, repr(chat), repr(end), str(chat.identity)])
        raise AssertionError("the request did not fail")

    return asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        Answer(error(f"Incorrect API key provided: {KEY}."), 401),
        Answer(error(" " * 780 + KEY), 401),
        Answer(" " * 3190 + KEY, 401),
        Answer(f"key {KEY} is over its quota", 429, AT_ONCE),
        Answer(KEY, 500, AT_ONCE),
        Answer(f"<html>{KEY}</html>"),
        Answer({"choices": [], "key": KEY}),
        Answer({"choices": KEY}),
        Answer(completion(None, refusal=f"no {KEY}")),
        Answer(completion("x", finish=KEY)),
        Answer(raw=f"{KEY}\r\n\r\n".encode()),
        Answer(raw=b""),
    ],
)
def test_the_key_is_nowhere_to_be_read(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ChatServer(answer) as server:
        left = leaves(server)
    assert KEY[:10] not in left + caplog.text
    assert server.received[0].headers["authorization"].endswith(KEY)


def test_a_key_of_the_environment_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    async def run() -> None:
        async with OpenAIChat(Endpoint(server.base_url, "m")) as chat:
            await chat.complete(request())

    with ChatServer("ok") as server:
        asyncio.run(run())
    assert KEY not in str(server.received[0].headers)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Endpoint("127.0.0.1:8000/v1", "m"),
        lambda: Endpoint("ftp://127.0.0.1/v1", "m"),
        lambda: Endpoint("http://", "m"),
        lambda: Endpoint("http://me:" + KEY + "@127.0.0.1/v1", "m"),
        lambda: Endpoint("http://127.0.0.1/v1?key=" + KEY, "m"),
        lambda: Endpoint("http://127.0.0.1/v1", ""),
        lambda: Endpoint("http://127.0.0.1/v1", "m", api_key=KEY + "\n"),
        lambda: Endpoint("http://127.0.0.1/v1", "m", api_key="ключ"),
        lambda: Endpoint("http://127.0.0.1/v1", "m", deadline_s=0),
        lambda: Endpoint("http://127.0.0.1/v1", "m", deadline_s=float("nan")),
        lambda: Endpoint("http://127.0.0.1/v1", "m", max_attempts=0),
        lambda: Endpoint("http://127.0.0.1/v1", "m", concurrency=0),
    ],
)
def test_an_endpoint_that_cannot_work_is_refused(make: Callable[[], Endpoint]) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert KEY not in str(caught.value)


def test_lenient_where_nothing_depends_on_it() -> None:
    body = completion("ok") | {"usage": "many", "system_fingerprint": 7, "model": None}
    with ChatServer(body) as server:
        got = ask(server)
    assert (got.usage, got.system_fingerprint, got.model) == (Usage(), None, "asked-model")


def test_a_cancelled_request_frees_its_slot() -> None:
    async def run() -> Completion:
        async with OpenAIChat(Endpoint(server.base_url, "m", concurrency=1)) as chat:
            hanging = asyncio.create_task(chat.complete(request("hang")))
            while server.paid == 0:
                await asyncio.sleep(0.01)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            return await chat.complete(request("go"))

    with ChatServer(Answer(completion("late"), delay_s=60), "ok") as server:
        assert asyncio.run(run()).text == "ok"


def test_many_requests_at_once() -> None:
    """500 at concurrency 32: each is sent once, all slots are used, and never more than those."""

    async def run() -> list[Completion]:
        async with OpenAIChat(Endpoint(server.base_url, "m", concurrency=32)) as chat:
            return await asyncio.gather(*(chat.complete(request(f"{i} " + "x" * 6000)) for i in range(500)))

    with ChatServer(lambda body: Answer(completion(body["messages"][1]["content"][:4]), delay_s=0.05)) as server:
        got = asyncio.run(run())
    assert [int(one.text.split()[0].rstrip("x")) for one in got] == list(range(500))
    assert server.paid == len(server.calls) == 500
    assert 16 < server.peak <= 32
