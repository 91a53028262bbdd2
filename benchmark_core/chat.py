"""Benchmark core: what a chat request and a completion are. Knows no provider."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding settings; the published defaults (temperature 0, top_p 1, reasoning effort medium) of BIRD-Interact.

    Attributes:
        max_tokens: budget of the completion, hidden reasoning included.
        reasoning_effort: sent as it is; None sends no such field (some servers refuse it for other models).
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 1024
    reasoning_effort: str | None = "medium"
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request. `extra` is merged into the JSON body (response_format, structured_outputs, …).

    `trial` is part of the identity for the cache and is not sent: trial 1 is never answered with trial 0's completion.
    """

    messages: tuple[Message, ...]
    decoding: Decoding
    extra: Mapping[str, Any] = field(default_factory=dict)
    trial: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the server counted them; None where it did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A usable completion: non-empty text and finish_reason "stop". Anything else is a `ChatError`.

    Attributes:
        model: the model as the server names it.
        system_fingerprint: as the server gave it.
        attempts: HTTP requests that were sent for it, 0 when it came from the cache.
        latency_s: seconds from first send to last byte.
    """

    text: str
    model: str
    system_fingerprint: str | None = None
    usage: Usage = Usage()
    attempts: int = 1
    cached: bool = False
    latency_s: float = 0.0


class ChatClient(Protocol):
    """A chat endpoint bound to one model."""

    @property
    def identity(self) -> Mapping[str, str]:
        """`base_url` and `model`; never the key."""
        ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        Raises:
            ChatError: when there is no usable completion; the cause says why.
        """
        ...
