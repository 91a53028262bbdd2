"""JSON over HTTP, against a real server."""

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from chat_server import Answer
from hypothesis import given, settings
from hypothesis import strategies as st
from json_server import JsonServer

from benchmark_core.errors import ChatError, ChatFailure, InputError
from benchmark_core.json_http import JsonAnswer, JsonHttp

KEY = "sk-test-0123456789"
AT_ONCE = {"Retry-After": "0"}


def with_client(url: str, do: Callable[[JsonHttp], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with JsonHttp(url, **options) as http:
            return await do(http)

    return asyncio.run(main())


def call(server: JsonServer, **options: Any) -> Any:
    return with_client(server.url, lambda http: http.call("/answer", {"q": "ü"}), **options)


def failed(server: JsonServer, **options: Any) -> ChatError:
    with pytest.raises(ChatError) as caught:
        call(server, **options)
    return caught.value


def test_a_call_gives_the_parsed_body_and_sends_json_and_key() -> None:
    with JsonServer({"reply": "ok"}) as server:
        assert call(server, api_key=KEY) == {"reply": "ok"}
    [request] = server.received
    assert request.path == "/answer"
    assert request.body == {"q": "ü"}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with JsonServer({}) as server:
        call(server)
    assert "authorization" not in server.received[0].headers


def test_a_path_below_the_base_address_is_kept() -> None:
    with JsonServer({}) as server:
        with_client(f"{server.url}/base/", lambda http: http.get("/health"))
    assert server.paths == ["/base/health"]


def test_get_and_post_return_any_status() -> None:
    with JsonServer(Answer({"detail": "nope"}, status=404), Answer("down", status=503, headers=AT_ONCE)) as server:

        async def both(http: JsonHttp) -> tuple[JsonAnswer, JsonAnswer]:
            return await http.get("/v1/models"), await http.post("/tokenize", {"a": 1})

        first, second = with_client(server.url, both)
    assert (first.status, first.body) == (404, {"detail": "nope"})
    assert (second.status, second.body, second.text, second.retry_after_s) == (503, None, "down", 0.0)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_transient_statuses_are_repeated(status: int) -> None:
    with JsonServer(Answer("busy", status=status, headers=AT_ONCE), {"reply": "ok"}) as server:
        assert call(server) == {"reply": "ok"}
    assert server.paid == 2


def test_a_broken_connection_is_repeated() -> None:
    with JsonServer(Answer(raw=b""), Answer({"reply": "ok"}, cut=3), {"reply": "ok"}) as server:
        assert call(server) == {"reply": "ok"}
    assert server.paid == 3


@pytest.mark.parametrize(
    ("status", "cause"),
    [(429, ChatFailure.RATE_LIMITED), (500, ChatFailure.UNAVAILABLE), (408, ChatFailure.UNAVAILABLE)],
)
def test_the_attempts_end(status: int, cause: ChatFailure) -> None:
    with JsonServer(Answer("busy", status=status, headers=AT_ONCE)) as server:
        error = failed(server)
    assert (error.cause, error.attempts, server.paid) == (cause, 4, 4)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (Answer({"detail": "no"}, status=400), "no"),
        (Answer("", status=401), "check the API key"),
        (Answer("", status=302, headers={"Location": "/elsewhere"}), "give the address that it redirects to"),
    ],
)
def test_other_statuses_are_rejected_at_once(answer: Answer, hint: str) -> None:
    with JsonServer(answer) as server:
        error = failed(server)
    assert (error.cause, server.paid) == (ChatFailure.REJECTED, 1)
    assert hint in error.detail
    assert server.paths == ["/answer"], "a redirect was followed"


@pytest.mark.parametrize(
    "body",
    ["", "<html>", "{", '{"a": NaN}', '{"a": 1e999}', "null", '{"a": "\\ud800"}', b"\xff", "[" * 100_000],
)
def test_a_success_without_json_is_malformed(body: str | bytes) -> None:
    with JsonServer(Answer(body)) as server:
        error = failed(server)
    assert (error.cause, server.paid) == (ChatFailure.MALFORMED, 1)


def test_an_answer_that_is_too_long_is_malformed_and_not_read_to_its_end() -> None:
    endless = Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + b"1" * 20_000)
    with JsonServer(endless) as server:
        error = failed(server, max_bytes=10_000)
    assert error.cause is ChatFailure.MALFORMED
    assert "longer than 10000 bytes" in error.detail


def test_a_compressed_answer_is_not_unpacked() -> None:
    body = gzip.compress(json.dumps({"reply": "small, but it need not be"}).encode())
    with JsonServer(Answer(body, headers={"Content-Encoding": "gzip"})) as server:
        error = failed(server)
    assert error.cause is ChatFailure.MALFORMED
    assert server.received[0].headers["accept-encoding"] == "identity"


def test_a_hanging_server_ends_at_the_deadline() -> None:
    started = time.monotonic()
    with JsonServer(Answer({}, delay_s=30)) as server:
        assert failed(server, deadline_s=0.2).cause is ChatFailure.TIMEOUT
        with pytest.raises(ChatError) as caught:
            with_client(server.url, lambda http: http.get("/"), deadline_s=0.2)
    assert caught.value.cause is ChatFailure.TIMEOUT
    assert time.monotonic() - started < 5


def test_a_wait_past_the_deadline_is_not_begun() -> None:
    started = time.monotonic()
    with JsonServer(Answer("", status=429, headers={"Retry-After": "30"})) as server:
        error = failed(server, deadline_s=5)
    assert (error.cause, server.paid) == (ChatFailure.RATE_LIMITED, 1)
    assert time.monotonic() - started < 3


def test_nobody_there_is_unavailable() -> None:
    with JsonServer({}) as server:
        url = server.url
    with pytest.raises(ChatError) as caught:
        with_client(url, lambda http: http.get("/"))
    assert caught.value.cause is ChatFailure.UNAVAILABLE


def test_the_key_is_never_shown() -> None:
    with JsonServer(Answer(f"you sent {KEY}", status=400)) as server:
        error = failed(server, api_key=KEY)
        answer = with_client(server.url, lambda http: http.get("/"), api_key=KEY)
    assert "[api key]" in error.detail
    for shown in (str(error), repr(error), answer.text, repr(JsonHttp(server.url, api_key=KEY))):
        assert KEY not in shown


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with JsonServer({"from": "proxy"}) as proxy, JsonServer({"from": "server"}) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert call(server) == {"from": "server"}
    assert proxy.paid == 0


def test_no_cookie_is_kept() -> None:
    with JsonServer(Answer({}, headers={"Set-Cookie": "a=b"})) as server:

        async def twice(http: JsonHttp) -> None:
            await http.get("/")
            await http.get("/")

        with_client(server.url.replace("127.0.0.1", "localhost"), twice)  # no jar keeps cookies of bare addresses
    assert "cookie" not in server.received[1].headers


def test_no_more_requests_are_open_than_allowed() -> None:
    with JsonServer(Answer({}, delay_s=0.02)) as server:

        async def many(http: JsonHttp) -> None:
            await asyncio.gather(*(http.call("/", {"n": n}) for n in range(12)))

        with_client(server.url, many, concurrency=3)
    assert (server.paid, server.peak) == (12, 3)


@pytest.mark.parametrize(
    "url",
    [
        "", "127.0.0.1:80", "ftp://host", "http://", "http://host?x=1", "http://host/#a", "http://user:pw@host",
        "http://user@host", "http://host:99999", "http://[::1", "http://ho st", "http://host/a\nb", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_addresses_that_cannot_work_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="base url") as caught:
        JsonHttp(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("options", [{"deadline_s": 0}, {"concurrency": 0}, {"max_bytes": 0}, {"api_key": "a b"}])
def test_settings_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        JsonHttp("http://host", **options)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_json_or_malformed(data: bytes) -> None:
    with JsonServer(Answer(data)) as server:
        answer = with_client(server.url, lambda http: http.get("/"))
    assert isinstance(answer, JsonAnswer)
    assert len(answer.text) <= 800
    assert "\n" not in answer.text
