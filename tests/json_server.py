"""Tests: a real JSON server on 127.0.0.1, scripted request by request, for endpoints that are no chat servers.

    with JsonServer({"reply": "a"}, Answer(status=503), lambda request: {"echo": request.body}) as server:
        async with JsonHttp(server.url) as http: ...

The last entry is repeated. Requests stand in `server.received`, with path, headers and body.
"""

from collections.abc import Callable
from typing import Any, Self

from chat_server import Answer, ChatServer, Received

JsonEntry = Answer | dict[str, Any]


class JsonServer(ChatServer):
    """`ChatServer`'s transport with another script: dicts are bodies of a 200, functions see the whole request."""

    def __init__(self, *script: JsonEntry | Callable[[Received], JsonEntry]) -> None:
        super().__init__()
        self._entries = script

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    @property
    def url(self) -> str:
        return self.base_url.removesuffix("/v1")

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.received]

    def _next(self, request: Received) -> Answer:
        self.received.append(request)
        entry = self._entries[min(len(self.received), len(self._entries)) - 1]
        if callable(entry):
            entry = entry(request)
        return entry if isinstance(entry, Answer) else Answer(entry)
