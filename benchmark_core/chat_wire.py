"""Benchmark core: reads what a chat server sent. Nothing of it is trusted; no failure becomes text of a completion."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmark_core.chat import Completion, Usage
from benchmark_core.errors import ChatFailure

DETAIL_LIMIT = 800
"""Characters of a detail that are kept."""


@dataclass(frozen=True, slots=True)
class Failed:
    """One attempt without a usable completion.

    Attributes:
        retry_after_s: seconds that the server asks to wait.
        spent: see `ChatError`.
    """

    cause: ChatFailure
    detail: str
    transient: bool = False
    retry_after_s: float | None = None
    spent: Completion | None = None


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Message(_Strict):
    """`reasoning` and `reasoning_content` are left out on purpose: a thought is never the answer."""

    content: str | None = None
    refusal: str | None = None


class _Choice(_Strict):
    finish_reason: str | None = None
    message: _Message


class _Body(_Strict):
    choices: list[_Choice]
    model: Any = None
    system_fingerprint: Any = None
    usage: Any = None


def read_completion(body: bytes, requested_model: str) -> Completion | Failed:
    """A usable completion, or why it is none.

    Args:
        body: of a 200 response.
        requested_model: stands in where the server does not name its model.
    """
    try:
        answer = _Body.model_validate_json(body)
    except ValidationError as error:
        return Failed(ChatFailure.MALFORMED, _malformed(error, body))
    if not answer.choices:
        return Failed(ChatFailure.MALFORMED, "200 without choices; is base_url a chat server (…/v1)?")
    choice = answer.choices[0]
    completion = Completion(
        text=choice.message.content or "",
        model=_text(answer.model) or requested_model,
        system_fingerprint=_text(answer.system_fingerprint),
        usage=_usage(answer.usage),
    )
    if failed := _unusable(choice):
        return replace(failed, spent=replace(completion, text=""))
    return completion


def _unusable(choice: _Choice) -> Failed | None:
    finish, message = choice.finish_reason, choice.message
    if message.refusal and message.refusal.strip():
        return Failed(ChatFailure.REFUSED, f"the provider refused: {message.refusal}")
    if finish == "content_filter":
        return Failed(ChatFailure.FILTERED, "stopped by the provider's content filter")
    if finish == "length":
        return Failed(ChatFailure.TRUNCATED, "the token budget was spent before the answer ended; raise max_tokens")
    if finish != "stop":
        return Failed(ChatFailure.MALFORMED, f"finish_reason {finish!r}, expected 'stop'")
    if not (message.content or "").strip():
        return Failed(
            ChatFailure.EMPTY, "no text; if the answer sits in a reasoning field, check the server's reasoning parser"
        )
    return None


def _malformed(error: ValidationError, body: bytes) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    said = body.decode("utf-8", "replace")
    return f"200, but no chat completion ({where + ': ' if where else ''}{first['msg']}): {said}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _usage(value: object) -> Usage:
    counts = value if isinstance(value, dict) else {}
    details = counts.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")), _count(cached))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_error(status: int, body: str) -> str:
    """The server's message and what a person can do about it."""
    message = _message(body) or "no message"
    hint = _hint(status, message.lower())
    return f"HTTP {status}{': ' + hint if hint else ''}; the server says: {message}"


def _message(body: str) -> str:
    """OpenAI: `error.message`; vLLM's router: `detail`; anything else as it stands."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip()
    if isinstance(content, dict):
        error = content.get("error", content)
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail") or error
        return error if isinstance(error, str) else json.dumps(error)
    return body.strip()


def _hint(status: int, message: str) -> str | None:
    by_status = {
        401: "check the API key",
        403: "the API key may not use this model",
        404: "check the model name (GET /v1/models lists them) and that base_url ends in /v1",
    }
    if status in by_status or status >= 500 or status in (408, 409, 429):
        return by_status.get(status)
    if status < 400:
        return "the server redirects; give the address that it redirects to as base_url"
    if "reasoning_effort" in message:
        return "set reasoning_effort to none: this model takes no such parameter"
    if re.search(r"context|too long|input_tokens|max_model_len|maximum .*tokens", message):
        return "the prompt and max_tokens exceed the model's context length: lower max_tokens or serve a longer context"
    if re.search(r"unknown|unsupported|unrecognized|unexpected|not permitted|not supported|extra", message):
        return "the server does not know a parameter of the request: see decoding and extra"
    return "the server rejects the request"


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` as seconds or HTTP date (RFC 9110).

    Args:
        headers: looked up in lower case.
        now: seconds since the epoch.

    Returns:
        0 or more; None where there is no such header or it cannot be read.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def clean(text: str, *, secret: str) -> str:
    """One short line without control characters and without the secret, for messages and logs."""
    if secret:
        text = text.replace(secret, "[api key]")  # before anything is cut: half a key is a leak too
    text = "".join(c if c.isprintable() else " " for c in text[: 4 * DETAIL_LIMIT])
    return " ".join(text.split())[:DETAIL_LIMIT]
