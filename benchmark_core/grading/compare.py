"""Benchmark core: the `strict` comparison of two results: typed, with every row counted, and tolerant by rule only.

- Columns are compared by position and must be of one family (`values`); their names do not matter. A column without
  any value fits every family.
- Rows count as often as they come. Their order matters where the task says so and the reference sorts: rows that its
  keys leave tied may come in any order.
- Numbers: integers, and `numeric` with up to 9 decimals, are exact; all others agree within a relative 1e-9 (`real`:
  1e-6) or an absolute 1e-12. Where the reference rounds, the prediction may be off by half a unit of its last place.
- NULL equals NULL only, NaN itself; two empty results are equal; a result that was cut at the caps equals nothing.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from benchmark_core.grading.values import Cell, Number, family, read
from benchmark_core.postgres.query import Table

ABSOLUTE = 1e-12
_MATCHED_ROWS = 4_000
"""Rows alike but for their numbers that are matched each with each; more are only paired in sorted order."""
_SORT_DIGITS = 8  # so that noise in one number does not decide before the next one


@dataclass(frozen=True, slots=True)
class Rule:
    """How results compare with a reference's.

    Attributes:
        order_keys: the reference's columns that its rows are sorted by, where order matters: rows with equal keys may
            change places; `()`: none may. None: order does not matter.
        hidden: columns at the end of the reference's result that are there as keys only.
        places: per visible column the decimals that the reference rounds to; None where it does not. Shorter: None.
    """

    order_keys: tuple[int, ...] | None = None
    hidden: int = 0
    places: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reading:
    """A result's rows, column by column, as cells."""

    columns: list[list[Cell]]
    rows: int

    @classmethod
    def of(cls, table: Table, width: int) -> "_Reading":
        types = table.types[:width]
        return cls([[read(row[at], oid) for row in table.rows] for at, oid in enumerate(types)], len(table.rows))

    def empty(self, column: int) -> bool:
        return all(cell.shape is None for cell in self.columns[column])


_Row = tuple[Hashable, tuple[Number, ...]]
"""What must be the same, and the numbers that may be off."""


def difference(got: Table, expected: Table, rule: Rule) -> str | None:
    """How a result differs from the reference's, without any value; None when it does not."""
    width = len(expected.columns) - rule.hidden
    if got.truncated or expected.truncated:
        return "more rows, or more data, than is compared"
    if len(got.columns) != width:
        return f"{len(got.columns)} columns where there should be {width}"
    if len(got.rows) != len(expected.rows):
        return f"{len(got.rows)} rows where there should be {len(expected.rows)}"
    left, right = _Reading.of(got, width), _Reading.of(expected, width)
    for at in range(width):
        found, wanted = family(got.types[at]), family(expected.types[at])
        if found != wanted and not left.empty(at) and not right.empty(at):
            return f"column {at + 1} is {found} where it should be {wanted}"

    slack = [_slack(rule.places[at] if at < len(rule.places) else None) for at in range(width)]
    exact = [not slack[at] and _exact(left.columns[at]) and _exact(right.columns[at]) for at in range(width)]
    rows = list(_rows(left, exact)), list(_rows(right, exact))
    slacks = list(_slacks(right, exact, slack)) if any(slack) else [()] * right.rows
    for begin, end in _blocks(expected, rule.order_keys):
        if not _same_rows(rows[0][begin:end], rows[1][begin:end], slacks[begin:end]):
            where = "" if rule.order_keys is None else f", among rows {begin + 1} to {end}"
            return f"the rows differ{where}"
    return None


def _slack(places: int | None) -> float:
    return 0.0 if places is None else 0.5 * 10.0 ** -max(-300, min(places, 300))


def _exact(column: list[Cell]) -> bool:
    return not any(number.tolerance for cell in column for number in cell.numbers)


def _rows(reading: _Reading, exact: list[bool]) -> Iterator[_Row]:
    for at in range(reading.rows):
        cells = [column[at] for column in reading.columns]
        key = tuple(
            (cell.shape, tuple(number.value for number in cell.numbers)) if settled else cell.shape
            for cell, settled in zip(cells, exact, strict=True)
        )
        loose = zip(cells, exact, strict=True)
        yield key, tuple(number for cell, settled in loose if not settled for number in cell.numbers)


def _slacks(reading: _Reading, exact: list[bool], slack: list[float]) -> Iterator[tuple[float, ...]]:
    """By how much more each loose number of a row may be off."""
    for at in range(reading.rows):
        cells = [column[at] for column in reading.columns]
        found = zip(cells, exact, slack, strict=True)
        yield tuple(more for cell, settled, more in found if not settled for _ in cell.numbers)


def _blocks(expected: Table, keys: tuple[int, ...] | None) -> Iterator[tuple[int, int]]:
    """Runs of rows that may change places with each other."""
    count = len(expected.rows)
    if keys is None:
        yield 0, count
        return
    sorted_by = [tuple(read(row[key], expected.types[key]) for key in keys) for row in expected.rows]
    begin = 0
    for at in range(1, count + 1):
        if at == count or not keys or sorted_by[at] != sorted_by[begin]:
            yield begin, at
            begin = at


def _same_rows(got: Sequence[_Row], expected: Sequence[_Row], slacks: Sequence[tuple[float, ...]]) -> bool:
    """Whether each row has one of its own on the other side."""
    groups: dict[Hashable, tuple[list[tuple[Number, ...]], list[tuple[Number, ...]]]] = defaultdict(lambda: ([], []))
    allowed: dict[Hashable, tuple[float, ...]] = {}
    for key, numbers in got:
        groups[key][0].append(numbers)
    for (key, numbers), slack in zip(expected, slacks, strict=True):
        groups[key][1].append(numbers)
        allowed[key] = slack or (0.0,) * len(numbers)
    return all(len(left) == len(right) and _pair_up(left, right, allowed[key]) for key, (left, right) in groups.items())


def _pair_up(left: list[tuple[Number, ...]], right: list[tuple[Number, ...]], slack: tuple[float, ...]) -> bool:
    """Whether rows with the same shape and the same exact cells can be paired. `slack` is per number."""
    if not slack:
        return True

    def place(numbers: tuple[Number, ...]) -> tuple[float, ...]:
        return tuple(_rounded(_float(number), more) for number, more in zip(numbers, slack, strict=True))

    pairs = zip(sorted(left, key=place), sorted(right, key=place), strict=True)
    if all(all(map(_near, a, b, slack)) for a, b in pairs):
        return True
    return 1 < len(left) <= _MATCHED_ROWS and _matched(left, right, slack)


def _rounded(value: float, slack: float) -> float:
    if not math.isfinite(value):
        return value
    return round(value / (2 * slack)) * 2 * slack if slack > abs(value) * 1e-15 else float(f"{value:.{_SORT_DIGITS}g}")


def _float(number: Number) -> float:
    try:
        return float(number.value)
    except OverflowError:
        return math.inf if number.value > 0 else -math.inf


def _near(a: Number, b: Number, slack: float) -> bool:
    tolerance = max(a.tolerance, b.tolerance)
    if a.value == b.value or not (tolerance or slack):
        return a.value == b.value
    x, y = _float(a), _float(b)
    if math.isinf(x) or math.isinf(y):
        return False  # beyond what a double holds there is no tolerance
    return abs(x - y) <= max(ABSOLUTE, tolerance * max(abs(x), abs(y)), slack * (1 + 1e-9))


def _matched(left: list[tuple[Number, ...]], right: list[tuple[Number, ...]], slack: tuple[float, ...]) -> bool:
    """Whether a perfect matching exists: rows that are off by a little may sort differently."""
    near = np.ones((len(left), len(right)), dtype=bool)
    for at, more in enumerate(slack):
        a, b = (np.array([_float(row[at]) for row in side]) for side in (left, right))
        loose_a, loose_b = (np.array([row[at].tolerance for row in side]) for side in (left, right))
        tolerance = np.maximum(loose_a[:, None], loose_b[None, :])
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.maximum(tolerance * np.maximum(abs(a)[:, None], abs(b)[None, :]), more * (1 + 1e-9))
            reach[reach > 0] = np.maximum(reach[reach > 0], ABSOLUTE)
            near &= (abs(a[:, None] - b[None, :]) <= reach) | (a[:, None] == b[None, :])
    found = maximum_bipartite_matching(csr_array(near), perm_type="column")
    return bool((found >= 0).all())
