"""Benchmark core: limits from outside on what a submission may use: time, rows, bytes, disk.

Memory is limited by the embedded server itself (an address space limit on every process, set before it starts).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from benchmark_core.errors import QueryError, ServerError
from benchmark_core.postgres.query import LOST, MAX_ROWS, Session, Table, command, connect, run_script, terminate
from benchmark_core.postgres.templates import Clone, size
from benchmark_core.postgres.wire import Decode, as_text

_FIRST_LOOK_S, _LOOK_S = 0.05, 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """What one script may use.

    Attributes:
        deadline_s: seconds for the whole script.
        rows: rows that are kept of its result; more are drained and marked.
        disk_bytes: how much its clone may grow, from its making on. Measured 50 ms after the start, every quarter of a
            second, and at the end: for so long more can be written, but it earns nothing.
    """

    deadline_s: float = 60.0
    rows: int = MAX_ROWS
    disk_bytes: int = 256 * 1024 * 1024


class DiskLimit(QueryError):
    """A statement was stopped because its clone grew too much."""

    def __init__(self) -> None:
        super().__init__("stopped: the database grew beyond its limit", sqlstate="53100")


async def run(
    clone: Clone, statements: Sequence[str], limits: Limits, *, decode: Decode = as_text, session: Session | None = None
) -> Table:
    """Run a script in a clone under limits, in a session of its own unless one is given.

    A script that ends its own session is an error of its own; a server that is gone is not.

    Raises:
        QueryError, QueryTimeout: as `run_script`.
        DiskLimit: it wrote too much.
        ServerError: the server is lost.
    """
    if session is None:
        async with clone.session() as own:
            return await run(clone, statements, limits, decode=decode, session=own)
    allowed = clone.size + limits.disk_bytes
    watch = asyncio.create_task(_watch_disk(clone, allowed))
    try:
        table = await run_script(session, statements, limits.deadline_s, limits.rows, decode)
    except (QueryError, ServerError) as error:
        if watch.done() and not watch.cancelled() and watch.exception() is None:
            raise DiskLimit from None
        if isinstance(error, ServerError) or error.sqlstate in LOST:
            await check(clone)
            raise QueryError("the session is over", sqlstate="08006") from None
        raise
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    if await size(clone.admin, clone.name) > allowed:
        raise DiskLimit
    return table


async def _watch_disk(clone: Clone, allowed: int) -> None:
    """End the clone's sessions once it has more than `allowed` bytes."""
    await asyncio.sleep(_FIRST_LOOK_S)  # most scripts are over by then
    while await size(clone.admin, clone.name) <= allowed:
        await asyncio.sleep(_LOOK_S)
    await terminate(clone.admin, clone.role)


async def check(clone: Clone) -> None:
    """Raises: ServerError: when the server of a clone is lost."""
    await command(clone.admin, "SELECT 1")
    async with connect(clone.server.dsn):  # of a killed server, old sessions may live on for a moment
        pass
