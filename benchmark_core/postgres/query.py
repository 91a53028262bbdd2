"""Benchmark core: runs SQL that may be hostile, under a deadline and caps that the SQL itself cannot move.

Every timeout of PostgreSQL can be reset by the statement that it is to stop, and code may trap the cancellation. So the
deadline is kept here: at its end an administrator's connection ends the role's backends.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo
from psycopg.pq.abc import PGconn

from benchmark_core.errors import QueryError, QueryTimeout, ServerError
from benchmark_core.postgres.wire import Decode, Reading, Value, decoded, read
from suites.tasks import Cell

MAX_ROWS = 10_000

LOST = ("08006", "57P01", "57P02", "57P03")
"""SQLSTATEs of a connection that is over; also what a server says that is about to go."""

_GRACE_S = 10.0
_OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        "datestyle=ISO,MDY",
        "intervalstyle=postgres",
        "timezone=UTC",
        "bytea_output=hex",
        "extra_float_digits=1",
        "standard_conforming_strings=on",
    )
)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a result. `types` are the OIDs of the columns' types; `truncated`: more rows came than the caps keep."""

    columns: tuple[str, ...] = ()
    types: tuple[int, ...] = ()
    rows: tuple[tuple[Value, ...], ...] = ()
    truncated: bool = False

    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows as JSON can hold them: a `numeric` becomes a float where that loses nothing, else its exact text."""
        return tuple(tuple(_json(value) for value in row) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Session:
    """A connection of a trial's role, and the administrator's that watches it."""

    connection: AsyncConnection[Any]
    admin: AsyncConnection[Any]
    role: str


@asynccontextmanager
async def connect(dsn: str, **parameters: str) -> AsyncIterator[AsyncConnection[Any]]:
    """An autocommit connection with the settings that results depend on; `parameters` replace those of `dsn`.

    Raises:
        ServerError: when there is none; never with the password.
    """
    try:
        full = make_conninfo(dsn, options=_OPTIONS, client_encoding="utf8", **parameters)
        connection = await AsyncConnection.connect(full, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        raise ServerError(f"no connection: {str(error).strip()}") from None
    try:
        yield connection
    finally:
        await connection.close()


async def run_script(
    session: Session,
    statements: Sequence[str],
    deadline_s: float,
    max_rows: int = MAX_ROWS,
    decode: Decode = decoded,
) -> Table:
    """Run statements in order, each committing on its own as in psql, and give what the last one returned.

    A string of several statements is one transaction, unless it says otherwise. All rows are drained; what goes over
    `max_rows` or `wire.MAX_BYTES` is not kept.

    Raises:
        QueryError: for the first statement that fails; later ones do not run.
        ServerError: when the session was dead before.
        QueryTimeout: when `deadline_s` seconds, for all together, are over. The session is dead then.
    """
    work = asyncio.ensure_future(_run_all(session.connection.pgconn, statements, Reading(max_rows, decode)))
    try:
        done, _ = await asyncio.wait({work}, timeout=deadline_s)
        if not done:
            await terminate(session.admin, session.role)
            await asyncio.wait({work}, timeout=_GRACE_S)
            raise QueryTimeout(f"stopped after {deadline_s:g} s")
        return work.result()
    finally:
        if not work.done():
            work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _run_all(pgconn: PGconn, statements: Sequence[str], reading: Reading) -> Table:
    for statement in statements:
        await read(pgconn, statement, reading)
    return Table(reading.columns, reading.types, tuple(reading.rows), reading.truncated)


async def fetch(session: Session, statement: str, deadline_s: float, max_rows: int = MAX_ROWS) -> Table:
    """Run one statement and give its rows: `run_script` of one. Raises the same."""
    return await run_script(session, (statement,), deadline_s, max_rows)


async def terminate(admin: AsyncConnection[Any], role: str) -> None:
    """End every backend of `role`."""
    await command(admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)


async def command(
    admin: AsyncConnection[Any], statement: str | sql.Composed, *arguments: object
) -> list[tuple[Any, ...]]:
    """One of our own statements; its rows.

    Raises:
        QueryError: with the SQLSTATE.
        ServerError: when the server is lost.
    """
    try:
        cursor = await admin.execute(statement, arguments or None)
        return await cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        if error.sqlstate in LOST or (error.sqlstate is None and isinstance(error, psycopg.OperationalError)):
            raise ServerError(f"the server is lost: {str(error).partition(chr(10))[0]}") from None
        raise QueryError(error.diag.message_primary or type(error).__name__, sqlstate=error.sqlstate) from None


def rows_match(got: Iterable[Sequence[Value]], expected: Iterable[Sequence[Value]]) -> bool:
    """Whether both hold the same rows as often, in any order. Numbers compare as numbers, everything else as text.

    A `numeric` equals the JSON number that its digits are read as (a double); NaN equals itself; NULL equals only NULL;
    true is not 1.
    """
    return Counter(map(_row_key, got)) == Counter(map(_row_key, expected))


def _row_key(row: Sequence[Value]) -> tuple[tuple[str, object], ...]:
    return tuple(map(_key, row))


def _key(value: Value) -> tuple[str, object]:
    match value:
        case None:
            return "null", None
        case bool():
            return "text", "true" if value else "false"
        case str():
            return "text", value
        case float() if math.isnan(value):
            return "text", "NaN"
        case float() if math.isinf(value):
            return "text", "Infinity" if value > 0 else "-Infinity"
        case Decimal() if value != value.to_integral_value():
            return "number", float(value)
        case _:
            return "number", value


def _json(value: Value) -> Cell:
    if not isinstance(value, Decimal):
        return value
    if value == value.to_integral_value() and value.adjusted() < 300:
        return int(value)
    nearest = float(value)
    return nearest if Decimal(repr(nearest)) == value else format(value, "f")
