"""Benchmark core: what tool and jail say to each other: frames of JSON with tagged values. Standard library only.

A frame is its length in four bytes, big-endian, and that much UTF-8 JSON. Nothing is ever unpickled.
"""

import json
import uuid
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

FRAME_BYTES = 8 << 20
"""A longer frame is not read."""
HEAD_BYTES = 4


class WireError(Exception):
    """What came is no frame of this protocol."""


def pack(message: Any) -> bytes:
    """A frame.

    Raises:
        WireError: it would be too long, or holds a value that has no tag.
    """
    try:
        body = json.dumps(_tagged(message), allow_nan=True).encode()
    except (RecursionError, ValueError) as error:
        raise WireError(f"cannot be sent: {type(error).__name__}") from None
    if len(body) > FRAME_BYTES:
        raise WireError(f"a frame of {len(body)} bytes is too long")
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def length(head: bytes) -> int:
    """How many bytes follow. Raises: WireError: more than a frame may have."""
    found = int.from_bytes(head, "big")
    if found > FRAME_BYTES:
        raise WireError(f"a frame of {found} bytes is too long")
    return found


def unpack(body: bytes) -> Any:
    """The message of a frame. Raises: WireError."""
    try:
        return _plain(json.loads(body))
    except (ValueError, RecursionError, ArithmeticError, TypeError, KeyError) as error:
        raise WireError(f"no message: {type(error).__name__}") from None


def _tagged(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return {"t" if isinstance(value, tuple) else "l": [_tagged(item) for item in value]}
        case dict():
            return {"d": [[_tagged(key), _tagged(item)] for key, item in value.items()]}
        case bytes() | memoryview():
            return {"bytes": bytes(value).hex()}
        case timedelta():
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
    for name, (kind, _) in _KINDS.items():
        if isinstance(value, kind):
            return {name: value.isoformat() if isinstance(value, date | time) else str(value)}
    raise WireError(f"a value of type {type(value).__name__} cannot be sent")


def _plain(value: Any) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("an untagged list")
        return value
    [(tag, inner)] = value.items()
    match tag:
        case "l":
            return [_plain(item) for item in inner]
        case "t":
            return tuple(_plain(item) for item in inner)
        case "d":
            return {_plain(key): _plain(item) for key, item in inner}
        case "bytes":
            return bytes.fromhex(inner)
        case "timedelta":
            return timedelta(*inner)
        case _:
            return _KINDS[tag][1](inner)


_KINDS: dict[str, tuple[type, Any]] = {  # a datetime is a date: it comes first
    "datetime": (datetime, datetime.fromisoformat),
    "date": (date, date.fromisoformat),
    "time": (time, time.fromisoformat),
    "decimal": (Decimal, Decimal),
    "uuid": (uuid.UUID, uuid.UUID),
}
