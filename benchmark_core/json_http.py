"""Benchmark core: JSON over HTTP, for endpoints that are no chat servers. Nothing that comes back is trusted."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import pydantic_core

from benchmark_core.chat_wire import Failed, clean, retry_after_s
from benchmark_core.errors import ChatError, ChatFailure, InputError

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 4
BACKOFF_S = 0.5
BACKOFF_CAP_S = 8.0
"""First and longest wait between attempts, in seconds; doubles in between; shortened at random by up to half."""

_TRANSIENT = frozenset({408, 409, 425, 429})
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """One HTTP answer, whatever its status.

    Attributes:
        body: the parsed JSON; None where the body is no JSON (or `null`).
        text: the first 800 characters of the body on one line, without the API key; for messages only.
        retry_after_s: seconds that the server asks to wait.
    """

    status: int
    body: Any | None
    text: str
    retry_after_s: float | None = None


class JsonHttp:
    """A client bound to one base address; an async context manager.

    Follows no redirect, uses no proxy of the environment, keeps no cookie, and reads no compressed body (a small one
    can unpack to gigabytes).

    Args:
        base_url: `http(s)://host[:port][/path]`; paths are appended to it.
        api_key: sent as bearer token; "" sends none. Never shown.
        deadline_s: seconds for one `get`, `post` or `call`, all attempts and waits included; waiting for a free slot
            is not.
        concurrency: requests open at once, and connections.
        max_bytes: size of an answer's body at most.

    Raises:
        InputError: for an address or key that cannot work.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        deadline_s: float = 60.0,
        concurrency: int = 16,
        max_bytes: int = 1 << 20,
    ) -> None:
        self.base_url = _checked(base_url)
        if any(not 33 <= ord(c) <= 126 for c in api_key):
            raise InputError("api key: holds a blank, a line break or a non-ASCII character")
        if not deadline_s > 0 or concurrency < 1 or max_bytes < 1:
            raise InputError("deadline_s, concurrency and max_bytes: expected more than 0")
        self._api_key, self._deadline_s, self._max_bytes = api_key, deadline_s, max_bytes
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "usersim-guard"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=self._concurrency),
            timeout=aiohttp.ClientTimeout(),  # none: our deadline covers it
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> JsonAnswer:
        """One GET, sent once.

        Args:
            path: begins with `/`; nothing of it comes from data.

        Raises:
            ChatError: when no whole answer came: UNAVAILABLE, TIMEOUT, or MALFORMED for a body that is too long. An
                answer with an error status is an answer.
        """
        return await self._once("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> JsonAnswer:
        """One POST of a JSON body, sent once; else as `get`.

        Raises:
            ChatError: as `get`.
        """
        return await self._once("POST", path, body)

    async def call(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST a JSON body until there is an answer, and give its JSON.

        Repeats 408, 409, 425, 429, 5xx and broken connections, honours Retry-After, and never passes the deadline.

        Raises:
            ChatError: UNAVAILABLE, RATE_LIMITED or TIMEOUT after the attempts; REJECTED for any other status that is
                no success; MALFORMED for a success without JSON.
        """
        async with self._slots:
            started, attempt = time.monotonic(), 0
            try:
                async with asyncio.timeout(self._deadline_s):
                    while True:
                        attempt += 1
                        outcome = await self._attempt(path, body)
                        if not isinstance(outcome, Failed):
                            return outcome.body
                        left = self._deadline_s - (time.monotonic() - started)
                        await asyncio.sleep(_wait(outcome, attempt, left))
            except TimeoutError:
                raise self._timeout(path, attempt) from None

    async def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> JsonAnswer:
        async with self._slots:
            try:
                async with asyncio.timeout(self._deadline_s):
                    outcome = await self._exchange(method, path, body)
            except TimeoutError:
                raise self._timeout(path, 1) from None
        if isinstance(outcome, Failed):
            raise ChatError(outcome.cause, outcome.detail)
        return outcome

    async def _attempt(self, path: str, body: Mapping[str, Any]) -> JsonAnswer | Failed:
        answer = await self._exchange("POST", path, body)
        if isinstance(answer, Failed):
            return answer
        where = f"{self.base_url}{path}"
        if not 200 <= answer.status < 300:
            return _refused(answer, where)
        if answer.body is None:
            return Failed(ChatFailure.MALFORMED, f"{where}: {answer.status}, but no JSON: {answer.text}")
        return answer

    async def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None) -> JsonAnswer | Failed:
        """Send once. A value comes back in every case, so that no exception chain carries what the server echoed."""
        assert self._session is not None, "JsonHttp is used inside `async with`"
        where = f"{self.base_url}{path}"
        try:
            async with self._session.request(method, where, json=body, allow_redirects=False) as response:
                data = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            detail = self.clean(f"{where}: {type(error).__name__}: {error}")
            return Failed(ChatFailure.UNAVAILABLE, detail, transient=True)
        if data is None:
            return Failed(ChatFailure.MALFORMED, f"{where}: the answer is longer than {self._max_bytes} bytes")
        wait = retry_after_s(response.headers, time.time())
        return JsonAnswer(response.status, _parsed(data), self.clean(data.decode("utf-8", "replace")), wait)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes | None:
        """The body; None where it is too long."""
        data = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            data += chunk
            if len(data) > self._max_bytes:
                response.close()  # else the rest would be read to reuse the connection
                return None
        return bytes(data)

    def _timeout(self, path: str, attempts: int) -> ChatError:
        detail = f"no answer within {self._deadline_s:g} s from {self.base_url}{path}"
        return ChatError(ChatFailure.TIMEOUT, detail, attempts=attempts)

    def clean(self, text: str) -> str:
        """One short line without the API key, for messages and logs."""
        return clean(text, secret=self._api_key)


def _checked(base_url: str) -> str:
    try:
        url = urlsplit(base_url)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a bad port or bracket
        usable = False
    if not usable or url.query or url.fragment or any(not 33 <= ord(c) <= 126 for c in base_url):
        raise InputError("base url: expected http(s)://host[:port][/path]")
    if "@" in url.netloc:
        raise InputError("base url: holds a user name or password; give the key by the environment variable")
    return base_url.rstrip("/")


def _parsed(data: bytes) -> Any | None:
    try:
        value = pydantic_core.from_json(data, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # 1e999 is read as infinity all the same
        return value
    except ValueError:
        return None


def _refused(answer: JsonAnswer, where: str) -> Failed:
    detail = f"{where}: {answer.status}: {answer.text}"
    if answer.status == 429:
        return Failed(ChatFailure.RATE_LIMITED, detail, transient=True, retry_after_s=answer.retry_after_s)
    if answer.status in _TRANSIENT or answer.status >= 500:
        return Failed(ChatFailure.UNAVAILABLE, detail, transient=True, retry_after_s=answer.retry_after_s)
    if 300 <= answer.status < 400:
        detail += " (the server redirects; give the address that it redirects to)"
    elif answer.status in (401, 403):
        detail += " (check the API key)"
    return Failed(ChatFailure.REJECTED, detail)


def _wait(failed: Failed, attempt: int, left_s: float) -> float:
    """Seconds until the next attempt; raises the failure where there is to be none."""
    detail = failed.detail
    if failed.transient and attempt < MAX_ATTEMPTS:
        backoff = min(BACKOFF_S * 2 ** (attempt - 1), BACKOFF_CAP_S) * random.uniform(0.5, 1.0)
        wait = backoff if failed.retry_after_s is None else failed.retry_after_s
        if wait < left_s:
            log.info("attempt %d of %d failed, next in %.1f s: %s", attempt, MAX_ATTEMPTS, wait, detail)
            return wait
        detail += f" (next attempt in {wait:.1f} s, deadline in {left_s:.1f} s)"
    raise ChatError(failed.cause, detail, attempts=attempt)
