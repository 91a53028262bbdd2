"""Tests: a real server with the side doors of an OpenAI-compatible one: /v1/models, /version, /tokenize, chat.

    with OpenAIServer({"/v1/models": models("a-model", max_model_len=4096)}) as server:
        ... Endpoint(server.base_url, "a-model") ...
    assert not server.paid_calls

A route is an entry of `json_server`; paths without one answer 404, as vLLM does.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

from chat_server import Answer, Received
from json_server import JsonEntry, JsonServer

Route = JsonEntry | Callable[[Received], JsonEntry]
CHAT = "/v1/chat/completions"


def models(*names: str, **fields: Any) -> dict[str, Any]:
    """The JSON body of GET /v1/models; `fields` are added to every model."""
    return {"object": "list", "data": [{"id": name, "object": "model", **fields} for name in names]}


class OpenAIServer(JsonServer):
    """`routes`: path -> what is answered; may be changed while the server runs."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        super().__init__(self._route)
        self.routes = dict(routes)

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    @property
    def paid_calls(self) -> list[Received]:
        """Requests that a provider would charge for."""
        return [request for request in self.received if request.path == CHAT]

    def _route(self, request: Received) -> JsonEntry:
        entry = self.routes.get(request.path, Answer({"detail": "Not Found"}, status=404))
        return entry(request) if callable(entry) else entry
