"""Benchmark core: limits from outside on what a submission may use: time, rows, bytes, disk.

Memory is limited by the embedded server itself (an address space limit on every process, set before it starts).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from benchmark_core.errors import QueryError
from benchmark_core.postgres.query import MAX_ROWS, Session, Table, command, run_script, terminate
from benchmark_core.postgres.templates import Clone
from benchmark_core.postgres.wire import Decode, as_text

_FIRST_LOOK_S, _LOOK_S = 0.05, 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """What one script may use.

    Attributes:
        deadline_s: seconds for the whole script.
        rows: rows that are kept of its result; more are drained and marked.
        disk_bytes: how much its clone may grow. Measured every quarter of a second: what is written in between passes.
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

    Raises:
        QueryError, QueryTimeout, ServerError: as `run_script`.
        DiskLimit: it wrote too much.
    """
    if session is None:
        async with clone.session() as own:
            return await run(clone, statements, limits, decode=decode, session=own)
    watch = asyncio.create_task(_watch_disk(clone, limits.disk_bytes))
    try:
        return await run_script(session, statements, limits.deadline_s, limits.rows, decode)
    except QueryError:
        if watch.done() and not watch.cancelled() and watch.exception() is None:
            raise DiskLimit from None
        raise
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _watch_disk(clone: Clone, growth: int) -> None:
    """End the clone's sessions once it has grown by more than `growth` bytes."""

    async def size() -> int:
        return int((await command(clone.admin, "SELECT pg_database_size(%s)", clone.name))[0][0])

    await asyncio.sleep(_FIRST_LOOK_S)  # most scripts are over by then
    limit = await size() + growth
    while await size() <= limit:
        await asyncio.sleep(_LOOK_S)
    await terminate(clone.admin, clone.role)
