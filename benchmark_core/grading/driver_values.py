"""Benchmark core: cells as the driver of the public code (psycopg2) hands them over, for the `official` regime.

What the public comparison can tell apart hangs on these types: an interval's month is 30 days, infinity is the last
day of 9999, a date before year 1 is an error. Measured against psycopg2 2.9; ranges stay text here (there: an object
with the same equality, but for trailing zeros).
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

_INFINITE_DAY = {"infinity": date.max, "-infinity": date.min}
_INTERVAL = re.compile(
    r"(?:(?P<years>-?\d+) years? ?)?(?:(?P<months>[+-]?\d+) mons? ?)?(?:(?P<days>[+-]?\d+) days? ?)?"
    r"(?:(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))?"
)
_BOUNDS = re.compile(r"(?:\[-?\d+:-?\d+\])+=")
_ITEM = re.compile(r'[{},]|"(?:[^"\\]|\\.)*"|[^{},"]+', re.DOTALL)


def driver_value(text: Any, oid: int) -> Any:
    """The Python value of a cell's text, by the OID of its type; None is NULL.

    Raises:
        ValueError: where psycopg2 does, as for a year before 1 or after 9999.
    """
    if text is None:
        return None
    if oid in _SCALARS:
        return _SCALARS[oid](text)
    if oid in _ARRAYS:
        return parse_array(text, _ARRAYS[oid])
    return text


def parse_array(text: str, item: Callable[[str], Any]) -> list[Any]:
    """The items of an array's text, nested as it is; NULL is None. Bounds are dropped.

    Raises:
        ValueError, StopIteration, IndexError: for text that is no array, and whatever `item` raises.
    """
    found = next(_lists(_ITEM.finditer(_BOUNDS.sub("", text, count=1)), item))[0]
    if not isinstance(found, list):
        raise ValueError("no array")
    return found


def interval_parts(text: str) -> tuple[int, int, int] | None:
    """Months, days and microseconds of an interval's text; None for an infinite one."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        return None
    years, months, days = (int(found[part] or 0) for part in ("years", "months", "days"))
    seconds = int(found["hours"] or 0) * 3600 + int(found["minutes"] or 0) * 60 + Decimal(found["seconds"] or 0)
    microseconds = int(seconds * 1_000_000) * (-1 if found["sign"] == "-" else 1)
    return years * 12 + months, days, microseconds


def _day(text: str) -> date:
    if text in _INFINITE_DAY:
        return _INFINITE_DAY[text]
    return date.fromisoformat(text)


def _moment(text: str) -> datetime:
    if text in _INFINITE_DAY:
        return datetime.combine(_INFINITE_DAY[text], time.max if text == "infinity" else time.min)
    return datetime.fromisoformat(text)


def _zoned_moment(text: str) -> datetime:
    found = _moment(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _clock(text: str) -> time:
    return time.fromisoformat("00" + text[2:] if text.startswith("24:") else text)


def _interval(text: str) -> timedelta:
    if (parts := interval_parts(text)) is None:
        return timedelta(0)  # an infinite one, as psycopg2 has it
    months, days, microseconds = parts
    years, months = int(months / 12), int(math.fmod(months, 12))
    return timedelta(days=years * 365 + months * 30 + days, microseconds=microseconds)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


def _lists(tokens: Iterator[re.Match[str]], item: Callable[[str], Any]) -> Iterator[list[Any]]:
    """The items of one brace after the other; the outermost comes as the only item of a list."""
    items: list[Any] = []
    for token in tokens:
        match token[0]:
            case "{":
                items.append(next(_lists(tokens, item)))
            case "}":
                break
            case ",":
                pass
            case "NULL":
                items.append(None)
            case word:
                items.append(item(re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL) if word[0] == '"' else word))
    yield items


def _boolean(text: str) -> bool:
    return text == "t"


_SCALARS: dict[int, Callable[[str], Any]] = {
    16: _boolean,
    17: _bytes,
    **dict.fromkeys((20, 21, 23, 26), int),
    **dict.fromkeys((700, 701), float),
    1700: Decimal,
    **dict.fromkeys((114, 3802), json.loads),
    1082: _day,
    1114: _moment,
    1184: _zoned_moment,
    **dict.fromkeys((1083, 1266), _clock),
    **dict.fromkeys((704, 1186), _interval),
}
_ARRAYS: dict[int, Callable[[str], Any]] = {
    1000: _boolean,
    1001: _bytes,
    **dict.fromkeys((1005, 1006, 1007, 1013, 1016, 1028), int),
    **dict.fromkeys((1021, 1022), float),
    1231: Decimal,
    **dict.fromkeys((199, 3807), json.loads),
    1182: _day,
    1115: _moment,
    1185: _zoned_moment,
    **dict.fromkeys((1183, 1270), _clock),
    1187: _interval,
    **dict.fromkeys((651, 1002, 1003, 1009, 1014, 1015, 1040, 1041), str),
}
