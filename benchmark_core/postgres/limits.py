"""Benchmark core: which limits on hostile SQL a server cannot enforce. The embedded one has them all.

Deadlines, rows, disk, and who may see or write what are enforced everywhere: from outside, or by rights. The rest is
the server's own: settings that only its operator can change, and memory, which only the operating system limits.
"""

from dataclasses import dataclass

from psycopg import sql

from benchmark_core.postgres.query import command, connect
from benchmark_core.postgres.server import Server


@dataclass(frozen=True, slots=True)
class Unenforced:
    """A limit that a server does not hold: what follows, and what its operator can do about it."""

    what: str
    repair: str


_MEMORY = Unenforced(
    "memory of a query has no limit from outside",
    "run the server under a memory limit (systemd MemoryMax=, a container), or use the embedded one",
)
_CHECKS = (
    (
        "current_setting('temp_file_limit') = '-1'",
        Unenforced("temporary files of a query have no limit", "set temp_file_limit = '256MB'"),
    ),
    (
        "current_setting('max_prepared_transactions') <> '0'",
        Unenforced(
            "a submission can leave a prepared transaction, which holds its locks until the sandbox is dropped",
            "set max_prepared_transactions = 0",
        ),
    ),
    (
        "current_setting('log_statement') <> 'none' OR current_setting('log_min_duration_statement') = '0'",
        Unenforced(
            "the server's log holds statements, also references",
            "set log_statement = none and log_min_duration_statement = -1",
        ),
    ),
    (
        "current_setting('log_min_error_statement') NOT IN ('log', 'fatal', 'panic')",
        Unenforced(
            "the server's log holds statements that fail, also references", "set log_min_error_statement = panic"
        ),
    ),
    (
        "NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)",
        Unenforced("submissions that only read can make large objects", "give the DSN of a superuser"),
    ),
)


async def unenforced(server: Server) -> tuple[Unenforced, ...]:
    """The limits that cannot be enforced on a server; none on the embedded one.

    Raises:
        ServerError: when it cannot be reached.
    """
    if server.embedded:
        return ()
    found = [_MEMORY]
    async with connect(server.dsn) as admin:
        for condition, limit in _CHECKS:
            if (await command(admin, sql.SQL("SELECT {}").format(sql.SQL(condition))))[0][0]:
                found.append(limit)
    return tuple(found)
