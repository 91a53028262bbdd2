"""Tests of templates and clones on a real server."""

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from postgres_facts import TRIALS, names
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmark_core.errors import QueryError, ServerError
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.query import command, connect, fetch, run_script
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Clone, Workspace, purge, workspace

BUILD = """
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE item (id int PRIMARY KEY, name text, mood mood);
INSERT INTO item SELECT i, 'n' || i, 'good' FROM generate_series(1, 100) i;
CREATE VIEW names AS SELECT name FROM item;
CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE SCHEMA aside;
CREATE TABLE aside.more (x int);
"""
REPO = Path(__file__).resolve().parents[2]


async def rows(clone: Clone, query: str) -> tuple[tuple[object, ...], ...]:
    async with clone.session() as session:
        return (await fetch(session, query, 10)).rows


async def run(clone: Clone, *statements: str) -> None:
    async with clone.session() as session:
        await run_script(session, statements, 10)


def test_a_template_is_built_once_and_reused_by_later_runs(server: Server) -> None:
    async def main() -> None:
        async with workspace(server) as first, workspace(server) as second:
            one, two = await asyncio.gather(first.template(BUILD), second.template(BUILD))
            other = await first.template(BUILD + " ")
            assert one == two and one.name != other.name
        built = await identity(one.name)
        async with workspace(server) as third:
            assert await third.template(BUILD) == one
        assert await identity(one.name) == built
        assert re.fullmatch(r"usg_t_[a-z2-7]{52}", one.name) and len(one.name) <= 63

    async def identity(name: str) -> object:
        async with connect(server.dsn) as admin:
            return await command(
                admin, "SELECT oid, datistemplate, datallowconn FROM pg_database WHERE datname = %s", name
            )

    asyncio.run(main())


@pytest.mark.fault("E12")
def test_a_template_takes_no_connection_and_its_owner_no_login(server: Server) -> None:
    async def main() -> None:
        async with workspace(server) as space:
            template = await space.template(BUILD)
        with pytest.raises(ServerError, match="not currently accepting connections"):
            async with connect(server.dsn, dbname=template.name):
                pass
        async with connect(server.dsn) as admin:
            rights = "rolcanlogin, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls"
            found = await command(admin, f"SELECT {rights} FROM pg_roles WHERE rolname = %s", template.owner)
            assert found == [(False,) * 6]

    asyncio.run(main())


@pytest.mark.parametrize("bad", ["SELECT 1/0", "CREATE TABLE a (x int); CREATE TABLE a (x int)", "COPY a FROM STDIN"])
def test_a_failed_build_leaves_nothing(server: Server, bad: str) -> None:
    async def main() -> None:
        async with workspace(server) as space:
            for _ in range(2):
                with pytest.raises(QueryError):
                    await space.template(bad)

    before = names(server.dsn, "usg_")
    asyncio.run(main())
    assert names(server.dsn, "usg_") == before


def test_the_build_script_runs_without_rights(server: Server) -> None:
    async def main() -> None:
        async with workspace(server) as space:
            with pytest.raises(QueryError, match="permission denied"):
                await space.template("CREATE ROLE intruder SUPERUSER")

    asyncio.run(main())


def test_a_clone_is_whole_owned_by_its_role_and_gone_at_the_end(server: Server) -> None:
    async def main() -> set[str]:
        async with workspace(server) as space:
            template = await space.template(BUILD)
            async with space.clone(template) as clone, space.clone(template) as other:
                assert clone.name != other.name and len(clone.name) <= 63
                assert await rows(clone, "SELECT count(*) FROM item") == ((100,),)
                owned = "SELECT tableowner = current_user FROM pg_tables WHERE schemaname IN ('public', 'aside')"
                assert await rows(clone, owned) == ((True,), (True,))
                await run(
                    clone,
                    "ALTER TABLE item ADD COLUMN extra int DEFAULT 1",
                    "CREATE OR REPLACE VIEW names AS SELECT name FROM item LIMIT 1",
                    "ALTER TYPE mood ADD VALUE 'fair'",
                    "CREATE OR REPLACE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 2'",
                    "DROP SCHEMA aside CASCADE; CREATE SCHEMA apart; CREATE TABLE apart.t (x int)",
                    "VACUUM item",
                    "CREATE INDEX CONCURRENTLY ON item (name)",
                )
                assert await rows(other, "SELECT count(*) FROM aside.more") == ((0,),)
                made = names(server.dsn, *TRIALS)
        return made

    assert len(asyncio.run(main())) == 2
    assert not names(server.dsn, *TRIALS)


@pytest.mark.fault("D45", "E08")
def test_a_trial_cannot_change_the_template(server: Server) -> None:
    async def main() -> None:
        async with workspace(server) as space:
            template = await space.template(BUILD)
            async with space.clone(template) as clone:
                await run(clone, "DELETE FROM item", "ALTER ROLE current_user SET statement_timeout = '1ms'")
            async with space.clone(template) as clone:
                assert await rows(clone, "SELECT count(*), current_setting('statement_timeout') FROM item") == (
                    (100, "0"),
                )

    asyncio.run(main())


def test_a_role_enters_its_own_clone_only(server: Server) -> None:
    async def main() -> None:
        async with workspace(server) as space:
            template = await space.template(BUILD)
            async with space.clone(template) as clone, space.clone(template) as other:
                with pytest.raises(ServerError, match="permission denied for database"):
                    await rows(replace(clone, name=other.name), "SELECT 1")
                for statement in (
                    f'ALTER DATABASE "{clone.name}" IS_TEMPLATE true',
                    f'ALTER DATABASE "{clone.name}" CONNECTION LIMIT 0',
                    f'DROP DATABASE "{other.name}"',
                    f'ALTER ROLE "{other.role}" PASSWORD NULL',
                    f'SET ROLE "{template.owner}"',
                    "ALTER ROLE current_user CREATEDB",
                ):
                    with pytest.raises(QueryError) as raised:
                        await run(clone, statement)
                    assert raised.value.sqlstate == "42501"

    asyncio.run(main())


@pytest.mark.fault("D46")
def test_a_snapshot_holds_the_state_and_is_apart(server: Server) -> None:
    async def main() -> None:
        async with workspace(server) as space:
            template = await space.template(BUILD)
            async with space.clone(template) as clone:
                await run(clone, "CREATE TABLE made AS SELECT 5 AS x", "DELETE FROM item WHERE id > 10")
                async with clone.session() as still_open, space.snapshot(clone) as copy:
                    assert copy.role != clone.role
                    assert await rows(copy, "SELECT x, (SELECT count(*) FROM item) FROM made") == ((5, 10),)
                    await run(copy, "DROP TABLE made", "DELETE FROM item")
                    assert await rows(clone, "SELECT x FROM made") == ((5,),)
                    with pytest.raises((QueryError, ServerError)):
                        await fetch(still_open, "SELECT 1", 5)
                async with space.snapshot(clone) as second:
                    assert await rows(second, "SELECT count(*) FROM item") == ((10,),)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["error", "cancelled"])
def test_clones_go_also_when_the_work_breaks(server: Server, how: str) -> None:
    async def work(space: Workspace) -> None:
        async with space.clone(await space.template(BUILD)) as clone, space.snapshot(clone) as copy, copy.session():
            assert len(names(server.dsn, *TRIALS)) == 2
            if how == "error":
                raise RuntimeError("broken")
            await asyncio.sleep(60)

    async def main() -> None:
        async with workspace(server) as space:
            async with asyncio.timeout(1.5):
                await work(space)

    with pytest.raises(RuntimeError if how == "error" else TimeoutError):
        asyncio.run(main())
    assert not names(server.dsn, *TRIALS)


def test_what_a_killed_run_leaves_goes_with_the_next_and_a_living_run_is_spared(state_dir: Path) -> None:
    server = servers.start(state_dir)
    code = f"""
import asyncio, sys
from pathlib import Path
from benchmark_core.postgres import server
from benchmark_core.postgres.templates import workspace
async def main():
    async with workspace(server.start(Path(sys.argv[1]))) as space:
        async with space.clone(await space.template({BUILD!r})):
            print("open", flush=True)
            await asyncio.sleep(60)
asyncio.run(main())
"""
    environment = {"PYTHONPATH": f"{REPO}:{REPO / 'datasets'}"}
    owner = subprocess.Popen([sys.executable, "-c", code, str(state_dir)], stdout=subprocess.PIPE, env=environment)
    assert owner.stdout and owner.stdout.readline() == b"open\n"

    async def open_and_close() -> set[str]:
        async with workspace(server):
            return names(server.dsn, *TRIALS)

    alive = asyncio.run(open_and_close())
    assert len(alive) == 1
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + 10
    while (left := asyncio.run(open_and_close())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


@pytest.mark.parametrize("killed", [False, True])
def test_templates_outlive_a_killed_server(state_dir: Path, killed: bool) -> None:
    async def count(server: Server) -> object:
        async with workspace(server) as space, space.clone(await space.template(BUILD)) as clone:
            return await rows(clone, "SELECT (SELECT count(*) FROM item), oid FROM pg_class WHERE relname = 'item'")

    first = servers.start(state_dir)
    before = asyncio.run(count(first))
    template = names(first.dsn, "usg_t_")
    if killed:
        assert first.pid
        os.kill(first.pid, signal.SIGKILL)
    again = servers.start(state_dir)
    assert again.started is killed
    assert names(again.dsn, "usg_t_") == template
    assert asyncio.run(count(again)) == before


def test_purge_leaves_nothing(state_dir: Path) -> None:
    async def main(server: Server) -> None:
        async with workspace(server) as space:
            await space.template(BUILD)
            await space.template("SELECT 1")
        assert len(names(server.dsn, "usg_t_")) == 2
        await purge(server)

    server = servers.start(state_dir)
    asyncio.run(main(server))
    assert names(server.dsn, "usg_") == {"usg_admin"}


def test_a_dead_run_s_role_that_owns_what_is_in_a_copy_goes_too(server: Server) -> None:
    """The copy of a state keeps the state's role as the owner of what is in it."""
    token = secrets.token_hex(8)
    owner, copy = f"usg_x_{token}_1", f"usg_x_{token}_2"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        for name in (owner, copy):
            admin.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(copy)))
    with psycopg.connect(make_conninfo(server.dsn, dbname=copy), autocommit=True) as inside:
        inside.execute("CREATE TABLE t (x int)")
        inside.execute(sql.SQL("ALTER TABLE t OWNER TO {}").format(sql.Identifier(owner)))
    assert names(server.dsn, *TRIALS) == {owner, copy}

    async def main() -> None:
        async with workspace(server):
            assert not names(server.dsn, *TRIALS)

    asyncio.run(main())
