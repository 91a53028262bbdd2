"""Benchmark core: drops databases and their roles, also those that runs which were killed have left."""

from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection, sql

from benchmark_core.errors import QueryError
from benchmark_core.postgres.query import command, connect


async def drop(admin: AsyncConnection[Any], database: str, *, role: str | None = None) -> None:
    """Drop a database, whatever holds it, and its role: of the same name unless given."""
    await _drop_database(admin, database)
    await _drop_role(admin, role or database)


async def _drop_database(admin: AsyncConnection[Any], database: str) -> None:
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
    try:
        await command(admin, statement)
    except QueryError:  # prepared transactions outlive their session, and keep the database
        for (gid,) in await command(admin, "SELECT gid FROM pg_prepared_xacts WHERE database = %s", database):
            async with connect(admin.info.dsn, password=admin.info.password, dbname=database) as connection:
                await command(connection, sql.SQL("ROLLBACK PREPARED {}").format(gid))
        await command(admin, statement)


async def _drop_role(admin: AsyncConnection[Any], role: str) -> None:
    await command(admin, sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))


async def reap(admin: AsyncConnection[Any], prefix: str) -> None:
    """Drop what is left of runs whose token nobody holds any more; roles last, for they may own what is in copies."""
    names = "SELECT datname AS name FROM pg_database UNION SELECT rolname FROM pg_roles"
    query = f"SELECT name, split_part(name, '_', 3) FROM ({names}) AS all_names WHERE name ~ '^{prefix}[0-9a-f]{{16}}_'"
    left: dict[int, list[str]] = {}
    for name, token in await command(admin, query):
        left.setdefault(lock_key(bytes.fromhex(token)), []).append(name)
    for key, ours in left.items():
        if (await command(admin, "SELECT pg_try_advisory_lock(%s)", key))[0][0]:
            try:
                for drop_one in (_drop_database, _drop_role):
                    for name in ours:
                        with suppress(QueryError):  # not ours: another administrator's, or merely named alike
                            await drop_one(admin, name)
            finally:
                await command(admin, "SELECT pg_advisory_unlock(%s)", key)


def lock_key(data: bytes) -> int:
    """The advisory lock of eight bytes."""
    return int.from_bytes(data, "big", signed=True)
