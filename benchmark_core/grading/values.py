"""Benchmark core: cells as the `strict` comparison sees them, decided by their type and never by how they look.

Types that say the same belong to one family: every number, `date` and both kinds of `timestamp` (a date is its
midnight, a zone is resolved to UTC), `json` and `jsonb`, and as text whatever has no family of its own.
"""

import json
import math
import re
from collections.abc import Callable, Hashable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, NamedTuple

from benchmark_core.grading.driver_values import interval_parts, parse_array
from benchmark_core.postgres.wire import ARRAY_ITEMS, Value

SETTLED_DECIMALS = 9
"""Up to as many decimals a `numeric` or an integer is taken at its word."""
TOLERANCE, REAL_TOLERANCE = 1e-9, 1e-6
"""Relative, for all other numbers: of `double precision` and computed `numeric`; of `real`."""

_MOMENT = re.compile(
    r"(?P<year>\d{4,})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?: (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?"
    r"(?P<zone>[+-]\d\d(?::\d\d){0,2})?(?P<bc> BC)?"
)
_EXACT = Context(prec=200_000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_BPCHAR, _REAL = 1042, 700


class Number(NamedTuple):
    """A finite number in a cell. `tolerance` is relative; 0 where it is exact."""

    value: int | Decimal | float
    tolerance: float = 0.0


class Cell(NamedTuple):
    """What a cell says: its shape without the numbers, and the numbers in order, for they may be off by a little."""

    shape: Hashable
    numbers: tuple[Number, ...] = ()


def family(oid: int) -> str:
    """The name of a type's family."""
    if (item := ARRAY_ITEMS.get(oid)) is not None:
        return f"array of {family(item)}"
    return _FAMILIES[oid][0] if oid in _FAMILIES else "text"


def read(value: Value, oid: int) -> Cell:
    """A cell by the OID of its type. Text that is not of that type stands for itself: nothing raises."""
    if value is None:
        return Cell(None)
    try:
        if oid in ARRAY_ITEMS:
            return _listed("array", parse_array(str(value), lambda text: _item(text, ARRAY_ITEMS[oid])))
        return _FAMILIES[oid][1](value, oid) if oid in _FAMILIES else _text(value, oid)
    except (ValueError, ArithmeticError, RecursionError, LookupError, StopIteration):
        return Cell(("unread", str(value)))


def _item(text: str, oid: int) -> Cell:
    if family(oid) != "number":
        return read(text == "t" if family(oid) == "boolean" else text, oid)
    return _number(Decimal(text), oid)


def _listed(name: str, items: list[Any]) -> Cell:
    """A list, at any depth, whose items are cells, lists, or None."""
    cells = [Cell(None) if item is None else item if isinstance(item, Cell) else _listed(name, item) for item in items]
    return Cell((name, tuple(cell.shape for cell in cells)), tuple(number for cell in cells for number in cell.numbers))


def _number(value: Value, oid: int) -> Cell:
    found = Decimal(value) if isinstance(value, str) else value
    if isinstance(found, Decimal | float) and not math.isfinite(found):
        return Cell(str(Decimal(found)))
    assert not isinstance(found, str | None)
    return Cell("#", (Number(found, _tolerance(found, oid)),))


def _tolerance(value: float | Decimal, oid: int) -> float:
    if oid == _REAL:
        return REAL_TOLERANCE
    if isinstance(value, float):
        return TOLERANCE
    if isinstance(value, int) or int(value.as_tuple().exponent) >= -SETTLED_DECIMALS:
        return 0.0
    return 0.0 if int(value.normalize(_EXACT).as_tuple().exponent) >= -SETTLED_DECIMALS else TOLERANCE


def _moment(value: Value, _oid: int) -> Cell:
    """Microseconds since 1 January of year 0, by the Gregorian calendar."""
    text = str(value)
    if text in ("infinity", "-infinity"):
        return Cell(text)
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError("no moment")
    year = 1 - int(found["year"]) if found["bc"] else int(found["year"])
    days = _days(year, int(found["month"]), int(found["day"]))
    seconds = (days * 24 + int(found["hour"] or 0)) * 3600 + int(found["minute"] or 0) * 60 + int(found["second"] or 0)
    microseconds = int((found["fraction"] or "").ljust(6, "0"))
    return Cell(("moment", (seconds - _offset_s(found["zone"])) * 1_000_000 + microseconds))


def _days(year: int, month: int, day: int) -> int:
    """Days since 1 March of year 0: years begin in March, so that the leap day is their last."""
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1


def _offset_s(zone: str | None) -> int:
    if zone is None:
        return 0
    hours, minutes, seconds, *_ = (*map(int, zone[1:].split(":")), 0, 0)
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if zone[0] == "-" else 1)


def _clock(value: Value, _oid: int) -> Cell:
    return Cell(("time", re.sub(r"[+-]00$", "", str(value))))


def _interval(value: Value, _oid: int) -> Cell:
    return Cell(("interval", interval_parts(str(value)) or str(value)))


def _bytes(value: Value, _oid: int) -> Cell:
    return Cell(("bytes", bytes.fromhex(str(value).removeprefix("\\x"))))


def _boolean(value: Value, _oid: int) -> Cell:
    return Cell(("boolean", value))


def _json(value: Value, _oid: int) -> Cell:
    return _structure(json.loads(str(value), parse_float=Decimal))


def _structure(value: Any) -> Cell:
    match value:
        case dict():
            cells = [(key, _structure(value[key])) for key in sorted(value)]
            shape = "object", tuple((key, cell.shape) for key, cell in cells)
            return Cell(shape, tuple(number for _, cell in cells for number in cell.numbers))
        case list():
            return _listed("list", [_structure(item) for item in value])
        case bool() | None:
            return Cell(("constant", value))
        case str():
            return Cell(("string", value))
        case _:
            return _number(value, 0)


def _text(value: Value, oid: int) -> Cell:
    return Cell(("text", str(value).rstrip(" ") if oid == _BPCHAR else str(value)))


_FAMILIES: dict[int, tuple[str, Callable[[Value, int], Cell]]] = {
    **dict.fromkeys((20, 21, 23, 26, 700, 701, 1700), ("number", _number)),
    **dict.fromkeys((1082, 1114, 1184), ("moment", _moment)),
    **dict.fromkeys((1083, 1266), ("time of day", _clock)),
    **dict.fromkeys((114, 3802), ("json", _json)),
    16: ("boolean", _boolean),
    17: ("bytes", _bytes),
    1186: ("interval", _interval),
}
