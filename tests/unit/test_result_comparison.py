"""Tests: the `strict` comparison of results: what is the same, what is not, and laws that hold for any result."""

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmark_core.grading.compare import Rule, difference
from benchmark_core.postgres.query import Table

BOOL, BYTEA, INT8, INT4, TEXT, JSON, FLOAT4, FLOAT8 = 16, 17, 20, 23, 25, 114, 700, 701
BPCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID, JSONB = (
    1042, 1082, 1083, 1114, 1184, 1186, 1700, 2950, 3802,
)  # fmt: skip
INT4S, TEXTS, NUMERICS, DATES, FLOAT8S, JSONBS = 1007, 1009, 1231, 1182, 1022, 3807
SCALARS = (BOOL, BYTEA, INT8, INT4, TEXT, JSON, FLOAT4, FLOAT8, BPCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL,
           NUMERIC, UUID, JSONB)  # fmt: skip
JSONS = st.sampled_from(['{"a": [1, null, "x"]}', "1e400", '"\\ud800"', "[" * 3000, "0.1"])
ARRAYS = (INT4S, TEXTS, NUMERICS, DATES, FLOAT8S, JSONBS)


def one(oid: int, *texts: str | None) -> Table:
    """A result of one column."""
    return Table(("c",), (oid,), tuple((text,) for text in texts))


SAME = [
    (one(INT4, "1"), one(INT8, "1")),
    (one(INT4, "1"), one(NUMERIC, "1.000")),
    (one(NUMERIC, "19.98"), one(FLOAT8, "19.979999999999997")),
    (one(NUMERIC, "0.3333333333333333"), one(FLOAT8, "0.333333333333333")),
    (one(FLOAT4, "0.1"), one(FLOAT8, "0.1")),
    (one(FLOAT8, "-0"), one(FLOAT8, "0")),
    (one(NUMERIC, "NaN"), one(FLOAT8, "NaN")),
    (one(NUMERIC, "Infinity"), one(FLOAT8, "Infinity")),
    (one(NUMERIC, "9" * 400), one(NUMERIC, "9" * 400)),
    (one(TEXT, None), one(INT4, None)),
    (one(DATE, "2031-05-06"), one(TIMESTAMP, "2031-05-06 00:00:00")),
    (one(TIMESTAMPTZ, "2031-05-06 02:00:00+02"), one(TIMESTAMP, "2031-05-06 00:00:00")),
    (one(DATE, "0044-03-15 BC"), one(DATE, "0044-03-15 BC")),
    (one(TIMESTAMP, "infinity"), one(DATE, "infinity")),
    (one(INTERVAL, "1 day"), one(INTERVAL, "1 day")),
    (one(BPCHAR, "abc  "), one(TEXT, "abc")),
    (one(JSON, '{"a": 1, "b": 2.0}'), one(JSONB, '{"b": 2, "a": 1}')),
    (one(NUMERICS, "{1.50,NULL}"), one(NUMERICS, "{1.5,NULL}")),
    (one(INT4S, "{{1,2},{3,4}}"), one(INT4S, "{{1,2},{3,4}}")),
    (one(TEXTS, '{"a,b",c}'), one(TEXTS, '{"a,b","c"}')),
    (one(INT4), one(INT4)),
    (one(INT4), one(TEXT)),
    (one(TEXT, "b", "a", "b"), one(TEXT, "a", "b", "b")),
    (one(FLOAT8, "1", "1.0000000001"), one(FLOAT8, "1.00000000005", "1.0000000000999")),
]
APART = [
    (one(INT4, "1"), one(BOOL, "t")),
    (one(INT4, "1"), one(TEXT, "1")),
    (one(NUMERIC, "0.0012"), one(NUMERIC, "0.0049")),
    (one(NUMERIC, "2.67"), one(NUMERIC, "2.68")),
    (one(INT8, "9007199254740993"), one(INT8, "9007199254740992")),
    (one(FLOAT8, "1"), one(FLOAT8, "1.00000001")),
    (one(NUMERIC, "NaN"), one(NUMERIC, None)),
    (one(NUMERIC, "Infinity"), one(NUMERIC, "-Infinity")),
    (one(FLOAT8, "1e308"), one(FLOAT8, "Infinity")),
    (one(TEXT, ""), one(TEXT, None)),
    (one(TEXT, "a"), one(TEXT, "A")),
    (one(TEXT, "a "), one(TEXT, "a")),
    (one(TIMESTAMP, "2031-05-06 07:00:00"), one(TIMESTAMP, "2031-05-06 08:00:00")),
    (one(TEXT, "2031-05-06"), one(DATE, "2031-05-06")),
    (one(INTERVAL, "1 mon"), one(INTERVAL, "30 days")),
    (one(JSON, '{"a": 1}'), one(JSON, '{"a": "1"}')),
    (one(JSON, "[1, 2]"), one(JSON, "[2, 1]")),
    (one(INT4S, "{1,2}"), one(INT4S, "{{1,2}}")),
    (one(TEXTS, "{NULL}"), one(TEXTS, '{"NULL"}')),
    (one(INT4, "1", "1"), one(INT4, "1")),
    (one(INT4, "1", "1", "2"), one(INT4, "1", "2", "2")),
    (one(INT4), one(INT4, None)),
    (Table(("a", "b"), (INT4, INT4), (("1", "2"),)), Table(("a", "b"), (INT4, INT4), (("2", "1"),))),
    (Table(("a", "b"), (INT4, INT4), (("1", "2"),)), one(INT4, "1")),
    (Table(("c",), (INT4,), (("1",),), truncated=True), Table(("c",), (INT4,), (("1",),), truncated=True)),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_what_says_the_same_is_the_same(left: Table, right: Table) -> None:
    assert difference(left, right, Rule()) is None and difference(right, left, Rule()) is None


@pytest.mark.parametrize(("left", "right"), APART)
def test_what_says_something_else_is_not(left: Table, right: Table) -> None:
    assert difference(left, right, Rule()) and difference(right, left, Rule())


def test_order_matters_where_the_reference_sorts_and_ties_may_change_places() -> None:
    wanted = Table(("id", "by"), (INT4, TEXT), (("1", "a"), ("2", "a"), ("3", "b")))
    tied = Table(("id",), (INT4,), (("2",), ("1",), ("3",)))
    broken = Table(("id",), (INT4,), (("1",), ("3",), ("2",)))
    rule = Rule(order_keys=(1,), hidden=1)
    assert difference(tied, wanted, rule) is None
    assert difference(broken, wanted, rule) == "the rows differ, among rows 1 to 2"
    assert difference(tied, wanted, Rule(order_keys=(), hidden=1)) is not None


@pytest.mark.parametrize(("got", "same"), [("0.67", True), ("0.6666667", True), ("0.675", True), ("0.68", False)])
def test_a_reference_that_rounds_may_be_missed_by_half_a_unit(got: str, same: bool) -> None:
    assert (difference(one(NUMERIC, got), one(NUMERIC, "0.67"), Rule(places=(2,))) is None) is same


def cell(oid: int) -> st.SearchStrategy[str | None]:
    """Text as PostgreSQL prints it for a type, or as it never would."""
    moments = st.datetimes().map(lambda moment: moment.isoformat(" "))
    typed: dict[int, st.SearchStrategy[str]] = {
        **dict.fromkeys((INT4, INT8), st.integers(-(2**63), 2**63 - 1).map(str)),
        **dict.fromkeys((FLOAT4, FLOAT8), st.floats().map(_float)),
        NUMERIC: st.decimals(allow_nan=True).map(str) | st.just("1" + "0" * 5000),
        BOOL: st.sampled_from(["t", "f"]),
        BYTEA: st.binary().map(lambda data: "\\x" + data.hex()),
        DATE: st.dates().map(str) | st.sampled_from(["infinity", "0044-03-15 BC", "294276-01-01"]),
        **dict.fromkeys((TIMESTAMP,), moments),
        TIMESTAMPTZ: moments.map(lambda text: text + "+00"),
        TIME: st.times().map(str),
        INTERVAL: st.sampled_from(["1 mon", "-3 days", "1 year 2 mons 3 days 04:05:06.789", "00:00:00", "infinity"]),
        **dict.fromkeys((JSON, JSONB), JSONS),
    }  # fmt: skip
    return st.none() | typed.get(oid, st.nothing()) | st.text(max_size=12)


def _float(value: float) -> str:
    return "NaN" if math.isnan(value) else ("-" * (value < 0) + "Infinity" if math.isinf(value) else repr(value))


@st.composite
def tables(draw: st.DrawFn, oids: st.SearchStrategy[int] = st.sampled_from(SCALARS + ARRAYS)) -> Table:  # noqa: B008
    types = tuple(draw(st.lists(oids, min_size=1, max_size=3)))
    arrays = st.text('{},"\\NUL1.5-e', max_size=12)
    cells = [arrays | cell(oid) if oid in ARRAYS else cell(oid) for oid in types]
    rows = draw(st.lists(st.tuples(*cells), max_size=6))
    return Table(tuple("abc"[: len(types)]), types, tuple(rows))


NEAR = st.sampled_from(["1", "1.0000000001", "1.0000000005", "1.0000000015", "2", "NaN", "Infinity"])


@st.composite
def near_tables(draw: st.DrawFn) -> Table:
    rows = draw(st.lists(st.tuples(NEAR, NEAR), max_size=5))
    return Table(("a", "b"), (FLOAT8, FLOAT8), tuple(rows))


@settings(max_examples=400, deadline=None)
@given(table=tables() | near_tables(), data=st.data())
def test_any_result_equals_itself_in_any_order(table: Table, data: st.DataObject) -> None:
    assert difference(table, table, Rule()) is None
    shuffled = Table(table.columns, table.types, tuple(data.draw(st.permutations(table.rows))))
    assert difference(shuffled, table, Rule()) is None
    assert difference(table, table, Rule(order_keys=(0,))) is None
    assert difference(table, table, Rule(places=(2,) * len(table.columns))) is None


@example(left=one(INT4S, "NULL"), right=one(INT4S, ""))  # no array at all
@settings(max_examples=400, deadline=None)
@given(left=tables() | near_tables(), right=tables() | near_tables())
def test_comparison_is_symmetric_and_never_raises(left: Table, right: Table) -> None:
    there, back = difference(left, right, Rule()), difference(right, left, Rule())
    assert (there is None) == (back is None)
    difference(left, right, Rule(order_keys=(0,), places=(3,)))


@settings(max_examples=200, deadline=None)
@given(table=tables(), data=st.data())
def test_a_row_more_or_less_is_a_difference(table: Table, data: st.DataObject) -> None:
    if not table.rows:
        return
    more = Table(table.columns, table.types, (*table.rows, data.draw(st.sampled_from(table.rows))))
    assert difference(more, table, Rule()) and difference(table, more, Rule())


@settings(max_examples=100, deadline=None)
@given(table=tables(), data=st.data())
def test_order_counts_where_the_task_says_so(table: Table, data: st.DataObject) -> None:
    """With no keys known, only the same sequence is right: a swap of two rows that differ is seen."""
    rows: list[Any] = list(table.rows)
    pairs = [
        (i, j)
        for i in range(len(rows))
        for j in range(i)
        if difference(one_row(table, i), one_row(table, j), Rule()) is not None
    ]
    if not pairs:
        return
    i, j = data.draw(st.sampled_from(pairs))
    rows[i], rows[j] = rows[j], rows[i]
    swapped = Table(table.columns, table.types, tuple(rows))
    assert difference(swapped, table, Rule(order_keys=())) is not None
    assert difference(swapped, table, Rule()) is None


def one_row(table: Table, at: int) -> Table:
    return Table(table.columns, table.types, (table.rows[at],))
