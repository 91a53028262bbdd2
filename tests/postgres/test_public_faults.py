"""Tests: faults of the public grader, by their numbers: `official` repeats them, `strict` is free of them."""

import asyncio
from dataclasses import dataclass

import pytest
from graders import grade, management, query, task, with_grader

from benchmark_core.grading.grade import Grader
from benchmark_core.grading.outcome import Grade, Outcome
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.server import Server

BUILD = """
CREATE TABLE sale (id int PRIMARY KEY, shop text, qty int, price numeric(10, 2), seen timestamp, note text);
INSERT INTO sale VALUES
 (1, 'A', 3, 2.00, '2031-05-06 07:00', 'a distinct smell'), (2, 'A', 5, 1.50, '2031-05-06 08:00', 'all-round (best)'),
 (3, 'B', 1, 9.99, '2031-05-06 09:00', NULL), (4, 'B', 1, 9.99, '2031-05-06 10:00', ''),
 (5, 'C', 8, 0.25, '2031-05-06 11:00', 'x');
CREATE FUNCTION my_round(n numeric, places int) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT trunc(n, places)';
CREATE TABLE archive (id int, shop text);
"""
FIELD = {"B01": "D38", "B09": "D39", "B14": "D40", "B21": "D44", "B27": "D42", "B28": "D41"}
"""The same in the notes on the field."""
OUTCOMES = {
    "pass": {Outcome.PASSED},
    "fail": {Outcome.MISMATCH, Outcome.EXECUTION_ERROR},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A submission and the reference; `wrong`: the public grader passes what is wrong, else it fails what is right."""

    fault: str
    prediction: str
    reference: str
    wrong: bool = False
    order: bool = False


def same(fault: str, statement: str) -> Case:
    """The reference itself, which the public grader fails."""
    return Case(fault, statement, statement)


CASES = [
    same("B01", "SELECT id FROM sale WHERE note IS DISTINCT FROM 'x'"),
    same("B02", "SELECT DISTINCT ON (shop) shop, id FROM sale ORDER BY shop, id"),
    Case("B03", "SELECT count(shop) FROM sale", "SELECT count( DISTINCT shop) FROM sale", wrong=True),
    Case("B03", "SELECT count(DISTINCT shop) FROM sale", "SELECT count( DISTINCT shop) FROM sale"),
    Case("B04", "SELECT count(*) FROM sale", "SELECT count(*) FROM (SELECT DISTINCT shop FROM sale) AS s", wrong=True),
    Case("B05", "SELECT shop FROM sale ORDER BY shop LIMIT 2", "SELECT DISTINCT shop FROM sale ORDER BY shop LIMIT 2",
         wrong=True),
    same("B06", "SELECT id FROM sale WHERE note = 'a distinct smell'"),
    Case("B07", "SELECT\nDISTINCT shop FROM sale ORDER BY shop", "SELECT DISTINCT shop FROM sale ORDER BY shop",
         order=True),
    Case("B08", "SELECT shop FROM sale ORDER BY shop", "SELECT DISTINCT shop FROM sale ORDER BY shop", wrong=True,
         order=True),
    same("B09", "SELECT 'x -- y'\n AS v"),
    Case("B09", "SELECT 'x -- y' || chr(10) || 'z'", "SELECT $$x -- y\nz$$"),
    Case("B10", "SELECT '/' || '* keep */ me'", "SELECT '/* keep */ me'"),
    Case("B11", "SELECT '/* wrong */ok'", "SELECT 'ok'", wrong=True),
    same("B12", "SELECT /* a /* b */ c */ 1"),
    Case("B13", "SELECT concat('a', repeat(chr(10), 3), 'b')", "SELECT 'a\n\n\nb'"),
    same("B14", "SELECT my_round(2.346, 2)"),
    Case("B15", "SELECT price + qty * 100 FROM sale", "SELECT ROUND(price + qty, 2) * 100 FROM sale", wrong=True),
    Case("B16", "SELECT 12.00", "SELECT 10 -ROUND(-price) FROM sale WHERE id = 1"),
    same("B17", "SELECT ROUND(price, 1)AS p FROM sale"),
    Case("B18", "SELECT id FROM sale WHERE price = 2", "SELECT id FROM sale WHERE ROUND(price) = 2", wrong=True),
    same("B19", "SELECT id FROM sale WHERE note = 'all-round (best)'"),
    Case("B20", "SELECT (price / 3)::numeric(10, 1) FROM sale", "SELECT ROUND(price / 3, 1) FROM sale"),
    Case("B21", "SELECT min(seen) FROM sale", "SELECT max(seen) FROM sale", wrong=True),
    Case("B22", "SELECT 0.0012", "SELECT 0.0049", wrong=True),
    Case("B23", "SELECT sum(price::float8) FROM sale WHERE shop = 'B'", "SELECT sum(price) FROM sale WHERE shop = 'B'"),
    same("B24", "SELECT 'NaN'::numeric"),
    same("B24", "SELECT 'Infinity'::numeric"),
    same("B25", "SELECT array_agg(price ORDER BY id) FROM sale"),
    Case("B26", "SELECT interval '1 month'", "SELECT interval '30 days'", wrong=True),
    Case("B26", "SELECT true", "SELECT 1", wrong=True),
    same("B26", "SELECT date '0044-03-15 BC'"),
    Case("B27", "SELECT shop FROM sale UNION ALL SELECT shop FROM sale", "SELECT shop FROM sale", wrong=True),
    same("B28", "SELECT id FROM sale WHERE qty > 99"),
    Case("B28", "SELECT id FROM sale ORDER BY shop, id DESC", "SELECT id FROM sale ORDER BY shop", order=True),
    Case("B29", "SELECT generate_series(1, 10000)", "SELECT generate_series(1, 10001)", wrong=True),
    Case("B29", "SELECT n FROM generate_series(1, 10001) n ORDER BY n DESC", "SELECT generate_series(1, 10001)"),
    Case("B31", "CREATE TEMP TABLE t AS SELECT 5::bigint AS n; SELECT n FROM t", "SELECT count(*) FROM sale"),
    Case("B31", "CREATE VIEW v AS SELECT 5::bigint AS n; SELECT n FROM v", "SELECT count(*) FROM sale"),
]  # fmt: skip


@pytest.fixture(scope="module", params=["embedded", "debian"])
def graded(request: pytest.FixtureRequest) -> list[Grade]:
    """All cases, eight at a time, on 18 and on 15."""
    found = request.getfixturevalue(request.param)
    server = found if isinstance(found, Server) else servers.external(found)
    slots = asyncio.Semaphore(8)

    async def one(grades: Grader, case: Case) -> Grade:
        async with slots, grades.task(task(query(case.reference, order=case.order))) as opened:
            return await opened.grade(1, (case.prediction,))

    async def work(grades: Grader) -> list[Grade]:
        return list(await asyncio.gather(*(one(grades, case) for case in CASES)))

    return asyncio.run(with_grader(lambda: server, {"db": BUILD}, work))


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(n, id=f"{case.fault}-{n}", marks=pytest.mark.fault(case.fault, FIELD.get(case.fault, case.fault)))
        for n, case in enumerate(CASES)
    ],
)  # fmt: skip
def test_official_repeats_a_fault_that_strict_is_free_of(graded: list[Grade], number: int) -> None:
    case, found = CASES[number], graded[number]
    public, right = ("pass", "fail") if case.wrong else ("fail", "pass")
    assert found.official.outcome in OUTCOMES[public], (case, found)
    assert found.strict.outcome in OUTCOMES[right], (case, found)


@pytest.mark.fault("B30")
def test_data_is_changed_within_a_with_query(embedded: Server) -> None:
    statement = "WITH s AS (SELECT 7 AS id) INSERT INTO archive SELECT id, 'x' FROM s"
    oracle = task(management(statement, **{"SELECT id FROM archive": [(7,)]}))
    assert grade(embedded, oracle, statement, build=BUILD).strict.outcome is Outcome.PASSED


@pytest.mark.fault("B36")
@pytest.mark.parametrize("statement", ["VACUUM sale", "CREATE INDEX CONCURRENTLY fast ON sale (shop)"])
def test_statements_that_no_transaction_may_hold(embedded: Server, statement: str) -> None:
    script = ("CREATE TABLE done (x int)", statement)
    oracle = task(management(*script, **{"SELECT count(*) FROM pg_class WHERE relname = 'done'": [(1,)]}))
    assert grade(embedded, oracle, *script, build=BUILD).strict.outcome is Outcome.PASSED


@pytest.mark.fault("B43")
def test_a_statement_that_cancels_itself_was_not_slow(embedded: Server) -> None:
    found = grade(embedded, task(query("SELECT true")), "SELECT pg_cancel_backend(pg_backend_pid())", build=BUILD)
    assert found.strict.outcome is Outcome.EXECUTION_ERROR
