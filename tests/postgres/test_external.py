"""Tests of a server given by DSN: Debian's PostgreSQL 15, and the embedded one as others' roles see it."""

import asyncio
from collections.abc import Callable, Iterator

import psycopg
import pytest
from postgres_facts import TEMPLATES, TRIALS, names
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmark_core.errors import ServerError
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.query import fetch, run_script
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import purge, workspace
from benchmark_core.sql.portability import FUNCTIONS

BUILD = (
    "CREATE TABLE word (w text); INSERT INTO word VALUES ('b'), ('A'), ('a'), ('B'), ('ä'); CREATE VIEW v AS TABLE word"
)
Limited = Callable[[str, str], str]


@pytest.fixture(params=["debian", "embedded"])
def admin(request: pytest.FixtureRequest) -> Iterator[str]:
    """DSN of a superuser; nothing of ours may be left on its server afterwards."""
    server = request.getfixturevalue(request.param)
    dsn = server if isinstance(server, str) else server.dsn
    if not isinstance(server, str):
        asyncio.run(purge(server))
    yield dsn
    assert not names(dsn, *TEMPLATES, *TRIALS)


async def exercise(server: Server) -> list[object]:
    async with workspace(server) as space:
        template = await space.template(BUILD)
        async with space.clone(template) as clone:
            async with clone.session() as session:
                await run_script(
                    session, ("ALTER TABLE word ADD n int", "DROP VIEW v", "CREATE TABLE t AS SELECT 1"), 10
                )
            async with space.snapshot(clone) as copy, copy.session() as session:
                await run_script(session, ("DROP TABLE t", "UPDATE word SET n = 1"), 10)
                found = await fetch(session, "SELECT w FROM word ORDER BY w", 10)
    await purge(server)
    return [row[0] for row in found.rows]


def test_a_superuser_dsn_serves(admin: str) -> None:
    server = servers.external(admin)
    assert (server.pid, server.started, server.embedded) == (None, False, False)
    assert asyncio.run(exercise(server)) == ["A", "B", "a", "b", "ä"], "text sorts by code point on every server"


def test_a_role_that_may_create_databases_and_roles_suffices(admin: str, limited: Limited) -> None:
    server = servers.external(limited(admin, "CREATEDB CREATEROLE"))
    assert asyncio.run(exercise(server)) == ["A", "B", "a", "b", "ä"]


@pytest.mark.parametrize(
    ("rights", "missing"),
    [("", "CREATEDB and CREATEROLE"), ("CREATEDB", "lacks CREATEROLE"), ("CREATEROLE", "lacks CREATEDB")],
)
def test_missing_rights_are_named(admin: str, limited: Limited, rights: str, missing: str) -> None:
    dsn = limited(admin, rights)
    with pytest.raises(ServerError, match=missing) as raised:
        servers.external(dsn)
    assert str(conninfo_to_dict(dsn)["password"]) not in str(raised.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://user:sekret@localhost:not-a-port/db",
        "password=sekret nonsense",
        "password='sekret",
        "postgresql://user:sekret%zz@localhost/db",
        "password=sekret unknown_option=1",
        "host=/nonexistent user=u password=sekret dbname=d",
        "postgresql://user:sekret@127.0.0.1:1/db",
    ],
)
def test_a_bad_dsn_is_refused_without_showing_it(dsn: str) -> None:
    with pytest.raises(ServerError) as raised:
        servers.external(dsn)
    error: BaseException | None = raised.value
    assert "sekret" not in str(error)
    assert error is not None and error.__cause__ is None and error.__suppress_context__


def test_a_wrong_password_is_refused_without_showing_it(debian: str) -> None:
    with pytest.raises(ServerError, match="authentication failed") as raised:
        servers.external(make_conninfo(debian, password="sekret"))
    assert "sekret" not in str(raised.value)
    assert "sekret" not in repr(Server("password=sekret", 150000))


def test_the_functions_that_the_lint_knows_came_after_15(embedded: Server, debian: str) -> None:
    query = "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
    there = []
    for dsn in (embedded.dsn, debian):
        with psycopg.connect(dsn, client_encoding="utf8") as connection:
            there.append({name for (name,) in connection.execute(query)})
    known = {name for version, names in FUNCTIONS.items() if version > 15 for name in names.split()}
    grammar = {name for name in known if name.startswith(("json_", "jsonb_"))}
    assert known - there[0] <= grammar, "18 has them all"
    assert not known & there[1], "15 has none"
    assert set(FUNCTIONS[15].split()) <= there[1]
