"""Tests: a real OpenAI-compatible HTTP server on 127.0.0.1, scripted request by request.

    with ChatServer("first reply", Answer(status=503), "last reply, repeated") as server:
        ... OpenAIChat(Endpoint(server.base_url, "model")) ...
    assert server.paid == 2

A script entry is a `str` (a completion with that text), a `dict` (the JSON body of a 200), an `Answer`, or a function
from the request's parsed body to one of these.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from benchmark_core.digest import digest


@dataclass(frozen=True)
class Answer:
    """One HTTP answer.

    Attributes:
        body: a dict is sent as JSON, text and bytes as they are.
        delay_s: seconds before the first byte; a large one makes a hanging server.
        cut: close the connection after so many bytes of the body; the headers promise all of it.
        raw: these bytes and nothing else, then close (b"" hangs up without a word).
    """

    body: dict[str, Any] | str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: int | None = None
    raw: bytes | None = None


Entry = Answer | dict[str, Any] | str


@dataclass(frozen=True)
class Received:
    """One request as it came in; header names in lower case; `digest` is that of the body."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def digest(self) -> str:
        return digest(self.body)

    @property
    def prompt(self) -> str:
        """All message contents, one after the other."""
        return "\n".join(message["content"] for message in self.body["messages"])


def completion(
    text: str | None, *, finish: str | None = "stop", model: str = "served-model", **message: Any
) -> dict[str, Any]:
    """The JSON body of a chat completion; `message` adds fields to the message (refusal, reasoning, …)."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "system_fingerprint": "fp-1",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}},
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
    }


def error(message: str, *, code: str | None = None) -> dict[str, Any]:
    """The JSON body of an error, as OpenAI and vLLM send it."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


class ChatServer:
    """The server; a context manager that runs it on a thread of its own and knows what it was asked.

    Attributes:
        received: every request, in order of arrival.
        calls: number of requests by the digest of their body.
        peak: the most requests that were open at once.
    """

    def __init__(self, *script: Entry | Callable[[dict[str, Any]], Entry]) -> None:
        self._script = script
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._open = 0
        self.received: list[Received] = []
        self.calls: Counter[str] = Counter()
        self.peak = 0
        self.base_url = ""

    @property
    def paid(self) -> int:
        """Requests that came in."""
        return len(self.received)

    def __enter__(self) -> "ChatServer":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(timeout=10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _stop(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the test ended
        finally:
            self._connections.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; whether the connection stays open."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        request = Received(first.split()[1], headers, body)
        answer = self._next(request)
        self._open += 1
        self.peak = max(self.peak, self._open)
        try:
            await asyncio.sleep(answer.delay_s)
        finally:
            self._open -= 1
        return await _send(writer, answer)

    def _next(self, request: Received) -> Answer:
        self.received.append(request)
        self.calls[request.digest] += 1
        entry = self._script[min(len(self.received), len(self._script)) - 1]
        if callable(entry):
            entry = entry(request.body)
        if isinstance(entry, str):
            entry = completion(entry)
        return entry if isinstance(entry, Answer) else Answer(entry)


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    if answer.raw is not None:
        writer.write(answer.raw)
        return False
    as_json = isinstance(answer.body, dict)
    body = json.dumps(answer.body).encode() if as_json else answer.body
    body = body.encode() if isinstance(body, str) else body
    assert isinstance(body, bytes)
    headers = {
        "Content-Type": "application/json" if as_json else "text/html",
        "Content-Length": str(len(body)),
        **answer.headers,
    }
    head = f"HTTP/1.1 {answer.status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
    writer.write(head.encode("latin-1") + body[: answer.cut])
    await writer.drain()
    return answer.cut is None
