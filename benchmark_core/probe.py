"""Benchmark core: what a chat server says of itself, free of charge, and one tiny paid call under a schema.

Every server answers differently, and a wrong guess must not stop a run: what is not offered or not understood is None,
and only what was read for certain is a fact.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from benchmark_core.chat import Completion, Decoding, Message, Usage
from benchmark_core.chat_wire import Failed, clean, read_completion, read_error
from benchmark_core.errors import ChatError, ChatFailure
from benchmark_core.json_http import JsonAnswer, JsonHttp

if TYPE_CHECKING:
    from benchmark_core.openai_chat import Endpoint

_MAX_BYTES = 16 << 20  # a public list of models takes megabytes, and so do the token numbers of a long prompt
_MAX_NAME = 200  # characters of a model's name
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""vLLM; OpenRouter and Together; Groq; Mistral and LM Studio."""
_RATINGS = ("A", "B")
_BEGS = 'Answer with the JSON object {"rating": "Z"}. The rating must be "Z"; any other rating is wrong.'
_SCHEMA = {
    "type": "object",
    "properties": {"rating": {"type": "string", "enum": list(_RATINGS)}},
    "required": ["rating"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Card:
    """One model of a server's list. `context_length` is in tokens, prompt and reply together; None: not said."""

    id: str
    aliases: tuple[str, ...] = ()
    context_length: int | None = None

    def answers_to(self, model: str) -> bool:
        """Whether a request for `model` gets this one: Gemini lists `models/NAME`, Ollama `NAME:latest`."""
        return self.id in (model, f"models/{model}", f"{model}:latest") or model in self.aliases


@dataclass(frozen=True, slots=True)
class Listing:
    """Answer to GET /models.

    Attributes:
        whole: False where the server holds more pages.
    """

    status: int
    cards: tuple[Card, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of a prompt as the server's own tokenizer counts them, and the length that it serves."""

    tokens: int
    context_length: int | None


class Outcome(StrEnum):
    """What became of a request under a schema."""

    RESPECTED = "respected"
    IGNORED = "ignored"
    REFUSED = "refused"  # 4xx
    TRUNCATED = "truncated"
    REASONING_ONLY = "reasoning_only"  # no content, and a reasoning field that holds text (vLLM #17349)
    UNUSABLE = "unusable"  # any other 200
    UNANSWERED = "unanswered"  # no answer, 429, 5xx: says nothing of the schema


@dataclass(frozen=True, slots=True)
class Constrained:
    """The paid call.

    Attributes:
        detail: why it is not `respected`.
        latency_s: seconds, of the one request.
        model, system_fingerprint, usage: as the server names them; None without a completion.
    """

    outcome: Outcome
    detail: str
    latency_s: float
    model: str | None = None
    system_fingerprint: str | None = None
    usage: Usage | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


class Probe:
    """A server that is asked about itself and about one model. See `probing`.

    Raises:
        ChatError: by `models` alone, when no answer came.
    """

    def __init__(self, http: JsonHttp, v1: str, endpoint: "Endpoint") -> None:
        self._http, self._v1 = http, v1
        self._model, self._key = endpoint.model, endpoint.api_key

    async def models(self) -> Listing:
        """The models that the server lists; none where it lists none in a form that we know."""
        answer = await self._http.get(f"{self._v1}/models")
        body = answer.body if answer.status == 200 else None
        rows = body.get("data") if isinstance(body, dict) else body  # Together sends the bare list
        cards = tuple(card for row in rows if (card := self._card(row))) if isinstance(rows, list) else ()
        return Listing(answer.status, cards, whole=not (isinstance(body, dict) and body.get("has_more") is True))

    async def version(self) -> str | None:
        """The server's version (vLLM: GET /version)."""
        return self._name((await self._ask("GET", "/version")).get("version"))

    async def count(self, messages: Sequence[Message]) -> Counted | None:
        """Tokens of a chat prompt (vLLM: POST /tokenize); None where the server does not count."""
        sent = [{"role": message.role, "content": message.content} for message in messages]
        said = await self._ask("POST", "/tokenize", {"model": self._model, "messages": sent})
        tokens = _positive(said.get("count"))  # llama.cpp has a /tokenize too, which knows no messages and no count
        return Counted(tokens, _positive(said.get("max_model_len"))) if tokens is not None else None

    async def constrained(self, decoding: Decoding) -> Constrained:
        """Ask once for a rating that the schema of the same request forbids. Costs a few tokens.

        Args:
            decoding: of the judge, so that a parameter that the server refuses is found here.
        """
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": _BEGS}],
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "rating", "strict": True, "schema": _SCHEMA},
            },
        }
        if decoding.reasoning_effort is not None:
            body["reasoning_effort"] = decoding.reasoning_effort
        started = time.monotonic()
        try:
            answer = await self._http.post(f"{self._v1}/chat/completions", body)
        except ChatError as error:
            return Constrained(Outcome.UNANSWERED, error.detail, time.monotonic() - started)
        return self._judged(answer, time.monotonic() - started)

    def _judged(self, answer: JsonAnswer, latency_s: float) -> Constrained:
        if answer.status != 200:
            gone = answer.status in (408, 409, 425, 429) or answer.status >= 500
            # with 401 and 403 some servers quote the key in part
            says = f"HTTP {answer.status}" if answer.status in (401, 403) else read_error(answer.status, answer.text)
            return Constrained(Outcome.UNANSWERED if gone else Outcome.REFUSED, self._clean(says), latency_s)
        read = read_completion(json.dumps(answer.body).encode(), self._model)
        completion = read.spent if isinstance(read, Failed) else read
        outcome = _outcome(read, answer.body)
        detail = self._clean(read.detail) if isinstance(read, Failed) else ""
        if completion is None:
            return Constrained(outcome, detail, latency_s)
        name, mark = self._name(completion.model), self._name(completion.system_fingerprint)
        return Constrained(outcome, detail, latency_s, name, mark, completion.usage)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A JSON object from a path that few servers have; an empty one in every other case."""
        try:
            answer = await (self._http.get(path) if method == "GET" else self._http.post(path, body or {}))
        except ChatError:
            return {}
        return answer.body if answer.status == 200 and isinstance(answer.body, dict) else {}

    def _card(self, row: object) -> Card | None:
        if not isinstance(row, dict) or (name := self._name(row.get("id"))) is None:
            return None
        meta, aliases = row.get("meta"), row.get("aliases")
        lengths = [row.get(field) for field in _CONTEXT_FIELDS]
        if isinstance(meta, dict):  # llama.cpp: what it serves, and what the model was trained for
            lengths += [meta.get("n_ctx"), meta.get("n_ctx_train")]
        others = aliases if isinstance(aliases, list) else []
        known = next((length for value in lengths if (length := _positive(value))), None)
        return Card(name, tuple(alias for value in others if (alias := self._name(value))), known)

    def _name(self, value: object) -> str | None:
        return self._clean(value)[:_MAX_NAME] or None if isinstance(value, str) else None

    def _clean(self, text: str) -> str:
        return clean(text, secret=self._key)


def _outcome(read: Completion | Failed, body: Any) -> Outcome:
    if isinstance(read, Completion):
        return Outcome.RESPECTED if _keeps(read.text) else Outcome.IGNORED
    if read.cause is ChatFailure.TRUNCATED:
        return Outcome.TRUNCATED
    return Outcome.REASONING_ONLY if read.cause is ChatFailure.EMPTY and _thought(body) else Outcome.UNUSABLE


def _keeps(text: str) -> bool:
    """Whether the answer is the object of the schema; thoughts before it that no parser took away are none of ours."""
    try:
        said = json.loads(text.rpartition("</think>")[2])
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.keys() == {"rating"} and said["rating"] in _RATINGS


def _thought(body: Any) -> bool:
    message = body["choices"][0]["message"]  # read_completion has seen that they are there
    return any(
        isinstance(message.get(name), str) and message[name].strip() for name in ("reasoning", "reasoning_content")
    )


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


@asynccontextmanager
async def probing(endpoint: "Endpoint", deadline_s: float) -> AsyncIterator[Probe]:
    """A `Probe` of an endpoint.

    Args:
        deadline_s: seconds for each request.

    Raises:
        InputError: for an address or key that cannot work.
    """
    root = endpoint.base_url.removesuffix("/v1")  # /version and /tokenize stand beside /v1
    http = JsonHttp(root, api_key=endpoint.api_key, deadline_s=deadline_s, concurrency=4, max_bytes=_MAX_BYTES)
    async with http:
        yield Probe(http, endpoint.base_url.removeprefix(root), endpoint)
