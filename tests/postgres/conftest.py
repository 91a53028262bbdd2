"""Tests: real servers. Each one is started by the tests, in a folder of theirs, and stopped by them."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from postgres_facts import TEMPLATES, TRIALS, names
from psycopg.conninfo import make_conninfo

from benchmark_core.postgres import server as servers
from benchmark_core.postgres.install import Install, locate
from benchmark_core.postgres.scram import verifier
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import purge

DEBIAN = Path("/usr/lib/postgresql/15/bin")
PASSWORD = "a-password-that-must-not-show"


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state folder of this test alone; its server is stopped at the end."""
    folder = tmp_path / "state"
    yield folder
    if folder.exists():
        folder.chmod(0o700)
        servers.stop(folder)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One embedded server for all tests; at the end nothing may be left that `purge` does not find."""
    folder = tmp_path_factory.mktemp("postgres") / "state"
    server = servers.start(folder)
    yield server
    asyncio.run(purge(server))
    left = names(server.dsn, *TEMPLATES, *TRIALS)
    assert servers.stop(folder)
    assert not left


@pytest.fixture
def server(embedded: Server) -> Iterator[Server]:
    """The embedded server, with a check that the test left no clone and no role behind."""
    yield embedded
    assert not names(embedded.dsn, *TRIALS)


@pytest.fixture(scope="session")
def debian() -> Iterator[str]:
    """DSN of a superuser on Debian's PostgreSQL 15."""
    if not (DEBIAN / "postgres").exists():
        pytest.skip(f"no PostgreSQL 15 in {DEBIAN}")
    install = replace(locate(), binaries=DEBIAN)
    base = Path(tempfile.mkdtemp(prefix="usg-15-", dir="/tmp"))
    try:
        yield from _debian(base, install)
    finally:
        shutil.rmtree(base)


def _debian(base: Path, install: Install) -> Iterator[str]:
    secret = base / "verifier"
    secret.write_text(verifier(PASSWORD))
    if install.account:
        for path in (base, secret):
            shutil.chown(path, install.account.uid, install.account.gid)
    data = f"--pgdata={base / 'data'}"
    install.run(["initdb", data, "--auth=scram-sha-256", "-U", "boss", f"--pwfile={secret}"], cwd=base)
    options = f"-c listen_addresses='' -c unix_socket_directories='{base}' -c fsync=off"
    install.run(["pg_ctl", "start", "--wait", data, f"--options={options}"], cwd=base, log=base / "log")
    try:
        yield make_conninfo("", host=str(base), user="boss", password=PASSWORD, dbname="postgres")
    finally:
        install.run(["pg_ctl", "stop", "--mode=immediate", data], cwd=base)


@pytest.fixture
def limited() -> Iterator[Callable[[str, str], str]]:
    """Makes a login role with given rights on a server, and gives its DSN; the role goes at the end."""
    made: list[str] = []

    def make(dsn: str, rights: str) -> str:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE limited LOGIN {rights} PASSWORD '{verifier(PASSWORD)}'")
        made.append(dsn)
        return make_conninfo(dsn, user="limited", password=PASSWORD)

    yield make
    for dsn in made:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP ROLE limited")
