"""Tests: hostile submissions, each first seen to work on a sandbox as weak as the public one, then on ours."""

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from graders import grades, query, task
from hostile import ATTACKS, Attack, Proof
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmark_core.grading.official import grade_default
from benchmark_core.grading.outcome import Outcome
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.query import connect
from benchmark_core.postgres.sandbox import Limits
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Clone, size

BUILD = """
CREATE TABLE sale (id int PRIMARY KEY, shop text, qty int, price numeric(10, 2));
INSERT INTO sale VALUES (1, 'A', 3, 2.00), (2, 'A', 5, 1.50), (3, 'B', 1, 9.99), (4, 'B', 1, 9.99), (5, 'C', 8, 0.25);
CREATE TABLE code (code varchar(9));
INSERT INTO code VALUES ('abc');
CREATE FUNCTION tax(p numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT p * 0.2';
CREATE TABLE archive (id int, shop text);
CREATE SEQUENCE counter;
"""
PASSWORD = "only-for-this-test"
LIMITS = Limits(deadline_s=1.5, disk_bytes=32 << 20)
TIMEOUT_S, OUTLASTS_S = 0.5, 2.5


@pytest.fixture(scope="module", params=["embedded", pytest.param("debian", marks=pytest.mark.soak)])
def field(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, and a bystander who must not be touched."""
    if request.param == "debian":
        yield from with_bystander(servers.external(request.getfixturevalue("debian")))
        return
    folder = tmp_path_factory.mktemp("field") / "state"
    try:
        yield from with_bystander(servers.start(folder))
    finally:
        servers.stop(folder)


def with_bystander(server: Server) -> Iterator[Server]:
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE bystander LOGIN PASSWORD '{PASSWORD}'")
        admin.execute("CREATE DATABASE other")
    yield server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's account may write to."""
    path = Path(f"/tmp/usg-hostile-{os.getpid()}")
    path.mkdir()
    path.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    yield path
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


@asynccontextmanager
async def weak(server: Server, *, owner: bool) -> AsyncIterator[Clone]:
    """A database as the public environment has it: its role is a superuser, or at least owns everything."""
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE weak LOGIN {'' if owner else 'SUPERUSER'} PASSWORD '{PASSWORD}'")
        admin.execute("CREATE DATABASE weak OWNER weak")
    try:
        async with connect(server.dsn) as watching:
            clone = Clone("weak", "weak", "weak", server, watching, PASSWORD, await size(watching, "weak"))
            async with clone.session() as session:
                await session.connection.execute(BUILD)
            yield clone
    finally:
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute("ALTER DATABASE weak IS_TEMPLATE false")
            admin.execute("DROP DATABASE weak WITH (FORCE)")
            admin.execute("DROP ROLE weak")


@contextmanager
def bystander(server: Server) -> Iterator[None]:
    """Somebody else's session, whose last query holds a secret."""
    dsn = make_conninfo(server.dsn, user="bystander", password=PASSWORD, dbname="other")
    connection = psycopg.connect(dsn, autocommit=True)
    try:
        connection.execute("SELECT 'secret'")
        yield
    finally:
        connection.close()


def ask(server: Server, question: str) -> bool:
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        return bool(admin.execute(question).fetchone()[0])  # type: ignore[index]


async def works(server: Server, attack: Attack, statement: str, file: Path) -> bool:
    """Whether an attack does what it is meant to, on a weak sandbox."""
    async with weak(server, owner=attack.owner) as clone:
        match attack.proof:
            case Proof.REWARDED:
                verdict = await grade_default(clone, (statement,), (attack.reference,), order=False, limits=Limits())
                return verdict.passed
            case Proof.OUTLASTS:
                return await _outlasts(clone, statement)
            case _:
                async with clone.session() as session:
                    size = "SELECT pg_database_size(current_database())"
                    before = await (await session.connection.execute(size)).fetchone()
                    with suppress(psycopg.Error):  # also a statement that is refused late may have done its harm
                        await session.connection.execute(statement)
                    with suppress(psycopg.Error):  # as the public code does next
                        await session.connection.execute(attack.reference)
                    after = await (await session.connection.execute(size)).fetchone()
                assert before and after
                if attack.proof is Proof.GROWS:
                    return bool(after[0] - before[0] > 64 << 20)
                if attack.proof is Proof.FILE:
                    return file.exists()
                worked = ask(server, attack.seen)
                _undo(server, attack)
                return worked


async def _outlasts(clone: Clone, statement: str) -> bool:
    async with clone.session() as session:
        await session.connection.execute(f"SET statement_timeout = '{TIMEOUT_S}s'")
        begun = time.monotonic()
        with suppress(psycopg.Error):
            await session.connection.execute(statement)
        return time.monotonic() - begun > OUTLASTS_S


def _undo(server: Server, attack: Attack) -> None:
    if attack.undo:
        inside = attack.undo.startswith("IN_DATABASE ")
        dsn = make_conninfo(server.dsn, dbname="weak") if inside else server.dsn
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(sql.SQL(attack.undo.removeprefix("IN_DATABASE ")))  # type: ignore[arg-type]


def params() -> list[object]:
    return [
        pytest.param(attack, id=attack.name, marks=[pytest.mark.fault(number) for number in attack.faults])
        for attack in ATTACKS
    ]


@pytest.mark.parametrize("attack", params())
def test_a_hostile_submission_works_on_a_weak_sandbox_and_not_on_ours(
    field: Server, folder: Path, attack: Attack
) -> None:
    file = folder / "out"
    statement = attack.sql.replace("{file}", str(file))
    with bystander(field):
        assert asyncio.run(works(field, attack, statement, file)), "it must work on a weak sandbox"
    file.unlink(missing_ok=True)

    honest = attack.reference
    with bystander(field):
        begun = time.monotonic()
        oracle = task(query(attack.reference))
        before, hostile, after = grades(field, oracle, honest, statement, honest, build=BUILD, limits=LIMITS)
        took = time.monotonic() - begun
        assert attack.proof is not Proof.EFFECT or not ask(field, attack.seen), "it must have no effect"
    assert not file.exists()
    assert not hostile.strict.passed, "it must earn nothing"
    assert hostile.strict.outcome is not Outcome.INFRASTRUCTURE
    assert before.strict.passed and after.strict.passed, "who comes next is graded as before"
    assert took < 4 * LIMITS.deadline_s + 10
    if attack.proof is Proof.OUTLASTS:
        assert hostile.strict.outcome is Outcome.TIMEOUT


@pytest.mark.fault("E06")
def test_a_transaction_cannot_be_prepared_and_left(field: Server) -> None:
    assert ask(field, "SELECT current_setting('max_prepared_transactions') = '0'")
    prepared = "CREATE TABLE mine (x int); BEGIN; INSERT INTO mine VALUES (1); PREPARE TRANSACTION 'held'"
    [verdict] = grades(field, task(query("SELECT 1")), prepared, build=BUILD, limits=LIMITS)
    assert verdict.strict.outcome is Outcome.EXECUTION_ERROR and not verdict.official.passed
    assert not ask(field, "SELECT count(*) > 0 FROM pg_prepared_xacts")


def test_nobody_can_replicate(field: Server) -> None:
    assert ask(field, "SELECT count(*) = 0 FROM pg_roles WHERE rolreplication AND NOT rolsuper")
    minimal = "SELECT current_setting('wal_level') = 'minimal' AND current_setting('max_wal_senders') = '0'"
    assert not field.embedded or ask(field, minimal)


def test_there_are_sixty_over_a_dozen_mechanisms() -> None:
    assert len(ATTACKS) >= 60 and len({attack.mechanism for attack in ATTACKS}) >= 12
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def test_limits_are_stricter_here_than_what_the_attacks_need() -> None:
    assert LIMITS.deadline_s < OUTLASTS_S and replace(LIMITS).disk_bytes < 64 << 20
