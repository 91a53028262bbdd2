"""Tests of the pool of clones and of the limits, on a real server."""

import asyncio
import time

import pytest
from postgres_facts import TRIALS, names

from benchmark_core.errors import QueryError, QueryTimeout, ServerError
from benchmark_core.postgres.pool import Pool, State, pool
from benchmark_core.postgres.query import Table
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import DiskLimit, Limits, run
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Template, workspace

BUILD = """
CREATE TABLE item (id int PRIMARY KEY, name text);
INSERT INTO item SELECT i, 'n' || i FROM generate_series(1, 10) i;
CREATE SEQUENCE counter;
CREATE TABLE hidden (x int);
INSERT INTO hidden VALUES (1);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE FUNCTION empty_it() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM item';
CREATE SCHEMA aside;
CREATE TABLE aside.more (x int);
"""
LIMITS = Limits(deadline_s=10)


async def opened(server: Server, work: object) -> None:
    async with workspace(server) as space, pool(space) as clones:
        await work(clones, await space.template(BUILD))  # type: ignore[operator]


def play(server: Server, work: object) -> None:
    asyncio.run(opened(server, work))


READS = (
    "SELECT count(*) FROM item",
    "SELECT x FROM hidden",
    "SELECT * FROM aside.more",
    "SELECT last_value FROM counter",
    "TABLE item",
    "VALUES (1)",
    "EXPLAIN SELECT * FROM item",
    "SHOW search_path",
    "DO $$ BEGIN PERFORM 1; END $$",
)
WRITES = (
    "DELETE FROM item",
    "WITH d AS (DELETE FROM item RETURNING *) SELECT count(*) FROM d",
    "EXPLAIN ANALYZE DELETE FROM item",
    "SELECT 1; DELETE FROM item",
    "COMMIT; BEGIN READ WRITE; DELETE FROM item; COMMIT",
    "SELECT empty_it()",
    "SELECT nextval('counter')",
    "SELECT setval('counter', 7)",
    "TRUNCATE item",
    "ALTER TABLE item ADD y int",
    "DROP TABLE item",
    "CREATE OR REPLACE FUNCTION empty_it() RETURNS void LANGUAGE sql AS 'SELECT'",
    "BEGIN; LOCK TABLE item IN ACCESS EXCLUSIVE MODE",
    "COMMENT ON TABLE item IS 'mine'",
    "COPY item FROM PROGRAM 'true'",
    "SELECT pg_read_file('/etc/hostname')",
    "CREATE ROLE intruder",
    "ALTER DATABASE postgres IS_TEMPLATE true",
)
MAKES = (
    "CREATE TABLE mine (x int)",
    "CREATE TEMP TABLE mine (x int)",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE SCHEMA mine",
)


@pytest.mark.parametrize("statement", READS)
def test_a_reader_reads_everything(server: Server, statement: str) -> None:
    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, Access.READ) as clone:
            assert await run(clone, (statement,), LIMITS) is not None

    play(server, work)


@pytest.mark.fault("E01")
@pytest.mark.fault("E02")
@pytest.mark.fault("E03")
@pytest.mark.parametrize("access", [Access.READ, Access.MAKE])
@pytest.mark.parametrize("statement", WRITES)
def test_what_was_there_stays_as_it_is(server: Server, access: Access, statement: str) -> None:
    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, access) as clone:
            with pytest.raises(QueryError) as error:
                await run(clone, (statement,), LIMITS)
            assert error.value.sqlstate == "42501"
            assert (await run(clone, ("SELECT count(*) FROM item",), LIMITS)).rows == (("10",),)

    play(server, work)


@pytest.mark.parametrize("statement", (*MAKES, "SELECT lo_create(0)"))
def test_a_reader_makes_nothing(server: Server, statement: str) -> None:
    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, Access.READ) as clone:
            with pytest.raises(QueryError) as error:
                await run(clone, (statement,), LIMITS)
            assert error.value.sqlstate == "42501"

    play(server, work)


@pytest.mark.parametrize("statement", MAKES)
def test_a_maker_makes_its_own(server: Server, statement: str) -> None:
    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, Access.MAKE) as clone:
            assert await run(clone, (statement,), LIMITS) == Table()

    play(server, work)


def test_a_writer_writes_in_its_own_clone_only(server: Server) -> None:
    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, Access.WRITE) as one, clones.clone(template, Access.WRITE) as two:
            await run(one, ("DELETE FROM item", "SELECT empty_it()", "DROP TABLE aside.more"), LIMITS)
            assert (await run(two, ("SELECT count(*) FROM item",), LIMITS)).rows == (("10",),)

    play(server, work)


def test_a_state_is_its_template_with_the_scripts_replayed(server: Server) -> None:
    async def work(clones: Pool, template: Template) -> None:
        state = State(template).then(
            ("CREATE TABLE made (x int)", "INSERT INTO made VALUES (1)"), (), ("DROP VIEW IF EXISTS v",)
        )
        assert len(state.scripts) == 2
        async with clones.source(state, LIMITS) as source:
            for access in Access:
                async with clones.clone(source, access) as clone:
                    assert (await run(clone, ("SELECT x FROM made",), LIMITS)).rows == (("1",),)
        async with clones.source(State(template), LIMITS) as source, clones.clone(source, Access.READ) as clone:
            with pytest.raises(QueryError, match="made"):
                await run(clone, ("SELECT x FROM made",), LIMITS)

    play(server, work)


def test_clones_are_made_ahead_and_the_next_one_is_there_at_once(server: Server) -> None:
    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, Access.WRITE, ahead=2) as first:
            await asyncio.sleep(0)
            async with asyncio.timeout(20):
                while len(names(server.dsn, TRIALS[0])) < 3:
                    await asyncio.sleep(0.02)
        async with clones.clone(template, Access.WRITE) as second:
            assert second.name != first.name

    play(server, work)


def test_everything_is_gone_after_a_cancellation(server: Server) -> None:
    async def work(clones: Pool, template: Template) -> None:
        async def hold() -> None:
            async with clones.clone(template, Access.WRITE, ahead=3) as clone:
                await run(clone, ("SELECT pg_sleep(60)",), Limits())

        task = asyncio.create_task(hold())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(server, work)
    assert not names(server.dsn, *TRIALS)


@pytest.mark.fault("E11")
def test_the_deadline_holds_against_code_that_traps_it(server: Server) -> None:
    trap = (
        "SET statement_timeout = 0; DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(60); "
        "EXCEPTION WHEN OTHERS THEN NULL; WHEN query_canceled THEN NULL; END; END LOOP; END $$"
    )

    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, Access.READ) as clone:
            begun = time.monotonic()
            with pytest.raises(QueryTimeout):
                await run(clone, (trap,), Limits(deadline_s=1))
            assert time.monotonic() - begun < 8

    play(server, work)


def test_the_disk_limit_ends_a_statement_that_writes_without_end(server: Server) -> None:
    fill = "CREATE TABLE big AS SELECT repeat(md5(i::text), 60) AS t FROM generate_series(1, 3000000) i"

    async def work(clones: Pool, template: Template) -> None:
        async with clones.clone(template, Access.WRITE) as clone:
            with pytest.raises(DiskLimit):
                await run(clone, (fill,), Limits(deadline_s=60, disk_bytes=20_000_000))
            assert (await run(clone, ("SELECT count(*) FROM item",), LIMITS)).rows == (("10",),)

    play(server, work)


def test_clones_of_a_source_that_cannot_be_had_say_why(server: Server) -> None:
    async def work(clones: Pool, template: Template) -> None:
        gone = Template("usg_t_gone", template.owner)
        with pytest.raises(ServerError, match="usg_t_gone"):
            async with clones.clone(gone, Access.READ):
                pass

    play(server, work)


def test_a_closed_pool_makes_no_clones(server: Server) -> None:
    """Else whoever still works on the ground of a lost server would leave clones on the one that came after."""

    async def work(clones: Pool, template: Template) -> None:
        await clones.close()
        with pytest.raises(ServerError, match="closed"):
            async with clones.clone(template, Access.READ):
                pass

    play(server, work)
