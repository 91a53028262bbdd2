"""Bench: a lean OpenAI-compatible server in a process of its own, with a fixed latency and a prebuilt answer.

It must be no bottleneck: it reads no header but the length, parses no JSON, and sends the same bytes every time.
`tests/chat_server.py` is the one that checks and remembers; this one only waits.
"""

import asyncio
import json
import subprocess
import sys
from types import TracebackType

REPLY = "<reply>I meant everything since the first of February 2024, and nothing before that.</reply>"


class DelayServer:
    """The server, a context manager; `base_url` goes up to and including `/v1`.

    Args:
        latency_s: seconds between a request's last byte and its answer.
    """

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self.base_url = ""

    def __enter__(self) -> "DelayServer":
        command = [sys.executable, __file__, str(self._latency_s)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.base_url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input ends it, also when this process is killed


def _answer() -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-0123456789abcdef",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "bench",
            "system_fingerprint": "fp_bench",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "logprobs": None,
                    "message": {"role": "assistant", "content": REPLY, "refusal": None, "tool_calls": []},
                }
            ],
            "usage": {
                "prompt_tokens": 1500,
                "completion_tokens": 24,
                "total_tokens": 1524,
                "prompt_tokens_details": {"cached_tokens": 1408},
            },
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """One connection, one request at a time: no client here pipelines."""

    def __init__(self, latency_s: float, answer: bytes) -> None:
        self._latency_s, self._answer = latency_s, answer
        self._received = bytearray()
        self._length: int | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._length is None and (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end]).lower()
            self._length = end + 4 + int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if self._length is not None and len(self._received) >= self._length:
            self._received.clear()
            self._length = None
            asyncio.get_running_loop().call_later(self._latency_s, self._send)

    def _send(self) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(self._answer)


async def _serve(latency_s: float) -> None:
    answer = _answer()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(latency_s, answer), "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
