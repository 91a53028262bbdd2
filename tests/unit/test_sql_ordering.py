"""Tests: sort keys made visible, and the decimals that a query rounds to."""

import pytest

from benchmark_core.sql.ordering import visible_order
from benchmark_core.sql.rounding import places


@pytest.mark.parametrize(
    ("sql", "expected", "keys"),
    [
        ("SELECT a, b FROM t ORDER BY b DESC, 1", "SELECT a, b FROM t ORDER BY b DESC, 1", (1, 0)),
        ("SELECT a FROM t ORDER BY c NULLS LAST;", "SELECT a, (c) FROM t ORDER BY c NULLS LAST;", (-1,)),
        (
            "SELECT a -- why\nFROM t ORDER BY lower(c) USING >, d + 1 DESC NULLS FIRST LIMIT 3",
            "SELECT a, (lower(c)), (d + 1) -- why\nFROM t ORDER BY lower(c) USING >, d + 1 DESC NULLS FIRST LIMIT 3",
            (-2, -1),
        ),
        ("SELECT t.*, x + 1 AS y FROM t ORDER BY y", "SELECT t.*, x + 1 AS y, (x + 1) FROM t ORDER BY y", (-1,)),
        ('SELECT count(*) "N" FROM t ORDER BY "N"', 'SELECT count(*) "N" FROM t ORDER BY "N"', (0,)),
        ("SELECT t.a FROM t ORDER BY A", "SELECT t.a FROM t ORDER BY A", (0,)),
        ("SELECT sum(x) s FROM t ORDER BY sum(x)", "SELECT sum(x) s FROM t ORDER BY sum(x)", (0,)),
        ("WITH c AS (SELECT 1 AS a) SELECT a FROM c ORDER BY a", None, (0,)),
        ("SELECT DISTINCT a FROM t ORDER BY a", None, (0,)),
        ("SELECT DISTINCT ON (a) a FROM t ORDER BY a,c", "SELECT DISTINCT ON (a) a, (c) FROM t ORDER BY a,c", (0, -1)),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER BY a", None, ()),
        ("VALUES (1), (2) ORDER BY column1", None, ()),
    ],
)  # fmt: skip
def test_sort_keys_are_appended_or_pointed_at(sql: str, expected: str | None, keys: tuple[int, ...]) -> None:
    order = visible_order(sql)
    assert order is not None
    assert order.sql == (expected or sql)
    assert order.keys == keys


@pytest.mark.parametrize(
    "sql", ["SELECT a FROM t", "SELECT rank() OVER (ORDER BY a)", "", "SELECT 'x", "SELECT (SELECT 1 ORDER BY 1)"]
)  # fmt: skip
def test_a_query_that_does_not_sort_has_no_order(sql: str) -> None:
    assert visible_order(sql) is None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT ROUND(x, 2), y, ROUND(z) FROM t", (2, None, 0)),
        ("SELECT COALESCE(ROUND(AVG(x)::numeric, 3), 0) AS a, (x::numeric(10, 2)) FROM t", (3, 2)),
        ("SELECT CAST(x AS DECIMAL(8, 1))::float, ROUND(x, -2), 1 + ROUND(x, 2) FROM t", (1, -2, None)),
        ("SELECT ROUND(x, n) FROM t", (None,)),
        ("SELECT ROUND(x, 2) FROM t UNION SELECT 1", ()),
        ("SELECT *, ROUND(x, 2) FROM t", ()),
        ("not SQL (", ()),
    ],
)
def test_rounding_is_read_from_the_outer_select_list(sql: str, expected: tuple[int | None, ...]) -> None:
    assert places(sql, len(expected) or 2) == expected
