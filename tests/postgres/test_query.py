"""Tests of running hostile SQL on a real server: values, errors, caps, and deadlines that the SQL cannot move."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TypeVar

import pytest

from benchmark_core.errors import QueryError, QueryTimeout, ServerError
from benchmark_core.postgres.query import Session, Table, connect, fetch, rows_match, run_script
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import workspace
from benchmark_core.postgres.wire import MAX_BYTES, Value

T = TypeVar("T")
FLOOD = "SELECT repeat('x', 9999) FROM item a, generate_series(1, 1e9)"
TRAP = """
SET statement_timeout = 0;
DO $$ BEGIN
  LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;
END $$
"""


def play(server: Server, work: Callable[[Session], Awaitable[T]]) -> T:
    """Run `work` as a trial's role in a small database."""

    async def main() -> T:
        async with workspace(server) as space:
            template = await space.template("CREATE TABLE item (id int, name text); INSERT INTO item VALUES (1, 'a')")
            async with space.clone(template) as clone, clone.session() as session:
                return await work(session)

    return asyncio.run(main())


def test_values_keep_what_they_are(server: Server) -> None:
    query = """SELECT 7::int AS i, 9007199254740993::bigint AS big, 1.50 AS exact, 0.1::float4 AS single,
        1e300::float8 AS wide, 'NaN'::float8 AS nan, 'NaN'::numeric AS exact_nan, '-Infinity'::float8 AS low,
        true AS yes, NULL AS nothing,
        date '2024-02-29' AS day, timestamp '2024-02-29 10:00' AS moment, '{"a": 1}'::json AS json, ARRAY[1,2] AS list,
        '\\x00ff'::bytea AS bytes, interval '1 day 02:00' AS span, 'ü' AS word, '007' AS code"""
    table = play(server, lambda s: fetch(s, query, 5))
    assert table.columns[:3] == ("i", "big", "exact")
    assert table.rows[0] == (
        *(7, 9007199254740993, Decimal("1.50"), 0.1, 1e300, "NaN", "NaN", "-Infinity", True, None),
        *("2024-02-29", "2024-02-29 10:00:00", '{"a": 1}', "{1,2}", "\\x00ff", "1 day 02:00:00", "ü", "007"),
    )
    assert type(table.rows[0][8]) is bool


def test_cells_are_json_and_lose_nothing() -> None:
    exact = Decimal("0.12345678901234567890")
    table = Table(
        ("n",), (1700,), ((Decimal("1.50"),), (Decimal("3.00"),), (exact,), (Decimal(10) ** 400,), ("x",), (None,))
    )
    cells = [row[0] for row in table.cells()]
    assert cells == [1.5, 3, "0.12345678901234567890", "1" + "0" * 400, "x", None]


@pytest.mark.fault("D44")
def test_numbers_with_thousands_of_digits_are_read_and_compared(server: Server) -> None:
    table = play(server, lambda s: fetch(s, "SELECT 10::numeric ^ 5000, -(10::numeric ^ 5000)", 5))
    assert rows_match(table.rows, table.rows)
    assert isinstance(table.cells()[0][0], str)


def test_several_statements_give_the_result_of_the_last_one(server: Server) -> None:
    script = ("SELECT 1 AS a; CREATE TABLE made (x int)", "INSERT INTO made VALUES (1); SELECT 2 AS b, 3 AS c")
    table = play(server, lambda s: run_script(s, script, 5))
    assert (table.columns, table.rows) == (("b", "c"), ((2, 3),))


@pytest.mark.parametrize("script", [("SELECT 1; CREATE TABLE made (x int)",), ("SELECT 1", "SET x.y = '1'")])
def test_a_last_statement_without_rows_gives_none_of_an_earlier_one(server: Server, script: tuple[str, ...]) -> None:
    assert play(server, lambda s: run_script(s, script, 5)) == Table()


def test_an_empty_result_replaces_an_earlier_one(server: Server) -> None:
    table = play(server, lambda s: run_script(s, ("SELECT 1 AS a; SELECT 2 AS b WHERE false",), 5))
    assert (table.columns, table.rows) == (("b",), ())


def test_statements_commit_on_their_own_as_in_psql(server: Server) -> None:
    async def work(session: Session) -> Table:
        with pytest.raises(QueryError):
            await run_script(session, ("INSERT INTO item VALUES (2, 'b')", "SELECT 1/0", "DELETE FROM item"), 5)
        return await fetch(session, "SELECT count(*) FROM item", 5)

    assert play(server, work).rows == ((2,),)


def test_a_transaction_of_the_script_is_its_own(server: Server) -> None:
    async def work(session: Session) -> Table:
        await run_script(session, ("BEGIN", "DELETE FROM item", "ROLLBACK"), 5)
        return await fetch(session, "SELECT count(*) FROM item", 5)

    assert play(server, work).rows == ((1,),)


@pytest.mark.parametrize(
    ("statement", "state", "message"),
    [
        ("SELECT 1/0", "22012", "division by zero"),
        ("SELECT a, FROM item", "42601", "syntax error"),
        ("SELECT * FROM missing", "42P01", '"missing" does not exist'),
        ("SELECT 1; SELECT 1/0; SELECT 2", "22012", "division by zero"),
        ("SELECT 'a\0b'", "22021", "NUL"),
        ("SELECT '\ud800'", "22021", "Unicode"),
        ("COPY item TO STDOUT", "0A000", "COPY"),
        ("COPY item FROM STDIN", "0A000", "COPY"),
        ("COPY item TO PROGRAM 'id'", "42501", "permission denied"),
        ("SELECT pg_read_file('/etc/passwd')", "42501", "permission denied"),
        ("CREATE ROLE another", "42501", "permission denied"),
        ("CREATE DATABASE another", "42501", "permission denied"),
        ("SET temp_file_limit = -1", "42501", "permission denied"),
        ("SET client_encoding = 'LATIN1'; SELECT 'ü'", None, "UTF-8"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", "08006", "connection lost"),
    ],
)
def test_errors_are_values_of_the_tree(server: Server, statement: str, state: str | None, message: str) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        play(server, lambda s: fetch(s, statement, 5))
    assert raised.value.sqlstate == state


@pytest.mark.parametrize(
    "statement",
    [TRAP, "SELECT pg_sleep(60)", "DO $$ BEGIN LOOP END LOOP; END $$", FLOOD],
    ids=["trap", "sleep", "loop", "flood"],
)
def test_the_deadline_holds(server: Server, statement: str) -> None:
    async def work(session: Session) -> float:
        begin = time.monotonic()
        with pytest.raises(QueryTimeout, match=r"0\.5 s"):
            await fetch(session, statement, 0.5)
        took = time.monotonic() - begin
        with pytest.raises(ServerError, match="session is dead"):
            await fetch(session, "SELECT 1", 5)
        return took

    assert 0.5 <= play(server, work) < 5


def test_the_deadline_is_for_all_statements_together(server: Server) -> None:
    with pytest.raises(QueryTimeout):
        play(server, lambda s: run_script(s, ["SELECT pg_sleep(0.3)"] * 4, 0.8))


def test_a_cancelled_caller_leaves_no_work_behind(server: Server) -> None:
    async def work(session: Session) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await fetch(session, TRAP, 60)

    begin = time.monotonic()
    play(server, work)
    assert time.monotonic() - begin < 10


@pytest.mark.fault("D44", "E20")
def test_the_row_cap_is_reported_and_the_statement_ends(server: Server) -> None:
    async def work(session: Session) -> tuple[Table, Table, Table]:
        cut = await fetch(session, "INSERT INTO item SELECT i, 'x' FROM generate_series(1, 50) i RETURNING id", 5, 10)
        whole = await fetch(session, "SELECT i FROM generate_series(1, 10) i", 5, 10)
        return cut, whole, await fetch(session, "SELECT count(*) FROM item", 5)

    cut, whole, after = play(server, work)
    assert (len(cut.rows), cut.truncated) == (10, True)
    assert (len(whole.rows), whole.truncated) == (10, False)
    assert after.rows == ((51,),)


def test_the_byte_cap_is_reported(server: Server) -> None:
    table = play(server, lambda s: fetch(s, "SELECT repeat('x', 8000000) FROM generate_series(1, 9)", 20))
    assert table.truncated and sum(len(str(row[0])) for row in table.rows) <= MAX_BYTES


def test_no_connection_is_an_error_without_password(server: Server) -> None:
    async def main() -> None:
        async with connect(server.dsn, user="nobody-known", password="secret-word"):
            raise AssertionError("connected")

    with pytest.raises(ServerError, match="authentication failed") as raised:
        asyncio.run(main())
    assert "secret-word" not in str(raised.value)


NAN = float("nan")


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True),
        ([(1,), (1,)], [(1,)], False),
        ([(1,), (1,)], [(1,), (1,)], True),
        ([], [], True),
        ([(1,)], [], False),
        ([(Decimal("1.50"),)], [(1.5,)], True),
        ([(Decimal("2.00"),)], [(2,)], True),
        ([(Decimal("33.3333333333333333"),)], [(33.3333333333333333,)], True),
        ([(Decimal("0.1"),)], [(0.2,)], False),
        ([(1,)], [(1.0,)], True),
        ([(9007199254740993,)], [(9007199254740992,)], False),
        ([(0.1 + 0.2,)], [(0.3,)], False),
        ([("NaN",)], [("NaN",)], True),
        ([("NaN",)], [(NAN,)], True),
        ([(NAN,)], [(NAN,)], True),
        ([("Infinity",)], [(float("inf"),)], True),
        ([("-Infinity",)], [(float("inf"),)], False),
        ([(True,)], [(1,)], False),
        ([(True,)], [(True,)], True),
        ([(True,)], [(False,)], False),
        ([(None,)], [(None,)], True),
        ([(None,)], [("",)], False),
        ([(None,)], [(0,)], False),
        ([("007",)], [("7",)], False),
        ([("7",)], [(7,)], False),
        ([("2024-02-29",)], [("2024-02-29",)], True),
        ([("2024-02-29 10:00:00",)], [("2024-02-29 23:00:00",)], False),
        ([(1, 2)], [(2, 1)], False),
        ([(1,)], [(1, None)], False),
    ],
)
@pytest.mark.fault("D42")
def test_rows_match(got: list[tuple[Value, ...]], expected: list[tuple[Value, ...]], same: bool) -> None:
    assert rows_match(got, expected) is same
    assert rows_match(expected, got) is same
