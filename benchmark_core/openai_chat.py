"""Benchmark core: chat over an OpenAI-compatible HTTP server. The only module that knows `openai`."""

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import openai

from benchmark_core.chat import ChatRequest, Completion
from benchmark_core.chat_cache import ChatCache, cache_key
from benchmark_core.chat_wire import Failed, clean, read_completion, read_error, retry_after_s
from benchmark_core.errors import ChatError, ChatFailure, InputError

log = logging.getLogger(__name__)

BACKOFF_S = 0.5
BACKOFF_CAP_S = 8.0
"""First and longest wait between attempts, in seconds; doubles in between; shortened at random by up to half."""

A_TURN = 8
"""Answers a round of the event loop; fewer would cost rounds, more would leave bunches."""

_TRANSIENT = frozenset({408, 409, 429})
_OURS = frozenset({"model", "messages", "n", "stream"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model on one server.

    Attributes:
        base_url: up to and including `/v1`; without user name and password.
        api_key: "" for servers that need none. Never shown.
        deadline_s: seconds for one completion, all attempts and waits included; waiting for a free slot is not.
        max_attempts: requests sent at most for one completion.
        concurrency: requests open at once, and connections.

    Raises:
        InputError: for a field that cannot work.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    deadline_s: float = 120.0
    max_attempts: int = 4
    concurrency: int = 16

    def __post_init__(self) -> None:
        url = urlsplit(self.base_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
            raise InputError("base_url: expected http(s)://host[:port]/v1")
        if "@" in url.netloc:
            raise InputError("base_url: holds a user name or password; give the key as api_key")
        if not self.model:
            raise InputError("model: empty; name the model as the server lists it under /v1/models")
        if any(not 33 <= ord(c) <= 126 for c in self.api_key):
            raise InputError("api_key: holds a blank, a line break or a non-ASCII character")
        if not self.deadline_s > 0 or self.max_attempts < 1 or self.concurrency < 1:
            raise InputError("deadline_s, max_attempts and concurrency: expected more than 0")
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))


class OpenAIChat:
    """A `ChatClient`; an async context manager.

    Retries 408, 409, 429, 5xx and broken connections, honours Retry-After, and never passes the deadline. A request
    that was answered is never sent again: a useless completion is a `ChatError`, and what to do is the caller's choice.

    Args:
        cache: asked first, and filled with usable completions; two equal requests at once are then sent once. The
            caller closes it.
    """

    def __init__(self, endpoint: Endpoint, cache: ChatCache | None = None) -> None:
        self._endpoint, self._cache = endpoint, cache
        self._url = f"{endpoint.base_url}/chat/completions"
        self._slots, self._turns = asyncio.Semaphore(endpoint.concurrency), asyncio.Semaphore(A_TURN)
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
            max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency
        )
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",  # else the library would send OPENAI_API_KEY to any server
            max_retries=0,
            timeout=None,  # our deadline covers it
            http_client=openai.DefaultAioHttpClient(timeout=None, limits=limits, follow_redirects=False),
        )

    def __repr__(self) -> str:
        return f"OpenAIChat({self._endpoint!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    @property
    def identity(self) -> dict[str, str]:
        """`base_url` and `model`; never the key."""
        return {"base_url": self._endpoint.base_url, "model": self._endpoint.model}

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, from the cache when it holds the answer.

        Raises:
            ChatError: when there is no usable completion; the cause says why.
            InputError: when `extra` sets what is not its to set, or the cache cannot be used.
        """
        if taken := sorted(_OURS & request.extra.keys()):
            raise InputError(f"extra: may not set {', '.join(taken)}")
        if self._cache is None:
            found = await self._send(request)
        else:
            key = cache_key(self._endpoint.base_url, self._endpoint.model, request)
            async with self._cache.flight(key):
                cached = self._cache.get(key)
                if cached is not None:
                    return cached
                found = await self._send(request)
                self._cache.put(key, found)
        await self._in_turn()
        return found

    async def _in_turn(self) -> None:
        """Lets `A_TURN` answers go on per round of the event loop.

        Answers come in bunches, and aiohttp writes a request's body one round after it was asked to (before Python
        3.12). Without turns all callers of a bunch would work on their answers before the first next request leaves:
        the server would idle meanwhile, and the bunch stay together.
        """
        await self._turns.acquire()
        asyncio.get_running_loop().call_soon(self._turns.release)

    async def _send(self, request: ChatRequest) -> Completion:
        end = self._endpoint
        async with self._slots:
            started, attempt = time.monotonic(), 0
            try:
                async with asyncio.timeout(end.deadline_s):
                    while True:
                        attempt += 1
                        outcome = await self._attempt(request)
                        if isinstance(outcome, Completion):
                            return replace(outcome, attempts=attempt, latency_s=time.monotonic() - started)
                        left = end.deadline_s - (time.monotonic() - started)
                        await asyncio.sleep(self._wait(outcome, attempt, left))
            except TimeoutError:
                detail = f"no answer within {end.deadline_s:g} s from {end.base_url}"
                raise ChatError(ChatFailure.TIMEOUT, detail, attempts=attempt) from None

    def _wait(self, failed: Failed, attempt: int, left_s: float) -> float:
        """Seconds until the next attempt; raises the failure where there is to be none."""
        detail = failed.detail
        if failed.transient and attempt < self._endpoint.max_attempts:
            backoff = min(BACKOFF_S * 2 ** (attempt - 1), BACKOFF_CAP_S) * random.uniform(0.5, 1.0)
            wait = backoff if failed.retry_after_s is None else failed.retry_after_s
            if wait < left_s:
                log.info(
                    "attempt %d of %d failed, next in %.1f s: %s", attempt, self._endpoint.max_attempts, wait, detail
                )
                return wait
            detail += f" (next attempt in {wait:.1f} s, deadline in {left_s:.1f} s)"
        spent = replace(failed.spent, attempts=attempt) if failed.spent else None
        raise ChatError(failed.cause, detail, attempts=attempt, spent=spent)

    async def _attempt(self, request: ChatRequest) -> Completion | Failed:
        """Send once. A value comes back in every case, so that no exception chain carries what the server echoed."""
        try:
            # not `chat.completions.create`: it walks through every message by its type hints, and builds objects of
            # the answer, which read_completion reads more strictly; half of the library's time goes there
            answer = await self._client.post(self._url, cast_to=bytes, body=self._body(request))
        except openai.APIStatusError as error:
            return self._refused(error)
        except (openai.APIConnectionError, aiohttp.ClientError) as error:
            root = _root(error)
            detail = f"{self._endpoint.base_url}: {type(root).__name__}: {root}"
            return Failed(ChatFailure.UNAVAILABLE, self._clean(detail), transient=True)
        outcome = read_completion(answer, self._endpoint.model)
        return replace(outcome, detail=self._clean(outcome.detail)) if isinstance(outcome, Failed) else outcome

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        decoding = request.decoding
        optional = {"seed": decoding.seed, "reasoning_effort": decoding.reasoning_effort}
        return {
            "model": self._endpoint.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
            **request.extra,
        }

    def _refused(self, error: openai.APIStatusError) -> Failed:
        status = error.status_code
        if status == 429:
            cause = ChatFailure.RATE_LIMITED
        elif status in _TRANSIENT or status >= 500:
            cause = ChatFailure.UNAVAILABLE
        else:
            cause = ChatFailure.REJECTED
        detail = self._clean(read_error(status, error.response.text))
        wait = retry_after_s(error.response.headers, time.time())
        return Failed(cause, detail, transient=cause is not ChatFailure.REJECTED, retry_after_s=wait)

    def _clean(self, text: str) -> str:
        return clean(text, secret=self._endpoint.api_key)


def _root(error: BaseException) -> BaseException:
    """What happened on the wire: the libraries wrap it twice, and call a closed connection a timeout."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
