"""Tests of fingerprints on real servers: what is the same stays the same, and whatever has changed is named."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from postgres_facts import TRIALS, names
from psycopg import sql

from benchmark_core.errors import QueryError
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.fingerprint import (
    Fingerprint,
    TemplateDrift,
    check_templates,
    fingerprint,
    fingerprints,
    read,
)
from benchmark_core.postgres.query import command, connect
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Template, Workspace, purge, workspace

T = TypeVar("T")
TABLES = """
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN share AS numeric CHECK (VALUE <= 1);
CREATE TABLE maker (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE item (id int GENERATED ALWAYS AS IDENTITY, maker_id int REFERENCES maker, mood mood DEFAULT 'good',
  part share, tags text[], extra jsonb, seen timestamptz, w float8,
  twice int GENERATED ALWAYS AS (maker_id * 2) STORED);
INSERT INTO maker SELECT i, 'm' || i FROM generate_series(1, 20) i;
INSERT INTO item (maker_id, part, tags, extra, seen, w) SELECT 1 + i % 20, 1.0 / i, ARRAY['a', NULL], '{"a": 1}',
  timestamptz '2024-01-01 00:00+02' + i * interval '1 hour', sqrt(i) FROM generate_series(1, 100) i;
CREATE INDEX by_mood ON item (lower(tags[1])) WHERE mood = 'good';
CREATE FUNCTION one(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER touched BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION touch();
CREATE AGGREGATE total(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0');
CREATE SEQUENCE ticket START 7;
CREATE SCHEMA aside;
CREATE TABLE aside."odd ""name's" (t text, c int);
CREATE TABLE empty ();
CREATE TABLE split (k int, v text) PARTITION BY LIST (k);
CREATE TABLE split_1 PARTITION OF split FOR VALUES IN (1);
INSERT INTO split VALUES (1, 'x');
"""
BUILD = TABLES + "CREATE VIEW names AS SELECT name FROM maker; CREATE MATERIALIZED VIEW kept AS SELECT id FROM maker;"


@pytest.fixture(params=["debian", "embedded"])
def either(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Debian's PostgreSQL 15, then the embedded 18; no template is left on them."""
    found = request.getfixturevalue(request.param)
    server = servers.external(found) if isinstance(found, str) else found
    asyncio.run(purge(server))
    yield server
    asyncio.run(purge(server))
    assert not names(server.dsn, *TRIALS)


def play(server: Server, work: Callable[[Workspace], Awaitable[T]]) -> T:
    async def main() -> T:
        async with workspace(server) as space:
            return await work(space)

    return asyncio.run(main())


async def take(space: Workspace, build: str) -> tuple[Template, Fingerprint]:
    template = await space.template(build)
    return template, (await fingerprints(space, [template]))[template]


def build_twice(server: Server, first: str, second: str) -> tuple[Fingerprint, Fingerprint]:
    """Two builds, the server empty before each."""
    one = play(server, lambda space: take(space, first))[1]
    asyncio.run(purge(server))
    return one, play(server, lambda space: take(space, second))[1]


async def tamper(space: Workspace, template: Template, *statements: str) -> None:
    """Change a template as an administrator can who knows no better."""
    name = sql.Identifier(template.name)
    async with connect(space.server.dsn) as admin:
        await command(admin, sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
        async with connect(space.server.dsn, dbname=template.name) as inside:
            for statement in statements:
                await command(inside, statement)
        await command(admin, sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))


def test_the_same_build_has_the_same_fingerprint(either: Server) -> None:
    one, two = build_twice(either, BUILD, BUILD)
    assert one == two and len(one.digest) == 64
    assert one.changes(two) == ()


def test_the_order_in_which_rows_were_written_is_of_no_matter_but_their_number_is(either: Server) -> None:
    begin = "CREATE TABLE a (x int);"
    one, two = build_twice(
        either, begin + "INSERT INTO a VALUES (1), (2), (2)", begin + "INSERT INTO a VALUES (2), (1), (2)"
    )
    assert one.digest == two.digest
    one, two = build_twice(
        either, begin + "INSERT INTO a VALUES (1), (2)", begin + "INSERT INTO a VALUES (1), (2), (2)"
    )
    assert one.changes(two) == ("rows public.a",)


def test_it_is_the_same_on_15_and_18_but_for_the_text_of_views(debian: str, server: Server) -> None:
    async def main(space: Workspace) -> Fingerprint:
        return (await take(space, BUILD))[1]

    old, new = play(servers.external(debian), main), play(server, main)
    assert set(old.changes(new)) <= {"view public.names", "view public.kept"}
    assert ("rows", "public.item") in old.parts and ("place", "public.ticket") in old.parts
    asyncio.run(purge(servers.external(debian)))


@pytest.mark.fault("D45")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE maker SET name = 'M7' WHERE id = 7", "rows public.maker"),
        ("UPDATE item SET w = w + 1e-15 WHERE id = 2", "rows public.item"),
        ("DELETE FROM item WHERE id = 3", "rows public.item"),
        ("INSERT INTO split VALUES (1, 'x')", "rows public.split_1"),
        ("""INSERT INTO aside."odd ""name's" VALUES (NULL, 1)""", """rows aside."odd ""name's\""""),
        ("REFRESH MATERIALIZED VIEW kept; INSERT INTO maker VALUES (99, 'x'); REFRESH MATERIALIZED VIEW kept; "
         "DELETE FROM maker WHERE id = 99", "rows public.kept"),
        ("CREATE OR REPLACE FUNCTION one(int) RETURNS int LANGUAGE sql AS 'SELECT 2'",
         "function public.one(integer)"),
        ("CREATE FUNCTION two() RETURNS int LANGUAGE sql AS 'SELECT 2'", "function public.two()"),
        ("DROP AGGREGATE total(int)", "function public.total(integer)"),
        ("SELECT nextval('ticket')", "place public.ticket"),
        ("SELECT setval('ticket', 7, true)", "place public.ticket"),
        ("SELECT setval('ticket', 9, false)", "place public.ticket"),
        ("ALTER SEQUENCE ticket INCREMENT 3", "sequence public.ticket"),
        ("ALTER TYPE mood ADD VALUE 'fair'", "type public.mood"),
        ("ALTER DOMAIN share DROP CONSTRAINT share_check", "type public.share"),
        ("CREATE OR REPLACE VIEW names AS SELECT name FROM maker WHERE id > 1", "view public.names"),
        ("ALTER TABLE item ALTER mood SET DEFAULT 'bad'", "table public.item"),
        ("ALTER TABLE maker ALTER name DROP NOT NULL", "table public.maker"),
        ("ALTER TABLE maker ENABLE ROW LEVEL SECURITY", "table public.maker"),
        ("ALTER TABLE item DROP CONSTRAINT item_maker_id_fkey", "constraint public.item: item_maker_id_fkey"),
        ("DROP INDEX by_mood", "index public.item: by_mood"),
        ("ALTER TABLE item DISABLE TRIGGER touched", "trigger public.item: touched"),
        ("CREATE RULE nothing AS ON DELETE TO empty DO INSTEAD NOTHING", "rule public.empty: nothing"),
        ("CREATE POLICY odd ON empty USING (false)", "policy public.empty: odd"),
        ("CREATE TABLE more (x int)", "table public.more"),
        ("CREATE SCHEMA more", "schema more"),
    ],
)  # fmt: skip
def test_whatever_has_changed_in_a_template_is_named(server: Server, change: str, named: str) -> None:
    async def main(space: Workspace) -> tuple[tuple[str, ...], str]:
        template, was = await take(space, BUILD + "--")
        other, other_was = await take(space, "CREATE TABLE untouched (x int)")
        await check_templates(space, {template: was, other: other_was})
        await tamper(space, template, *change.split("; "))
        with pytest.raises(TemplateDrift) as raised:
            await check_templates(space, {template: was, other: other_was})
        assert list(raised.value.changes) == [template] and template.name in str(raised.value)
        return raised.value.changes[template], str(raised.value)

    changes, message = play(server, main)
    asyncio.run(purge(server))
    assert named in changes and named in message
    assert len(changes) <= 2, "nothing else is blamed"


@pytest.mark.fault("D45")
def test_drift_is_seen_on_an_external_server_and_a_template_that_is_gone_is_named(either: Server) -> None:
    async def main(space: Workspace) -> tuple[str, ...]:
        template, was = await take(space, BUILD)
        await tamper(space, template, "DELETE FROM item", "SELECT nextval('ticket')")
        with pytest.raises(TemplateDrift) as raised:
            await check_templates(space, {template: was})
        await purge(space.server)
        with pytest.raises(TemplateDrift, match="the database is gone"):
            await check_templates(space, {template: was})
        return raised.value.changes[template]

    assert play(either, main) == ("place public.ticket", "rows public.item")


def test_rows_that_a_policy_or_a_cast_hides_are_seen(either: Server) -> None:
    hidden = """
    CREATE TABLE secret (x int); INSERT INTO secret VALUES (1), (2);
    ALTER TABLE secret ENABLE ROW LEVEL SECURITY; ALTER TABLE secret FORCE ROW LEVEL SECURITY;
    CREATE POLICY nobody ON secret USING (false);
    CREATE TABLE cloak (x int); INSERT INTO cloak VALUES (1);
    CREATE FUNCTION blank(cloak) RETURNS text LANGUAGE sql AS 'SELECT $$same$$';
    CREATE CAST (cloak AS text) WITH FUNCTION blank(cloak) AS IMPLICIT;
    """
    one, two = build_twice(either, hidden, hidden + "INSERT INTO cloak VALUES (2)")
    assert one.changes(two) == ("rows public.cloak",)
    drop = (
        "DROP POLICY nobody ON secret; ALTER TABLE secret NO FORCE ROW LEVEL SECURITY; DELETE FROM secret WHERE x = 2;"
    )
    again = "ALTER TABLE secret FORCE ROW LEVEL SECURITY; CREATE POLICY nobody ON secret USING (false)"
    one, two = build_twice(either, hidden, hidden + drop + again)
    assert one.changes(two) == ("rows public.secret",)


def test_reading_a_hostile_table_gives_its_code_no_rights(either: Server) -> None:
    """The expression of an index is evaluated by whoever plans a SELECT on its table."""
    hostile = """
    CREATE TABLE trap (x int); INSERT INTO trap VALUES (1);
    CREATE FUNCTION seize(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
      IF (SELECT rolcreatedb FROM pg_roles WHERE rolname = current_user) THEN RAISE 'seized'; END IF; RETURN 1; END $$;
    CREATE INDEX ON trap ((seize(1)));
    """

    async def main(space: Workspace) -> tuple[str, bool]:
        template, was = await take(space, hostile)
        async with space.clone(template) as clone:
            async with connect(space.server.dsn, dbname=clone.name) as inside:
                try:
                    await command(inside, "SELECT * FROM trap")
                except QueryError as error:
                    return str(error), bool(was.digest)
        return "", False

    assert play(either, main) == ("seized", True), "an administrator's SELECT runs it; the fingerprint was read without"


def test_a_table_that_somebody_else_put_there_is_drift_not_an_error(server: Server) -> None:
    async def main(space: Workspace) -> tuple[str, ...]:
        template, was = await take(space, "CREATE TABLE mine (x int)")
        await tamper(space, template, "CREATE TABLE theirs (x serial)", "INSERT INTO theirs VALUES (1)")
        with pytest.raises(TemplateDrift) as raised:
            await check_templates(space, {template: was})
        return raised.value.changes[template]

    assert {"table public.theirs", "rows public.theirs"} <= set(play(server, main))
    asyncio.run(purge(server))


def test_a_clone_can_be_read_twice_and_is_left_as_it_is(server: Server) -> None:
    async def main(space: Workspace) -> None:
        async with space.clone(await space.template(BUILD)) as clone:
            before = await fingerprint(clone)
            assert await fingerprint(clone) == before
            assert (await read(clone)).digest == before

    play(server, main)


def test_fifty_thousand_rows_in_eighty_tables_take_well_under_a_second(server: Server) -> None:
    build = "".join(
        f"CREATE TABLE t{n} (id int PRIMARY KEY, name text, amount numeric, at timestamptz, extra jsonb);"
        f"INSERT INTO t{n} SELECT i, 'name ' || i, i * 1.5, timestamptz '2024-01-01' + i * interval '1 min', "
        f"'{{\"k\": [1, 2]}}' FROM generate_series(1, 625) i;"
        for n in range(80)
    )

    async def main(space: Workspace) -> float:
        async with space.clone(await space.template(build)) as clone:
            await fingerprint(clone)
            begin = time.monotonic()
            await fingerprint(clone)
            return time.monotonic() - begin

    assert play(server, main) < 1.5, "0.2 s on an idle machine"
    asyncio.run(purge(server))
