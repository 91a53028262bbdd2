"""Tests: dumps as the real pg_dump writes them, a file a table, loaded on 18 and on Debian's 15, or refused."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from benchmark_core.errors import InputError
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.dump_files import find_dumps
from benchmark_core.postgres.dumps import Loaded, find_loaded, load_dump
from benchmark_core.postgres.fingerprint import fingerprints
from benchmark_core.postgres.install import locate
from benchmark_core.postgres.query import run_script
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import workspace

MART = r"""
CREATE TABLE zone (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE "Shop" (id serial PRIMARY KEY, zone_id int REFERENCES zone, note text, facts jsonb);
CREATE TABLE allocation (shop_id int REFERENCES "Shop", day date, amount numeric(12, 2), PRIMARY KEY (shop_id, day));
CREATE TABLE nothing (id int);
INSERT INTO zone SELECT i, 'zone ' || i FROM generate_series(1, 20) i;
INSERT INTO "Shop" (zone_id, note, facts) SELECT 1 + i % 20, E'\\. tab\there\nGRANT ALL ON zone TO x;\\restrict ' || i,
    jsonb_build_object('n', i) FROM generate_series(1, 500) i;
INSERT INTO allocation SELECT 1 + i % 500, date '2031-01-01' + i / 500, i / 7.0 FROM generate_series(0, 19999) i;
"""
TABLES = ("zone", "Shop", "allocation", "nothing")


@pytest.fixture(scope="module")
def dumped(embedded: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `mart_template`, a file a table, as the official dumps lie."""
    folder = tmp_path_factory.mktemp("dumps") / "mart_template"
    folder.mkdir()
    with psycopg.connect(embedded.dsn, autocommit=True) as admin:
        admin.execute("CREATE ROLE reader_of_mart")
        admin.execute("CREATE DATABASE mart TEMPLATE template0")
    inside = make_conninfo(embedded.dsn, dbname="mart")
    with psycopg.connect(inside, autocommit=True) as connection:
        connection.execute(MART)
        connection.execute("GRANT SELECT ON zone TO reader_of_mart")
    try:
        for table in TABLES:
            text = dump(inside, f'--table=public."{table}"')
            (folder / f"{table.lower()}.sql").write_bytes(text)
    finally:
        with psycopg.connect(embedded.dsn, autocommit=True) as admin:
            admin.execute("DROP DATABASE mart")
            admin.execute("DROP ROLE reader_of_mart")
    return folder


def dump(dsn: str, *options: str) -> bytes:
    binaries = locate().binaries
    return subprocess.run([binaries / "pg_dump", dsn, *options], check=True, capture_output=True).stdout


@pytest.fixture
def folder(dumped: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(dumped, tmp_path / "mart_template"))


@pytest.fixture(params=["embedded", "debian"])
def anywhere(request: pytest.FixtureRequest) -> Iterator[Server]:
    found = request.getfixturevalue(request.param)
    yield found if isinstance(found, Server) else servers.external(found)


async def load(server: Server, folder: Path) -> Loaded:
    steps: list[int] = []
    [found] = find_dumps(folder)
    async with workspace(server) as space:
        loaded = await load_dump(space, found, steps.append)
    assert found.bytes <= sum(steps) < found.bytes + 200 * len(found.files), "progress is told of every byte"
    return loaded


def test_a_dump_of_a_file_a_table_loads_whole(anywhere: Server, dumped: Path) -> None:
    async def work() -> None:
        loaded = await load(anywhere, dumped)
        assert (loaded.name, loaded.tables, loaded.rows) == ("mart", 4, 20_520)
        async with workspace(anywhere) as space:
            template = await find_loaded(space, "mart")
            assert template == loaded.template
            built = await space.template(MART)
            prints = await fingerprints(space, [loaded.template, built])
            assert prints[loaded.template].digest == prints[built].digest, prints[built].changes(
                prints[loaded.template]
            )
            async with space.clone(loaded.template) as clone, clone.session() as session:
                note = (await run_script(session, ('SELECT note FROM "Shop" WHERE id = 7',), 9)).rows[0][0]
                assert note == "\\. tab\there\nGRANT ALL ON zone TO x;\\restrict 7"
        again = await load(anywhere, dumped)
        assert (again.template, again.rows) == (loaded.template, loaded.rows)

    asyncio.run(work())


def test_owners_and_rights_are_passed_over(embedded: Server, folder: Path) -> None:
    path = folder / "zone.sql"
    assert "OWNER TO" in path.read_text() and "GRANT SELECT" in path.read_text()
    path.write_text(path.read_text() + "GRANT SELECT ON TABLE public.zone TO nobody_known;\n")
    assert asyncio.run(load(embedded, folder)).passed_over >= 2


def test_another_dump_takes_over_the_name(embedded: Server, folder: Path) -> None:
    async def work() -> None:
        first = await load(embedded, folder)
        path = folder / "zone.sql"
        path.write_text(path.read_text() + "INSERT INTO public.nothing VALUES (1);\n")
        second = await load(embedded, folder.rename(folder.with_name("mart")))
        async with workspace(embedded) as space:
            assert await find_loaded(space, "mart") == second.template != first.template
            assert await find_loaded(space, "other") is None

    with pytest.raises(InputError, match="1 rows in nothing, where the dump holds 0"):
        asyncio.run(work())
    (folder.with_name("mart") / "nothing.sql").write_text("CREATE TABLE public.nothing (id int);\n")
    asyncio.run(load(embedded, folder.with_name("mart")))


def test_schema_and_rows_in_files_of_their_own(embedded: Server, tmp_path: Path) -> None:
    (tmp_path / "a-inputs.sql").write_text("INSERT INTO public.t VALUES (1), (2);\n")
    (tmp_path / "b-schema.sql").write_text("CREATE TABLE public.t (id int);\n")
    assert asyncio.run(load(embedded, tmp_path)).rows == 2


def edited(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.write_text(change(path.read_text()))

    return spoil


def added(text: str) -> Callable[[Path], None]:
    return edited("zone.sql", lambda before: before + text)


SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut in data": (edited("allocation.sql", lambda text: text[: text.index("\\.")]), "within the rows of a COPY"),
    "cut at the end": (edited("zone.sql", lambda text: text[:-200]), "last line is missing"),
    "no constraint": (edited("zone.sql", lambda text: text.replace("KEY (id)", "KEY (ID_)")), r"zone.sql:\d+: "),
    "row too short": (edited("zone.sql", lambda text: text.replace("\tzone 7", "")), r"zone.sql:\d+: missing data"),
    "a row lost": (
        edited("allocation.sql", lambda text: text + "DELETE FROM public.allocation WHERE amount = 0;\n"),
        "19999 rows in allocation, where the dump holds 20000",
    ),
    "missing table": (lambda folder: (folder / "zone.sql").unlink(), r"shop.sql:\d+: .*zone"),
    "not plain": (edited("zone.sql", lambda text: "PGDMP" + text), "own format"),
    "a program": (added("\\! touch {mark}\n"), r"zone.sql:\d+: backslash commands are restricted"),
    "a file": (added("\\i {mark}\n"), "restricted"),
    "an output": (added("SELECT 1 \\g {mark}\n"), "restricted"),
    "a way out": (added("\\unrestrict abc \n\\unrestrict {mark}\n\\! touch {mark}\n"), "restrict"),
    "COPY PROGRAM": (added("COPY public.zone TO PROGRAM 'touch {mark}';\n"), "permission denied|must be superuser"),
    "a role": (added("CREATE ROLE intruder SUPERUSER;\n"), "permission denied|must be superuser"),
    "a database": (added("\\connect postgres\n"), "restricted"),
}


@pytest.mark.fault("D45")
@pytest.mark.parametrize("how", SPOILED)
def test_what_is_not_whole_or_not_harmless_is_refused(anywhere: Server, folder: Path, tmp_path: Path, how: str) -> None:
    spoil, words = SPOILED[how]
    spoil(folder)
    mark = tmp_path / "mark"
    if (folder / "zone.sql").exists():
        edited("zone.sql", lambda text: text.replace("{mark}", str(mark)))(folder)
    tmp_path.chmod(0o777)
    with pytest.raises(InputError, match=words):
        asyncio.run(load(anywhere, folder))
    assert not mark.exists()


@pytest.mark.parametrize("where", ["nowhere", "empty"])
def test_a_folder_without_dumps_is_named(tmp_path: Path, where: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=where):
        find_dumps(tmp_path / where)


def test_tables_that_refer_to_each_other_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE a (id int);\nALTER TABLE a ADD FOREIGN KEY (id) REFERENCES b (id);\n")
    (tmp_path / "b.sql").write_text("CREATE TABLE b (id int);\nALTER TABLE b ADD FOREIGN KEY (id) REFERENCES a (id);\n")
    with pytest.raises(InputError, match=r"circle of references: .*a\.sql"):
        find_dumps(tmp_path)


def test_a_folder_of_databases(dumped: Path, tmp_path: Path) -> None:
    shutil.copytree(dumped, tmp_path / "all" / "one_template")
    shutil.copytree(dumped, tmp_path / "all" / "two")
    os.mkdir(tmp_path / "all" / "empty")
    assert [found.name for found in find_dumps(tmp_path / "all")] == ["one", "two"]
    [found] = find_dumps(dumped)
    order = [file.path.stem for file in found.files]
    assert order.index("zone") < order.index("shop") < order.index("allocation")
