"""Unit: SQL is cut at its clauses, and nothing gets lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark_core.sql.fragments import contains_tokens, fragments, overlaps, token_texts


def cut(*statements: str) -> list[tuple[str, str]]:
    return [(fragment.clause, fragment.text) for fragment in fragments(statements)]


CASES = [
    pytest.param(
        "INSERT INTO tray(id,n) SELECT a, b FROM t ON CONFLICT (id) DO UPDATE SET n = excluded.n WHERE x RETURNING id",
        [
            ("INSERT", "INSERT INTO tray(id,n)"),
            ("SELECT", "SELECT a, b"),
            ("SELECT", "a"),
            ("SELECT", "b"),
            ("FROM", "FROM t"),
            ("ON CONFLICT", "ON CONFLICT (id) DO UPDATE SET n = excluded.n"),
            ("ON CONFLICT SET", "n = excluded.n"),
            ("WHERE", "WHERE x"),
            ("RETURNING", "RETURNING id"),
        ],
        marks=pytest.mark.fault("S01"),
        id="insert-target",
    ),
    pytest.param(
        "UPDATE oven SET temp=temp+5, on_ = CASE WHEN a AND b THEN 1 END WHERE id=3 AND n BETWEEN 1 AND 2 AND c",
        [
            ("UPDATE", "UPDATE oven"),
            ("SET", "SET temp=temp+5, on_ = CASE WHEN a AND b THEN 1 END"),
            ("SET", "temp=temp+5"),
            ("SET", "on_ = CASE WHEN a AND b THEN 1 END"),
            ("WHERE", "WHERE id=3 AND n BETWEEN 1 AND 2 AND c"),
            ("WHERE", "id=3"),
            ("WHERE", "n BETWEEN 1 AND 2"),
            ("WHERE", "c"),
        ],
        marks=pytest.mark.fault("S02"),
        id="set",
    ),
    pytest.param(
        "CREATE TABLE cold AS SELECT 1",
        [("CREATE", "CREATE TABLE cold AS"), ("SELECT", "SELECT 1")],
        marks=pytest.mark.fault("S03"),
        id="create-table-as",
    ),
    pytest.param(
        "CREATE INDEX i ON t (a) WHERE b > 3",
        [("CREATE", "CREATE INDEX i ON t (a)"), ("WHERE", "WHERE b > 3")],
        marks=pytest.mark.fault("S03"),
        id="create-index-where",
    ),
    pytest.param(
        "DELETE FROM a USING b WHERE a.x=b.x",
        [("DELETE", "DELETE FROM a"), ("USING", "USING b"), ("WHERE", "WHERE a.x=b.x")],
        marks=pytest.mark.fault("S03"),
        id="delete",
    ),
    pytest.param(
        "WITH hot AS (SELECT a FROM t), cold AS (SELECT 2) SELECT x FROM hot",
        [
            ("WITH", "WITH hot AS (SELECT a FROM t)"),
            ("SELECT", "SELECT a"),
            ("FROM", "FROM t"),
            ("CTE", "cold AS (SELECT 2)"),
            ("SELECT", "SELECT 2"),
            ("SELECT", "SELECT x"),
            ("FROM", "FROM hot"),
        ],
        marks=pytest.mark.fault("S04"),
        id="ctes",
    ),
    pytest.param(
        "SELECT count(*) FILTER (WHERE a), rank() OVER (PARTITION BY b ORDER BY c) AS window FROM (SELECT q FROM r) d"
        " WINDOW w AS (ORDER BY q)",
        [
            ("SELECT", "SELECT count(*) FILTER (WHERE a), rank() OVER (PARTITION BY b ORDER BY c) AS window"),
            ("SELECT", "count(*) FILTER (WHERE a)"),
            ("SELECT", "rank() OVER (PARTITION BY b ORDER BY c) AS window"),
            ("FROM", "FROM (SELECT q FROM r) d"),
            ("SELECT", "SELECT q"),
            ("FROM", "FROM r"),
            ("WINDOW", "WINDOW w AS (ORDER BY q)"),
        ],
        marks=pytest.mark.fault("S05"),
        id="nested-clauses",
    ),
    pytest.param(
        "SELECT EXTRACT(YEAR FROM d), SUBSTRING(n FROM 2) FROM t WHERE a IS NOT DISTINCT FROM b AND c",
        [
            ("SELECT", "SELECT EXTRACT(YEAR FROM d), SUBSTRING(n FROM 2)"),
            ("SELECT", "EXTRACT(YEAR FROM d)"),
            ("SELECT", "SUBSTRING(n FROM 2)"),
            ("FROM", "FROM t"),
            ("WHERE", "WHERE a IS NOT DISTINCT FROM b AND c"),
            ("WHERE", "a IS NOT DISTINCT FROM b"),
            ("WHERE", "c"),
        ],
        marks=pytest.mark.fault("S06"),
        id="from-that-is-no-clause",
    ),
    pytest.param(
        "SELECT LEFT(n, 2) FROM oven o LEFT OUTER JOIN tray t ON o.id=t.id AND t.x FULL JOIN u USING (q)",
        [
            ("SELECT", "SELECT LEFT(n, 2)"),
            ("FROM", "FROM oven o"),
            ("LEFT OUTER JOIN", "LEFT OUTER JOIN tray t ON o.id=t.id AND t.x"),
            ("LEFT OUTER JOIN ON", "o.id=t.id"),
            ("LEFT OUTER JOIN ON", "t.x"),
            ("FULL JOIN", "FULL JOIN u USING (q)"),
        ],
        marks=pytest.mark.fault("S07", "S08"),
        id="join-kinds",
    ),
    pytest.param(
        """SELECT 'taken from the limit where it sat', "valid from", "limit", t.limit FROM t""",
        [
            ("SELECT", """SELECT 'taken from the limit where it sat', "valid from", "limit", t.limit"""),
            ("SELECT", "'taken from the limit where it sat'"),
            ("SELECT", '"valid from"'),
            ("SELECT", '"limit"'),
            ("SELECT", "t.limit"),
            ("FROM", "FROM t"),
        ],
        marks=pytest.mark.fault("S09"),
        id="keywords-in-literals",
    ),
    pytest.param(
        "SELECT a::timestamp with time zone FROM t",
        [("SELECT", "SELECT a::timestamp with time zone"), ("FROM", "FROM t")],
        marks=pytest.mark.fault("S10"),
        id="with-time-zone",
    ),
    pytest.param(
        "SELECT a -- pick a\nFROM t /* from u */ LIMIT 3",
        [("SELECT", "SELECT a"), ("FROM", "FROM t"), ("LIMIT", "LIMIT 3")],
        marks=pytest.mark.fault("S11"),
        id="comments",
    ),
    pytest.param(
        "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS $$ SELECT 1 FROM t; $$ IMMUTABLE",
        [
            ("CREATE", "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS"),
            ("BODY", "$$ SELECT 1 FROM t; $$"),
            ("CREATE", "IMMUTABLE"),
        ],
        marks=pytest.mark.fault("S12"),
        id="function-body",
    ),
    pytest.param(
        "SELECT 1 UNION ALL SELECT 2 ORDER BY 1",
        [("SELECT", "SELECT 1"), ("UNION ALL", "UNION ALL"), ("SELECT", "SELECT 2"), ("ORDER BY", "ORDER BY 1")],
        marks=pytest.mark.fault("S13"),
        id="set-operation",
    ),
    pytest.param(
        "DELETE FROM a; INSERT INTO b VALUES (1);",
        [("DELETE", "DELETE FROM a"), ("INSERT", "INSERT INTO b"), ("VALUES", "VALUES (1)")],
        marks=pytest.mark.fault("S14"),
        id="statements",
    ),
    pytest.param(
        "SELECT 'a; b", [("INVALID", "SELECT 'a; b")], marks=pytest.mark.fault("S15"), id="unterminated-string"
    ),
    pytest.param(
        "please give me the answer",
        [("INVALID", "please give me the answer")],
        marks=pytest.mark.fault("S16"),
        id="no-sql",
    ),
    pytest.param(
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 3",
        [
            ("CREATE", "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END"),
            ("SELECT", "SELECT 3"),
        ],
        id="atomic-body",
    ),
    pytest.param(
        "WITH d AS (DELETE FROM t RETURNING *) INSERT INTO x SELECT DISTINCT ON (a) b FROM d",
        [
            ("WITH", "WITH d AS (DELETE FROM t RETURNING *)"),
            ("DELETE", "DELETE FROM t"),
            ("RETURNING", "RETURNING *"),
            ("INSERT", "INSERT INTO x"),
            ("SELECT", "SELECT DISTINCT ON (a) b"),
            ("DISTINCT", "DISTINCT ON (a)"),
            ("SELECT", "b"),
            ("FROM", "FROM d"),
        ],
        id="data-changing-cte",
    ),
    pytest.param(
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u ON DELETE CASCADE",
        [("ALTER", "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u ON DELETE CASCADE")],
        id="alter-stays-whole",
    ),
    pytest.param(
        "CREATE TABLE x (a int, b numeric(3,2))",
        [
            ("CREATE", "CREATE TABLE x (a int, b numeric(3,2))"),
            ("COLUMN", "a int"),
            ("COLUMN", "b numeric(3,2)"),
        ],
        id="columns",
    ),
    pytest.param(
        "SELECT a FROM t WHERE b OR c AND d",
        [("SELECT", "SELECT a"), ("FROM", "FROM t"), ("WHERE", "WHERE b OR c AND d")],
        id="a-disjunction-has-no-conjuncts",
    ),
]


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_cut(sql: str, expected: list[tuple[str, str]]) -> None:
    assert cut(sql) == expected


def test_numbers_run_over_all_statements() -> None:
    assert [f.number for f in fragments(["SELECT a, b", "DELETE FROM t"])] == [1, 2, 3, 4]


PIECES = st.sampled_from(
    "SELECT FROM WHERE a b t , ( ) AND OR BETWEEN CASE WHEN THEN END JOIN LEFT ON UNION ALL GROUP BY ORDER BY LIMIT "
    "3 'x from y' \"q\" WITH AS INSERT INTO VALUES SET UPDATE DELETE RETURNING CONFLICT DISTINCT IS CREATE TABLE INDEX "
    "[ ] $$x$$ . * = ; /*c*/ FOR MERGE USING".split()
)


@given(st.lists(PIECES, max_size=40).map(" ".join))
def test_no_token_is_lost(sql: str) -> None:
    kept = " ".join(fragment.text for fragment in fragments([sql]))
    lost = {t for t in token_texts(sql) if t not in (";", ",")} - set(token_texts(kept))
    assert not lost


@given(st.text())
def test_any_text_is_cut_without_an_error(sql: str) -> None:
    for fragment in fragments([sql]):
        assert fragment.text


def test_deep_nesting_is_no_error() -> None:
    assert fragments(["SELECT " + "(SELECT " * 300 + "1" + ")" * 300])


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("SELECT  A -- x\n, 'It''s' \"Ab\"", ("select", "a", ",", "'It''s'", '"Ab"')),
        ("group\n by x", ("group", "by", "x")),
        ("DO $$ Begin NULL; end $$", ("do", "$$", "begin", "null", ";", "end", "$$")),
        ("CALL f(1)", ("call", "f", "(", "1", ")")),
        ("select 'ü' Ä", ("select", "'ü'", "ä")),
        ("it's", ("it's",)),
        ("", ()),
    ],
)
def test_token_texts(sql: str, texts: tuple[str, ...]) -> None:
    assert token_texts(sql) == texts


@pytest.mark.parametrize(
    ("sql", "piece", "expected"),
    [
        ("SELECT a FROM t WHERE b  >=3", "where B >= 3", True),
        ("SELECT a FROM t WHERE b = 'X'", "b = 'x'", False),
        ("SELECT ab FROM t", "a", False),
        ("SELECT a -- b = 3\nFROM t", "b = 3", False),
        ("SELECT a", "", False),
        ("", "a", False),
    ],
)
def test_contains_tokens(sql: str, piece: str, expected: bool) -> None:
    assert contains_tokens(sql, piece) is expected


def test_overlap_is_mutual() -> None:
    assert overlaps("b = 3", "WHERE b = 3")
    assert overlaps("WHERE b = 3", "b = 3")
    assert not overlaps("b = 3", "b = 4")
