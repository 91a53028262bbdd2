"""Benchmark core: what the role of a clone may do in it. PostgreSQL enforces it; no SQL is parsed for it.

Nobody can connect to a clone but its own role, so PUBLIC within a clone is that role: what a reader may see is granted
to PUBLIC, and the role can neither give it up nor pass it on. Statements of ours run in clones with nothing but
`pg_catalog` in the search path: a function that hostile SQL left in a schema must not be what an administrator calls.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

from psycopg import AsyncConnection, sql

from benchmark_core.errors import QueryError
from benchmark_core.postgres.query import command, connect
from benchmark_core.postgres.scram import verifier
from benchmark_core.postgres.server import Server


class Access(StrEnum):
    """Rights of a clone's role, each more than the one before."""

    READ = "read"  # no write grant at all: not even temporary tables
    MAKE = "make"  # may also create objects of its own; what was there stays as it is
    WRITE = "write"  # owns every object, not the database


_ROLE = sql.SQL(
    "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 8 PASSWORD {}"
)
_READ = """
DO $$
DECLARE
    schema name;
    entry text;
BEGIN
    FOR schema IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM PUBLIC', schema);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM PUBLIC', schema);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %I FROM PUBLIC', schema);
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO PUBLIC', schema);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO PUBLIC', schema);
        EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA %I TO PUBLIC', schema);
        EXECUTE format('GRANT EXECUTE ON ALL ROUTINES IN SCHEMA %I TO PUBLIC', schema);
    END LOOP;
    FOR entry IN  -- a routine with its owner's rights would write, and a policy would hide rows
        SELECT format('ALTER ROUTINE %s SECURITY INVOKER', oid::regprocedure) FROM pg_proc
            WHERE prosecdef AND oid >= 16384
        UNION ALL
        SELECT format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', oid::regclass) FROM pg_class
            WHERE relrowsecurity AND oid >= 16384
    LOOP
        EXECUTE entry;
    END LOOP;
END $$
"""
_NO_LARGE_OBJECTS = (
    "REVOKE EXECUTE ON FUNCTION lo_creat(int), lo_create(oid), lo_from_bytea(oid, bytea) FROM PUBLIC"  # any role's else
)


@asynccontextmanager
async def inside(server: Server, database: str) -> AsyncIterator[AsyncConnection[Any]]:
    """An administrator's connection into a database that may hold hostile objects.

    Raises:
        ServerError: when there is none.
    """
    async with connect(server.dsn, dbname=database) as connection:
        await command(connection, "SET search_path TO pg_catalog, pg_temp")
        yield connection


async def create_role(admin: AsyncConnection[Any], name: str, password: str) -> None:
    """A login role without any right, of which the administrator is a member."""
    role = sql.Identifier(name)
    await command(admin, _ROLE.format(role, verifier(password)))
    await command(admin, sql.SQL("GRANT {} TO CURRENT_USER").format(role))


async def admit(admin: AsyncConnection[Any], database: str, role: str, access: Access) -> None:
    """Let the role, and nobody else, into a database; a copy does not take this over from what it was copied from."""
    rights = sql.SQL("CONNECT" if access is Access.READ else "CONNECT, CREATE, TEMPORARY")
    names = sql.Identifier(database), sql.Identifier(role)
    await command(admin, sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(names[0]))
    await command(admin, sql.SQL("GRANT {} ON DATABASE {} TO {}").format(rights, *names))


async def hand_over(server: Server, database: str, role: str, owner: str | None, access: Access) -> None:
    """Give the role its rights on what is in the database. `owner` owns that; None: the database is empty.

    The role never owns the database: its owner could keep us from dropping it.
    """
    who = sql.Identifier(role)
    async with inside(server, database) as connection:
        if access is not Access.WRITE:
            await command(connection, _READ)
            try:
                await command(connection, _NO_LARGE_OBJECTS)
            except QueryError as error:
                if error.sqlstate != "42501":  # an administrator who is no superuser; the preflight says so
                    raise
            if access is Access.MAKE:
                await command(connection, sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(who))
        elif owner is not None:
            await command(connection, sql.SQL("REASSIGN OWNED BY {} TO {}").format(sql.Identifier(owner), who))
        elif server.version >= 150000:  # before, everybody may create in public
            await command(connection, sql.SQL("ALTER SCHEMA public OWNER TO {}").format(who))
