"""Tests: what PostgreSQL 14 does not have is found, and the open suite has none of it."""

import pytest

from benchmark_core.sql.portability import newer_than_oldest
from guard.audit_static import portability
from suites.load import OPEN, load


@pytest.mark.parametrize(
    ("sql", "version"),
    [
        ("SELECT any_value(x) FROM t", 16),
        ("SELECT count(*), ANY_VALUE (x) FROM t GROUP BY y", 16),
        ("SELECT regexp_count(a, 'b') FROM t", 15),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE", 15),
        ("CREATE TABLE t (a int UNIQUE NULLS NOT DISTINCT)", 15),
        ("CREATE VIEW v WITH (security_invoker = true) AS SELECT 1", 15),
        ("SELECT * FROM t WHERE a IS JSON", 16),
        ("SELECT 1_000_000", 16),
        ("SELECT 0xff", 16),
        ("SELECT * FROM (SELECT 1)", 16),
        ("SELECT * FROM t JOIN (SELECT 1 AS a) USING (a)", 16),
        ("SELECT json_value(j, '$.a') FROM t", 17),
        ("SELECT uuidv7()", 18),
        ("UPDATE t SET a = 1 RETURNING OLD.a", 18),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT any_value(x) FROM t $$", 16),
    ],
)
def test_what_came_later_is_found(sql: str, version: int) -> None:
    assert version in [since for _, since in newer_than_oldest(sql)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'any_value(x)', \"uuidv7\" FROM t -- MERGE INTO",
        "SELECT mine.any_value(x) FROM t",
        "SELECT any_value FROM t",
        "SELECT * FROM (SELECT 1) AS a, LATERAL (SELECT 2) b",
        "SELECT a FROM t WHERE (SELECT 1) = 1 AND a IN (SELECT 2)",
        "SELECT 1000, 1.5e3, x_1, a1_2 FROM t",
        "SELECT date_bin('1 hour', a, b), string_to_table('a,b', ','), gen_random_uuid() FROM t",
        "WITH a AS (SELECT 1) SELECT * FROM a JOIN b ON a.merge = b.into",
        "this is 'no SQL",
    ],
)
def test_what_14_has_is_let_be(sql: str) -> None:
    assert list(newer_than_oldest(sql)) == []


def test_the_open_suite_keeps_to_14() -> None:
    suite = load(OPEN)
    assert list(portability(suite.databases.values(), suite.tasks)) == []
