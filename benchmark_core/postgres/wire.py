"""Benchmark core: one simple-protocol query read row by row over libpq, so that no result is ever held whole.

psycopg's cursors either load a result or refuse strings of several statements; hostile SQL may be both.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from decimal import Decimal

import psycopg
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from benchmark_core.errors import QueryError, ServerError
from suites.tasks import Cell

MAX_BYTES = 32 * 1024 * 1024

_INTEGERS, _FLOATS, _NUMERIC, _BOOLEAN = frozenset({20, 21, 23, 26}), frozenset({700, 701}), 1700, 16
_ROWS = (ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK)
_COPY = (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH)

ARRAY_ITEMS = {info.array_oid: info.oid for info in psycopg.postgres.types if info.array_oid}
"""The type of the items of a built-in array type, both as OIDs."""

Value = Cell | Decimal
"""A cell as read: `numeric` is exact; NaN, infinities and whatever JSON has no type for are PostgreSQL's text."""

Decode = Callable[[bytes, int], Value]
"""From a cell's text (never NULL) and the OID of its type to the value that is kept."""


def decoded(cell: bytes, oid: int) -> Value:
    """Numbers and booleans as such, everything else as PostgreSQL's text."""
    text = cell.decode()
    if oid in _INTEGERS:
        return int(text)
    if oid == _BOOLEAN:
        return text == "t"
    if (oid == _NUMERIC or oid in _FLOATS) and text.lstrip("-") not in ("NaN", "Infinity"):
        return Decimal(text) if oid == _NUMERIC else float(text)
    return text


def as_text(cell: bytes, oid: int) -> str:
    """PostgreSQL's text, whatever the type: for who decides by the type's OID what it means."""
    return cell.decode()


@dataclass(slots=True)
class Reading:
    """The result of the last statement, as far as the caps let it through; no columns when it gave no rows."""

    max_rows: int
    decode: Decode
    columns: tuple[str, ...] = ()
    types: tuple[int, ...] = ()
    rows: list[tuple[Value, ...]] = field(default_factory=list)
    bytes: int = 0
    truncated: bool = False

    def begin(self, columns: tuple[str, ...], types: tuple[int, ...]) -> None:
        self.columns, self.types = columns, types
        self.rows, self.bytes, self.truncated = [], 0, False

    def add(self, result: PGresult) -> None:
        raw = [result.get_value(0, column) for column in range(result.nfields)]
        self.bytes += sum(len(cell) for cell in raw if cell is not None)
        self.truncated = self.truncated or len(self.rows) >= self.max_rows or self.bytes > MAX_BYTES
        if not self.truncated:
            cells = zip(raw, self.types, strict=True)
            self.rows.append(tuple(None if cell is None else self.decode(cell, oid) for cell, oid in cells))


async def read(pgconn: PGconn, statement: str, into: Reading) -> None:
    """Run a string of statements and drain every row.

    Raises:
        QueryError: for the first statement that fails, for COPY from or to the client, for text that is not UTF-8; with
            SQLSTATE 08006 when the connection is lost under it, as when a statement ends its own backend.
        ServerError: when the connection was lost before.
    """
    if pgconn.status != ConnStatus.OK:
        raise ServerError("the session is dead: an earlier statement was stopped, or ended it")
    try:
        await _read(pgconn, _encoded(statement), into)
    except psycopg.Error as error:
        raise QueryError(f"connection lost: {_first_line(error)}", sqlstate="08006") from None
    except UnicodeDecodeError:
        raise QueryError("the result is not UTF-8") from None


async def _read(pgconn: PGconn, statement: bytes, into: Reading) -> None:
    failed: QueryError | None = None
    fresh = True
    async for result in _results(pgconn, statement):
        if result.status in _ROWS and failed is None:
            if fresh:
                columns = range(result.nfields)
                into.begin(tuple((result.fname(i) or b"").decode() for i in columns), tuple(map(result.ftype, columns)))
            if result.status == ExecStatus.SINGLE_TUPLE:
                into.add(result)
            fresh = result.status == ExecStatus.TUPLES_OK
        elif result.status == ExecStatus.COMMAND_OK and failed is None:
            into.begin((), ())
        elif result.status == ExecStatus.FATAL_ERROR:
            failed = failed or _error(result)
        elif result.status in _COPY:
            pgconn.finish()  # the only way out of a COPY that needs no cooperation
            raise QueryError("COPY from or to the client is not available", sqlstate="0A000")
    if failed:
        raise failed


async def _results(pgconn: PGconn, statement: bytes) -> AsyncIterator[PGresult]:
    pgconn.send_query(statement)
    pgconn.set_single_row_mode()
    while pgconn.flush():
        await _ready(pgconn.socket, writing=True)
        pgconn.consume_input()
    while True:
        while pgconn.is_busy():
            await _ready(pgconn.socket)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return
        yield result


async def _ready(socket: int, *, writing: bool = False) -> None:
    """Wait until the socket can be read (or also written: a server that sends does not read)."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Event = asyncio.Event()
    loop.add_reader(socket, ready.set)
    if writing:
        loop.add_writer(socket, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(socket)
        if writing:
            loop.remove_writer(socket)


def _encoded(statement: str) -> bytes:
    try:
        data = statement.encode()
    except UnicodeEncodeError:
        raise QueryError("the statement is not Unicode text", sqlstate="22021") from None
    if b"\0" in data:
        raise QueryError("the statement holds a NUL character", sqlstate="22021")
    return data


def _error(result: PGresult) -> QueryError:
    message = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message or b"failed"
    state = result.error_field(DiagnosticField.SQLSTATE)
    return QueryError(message.decode("utf-8", "replace").strip(), sqlstate=state.decode() if state else None)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
