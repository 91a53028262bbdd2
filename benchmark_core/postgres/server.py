"""Benchmark core: the throw-away PostgreSQL server, or one given by DSN.

The embedded server runs hostile SQL and holds nothing of worth: durability is off, it listens only on a Unix socket
in a folder of mode 700, and `stop` removes its data. A state folder names it; every process that starts the same state
folder gets the same server. It outlives its owner, also one that was killed, until `stop`.
"""

import json
import logging
import secrets
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmark_core.errors import ServerError
from benchmark_core.postgres import cluster
from benchmark_core.postgres.folder import locked, write
from benchmark_core.postgres.install import Install, locate

MINIMUM_VERSION = 140000

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that can be used.

    Attributes:
        dsn: for the administrator; holds the password, so it is not in the repr and must not be logged.
        version: as PostgreSQL numbers it, 180006 for 18.6.
        pid: of the embedded server; None for an external one.
        started: whether this call started it (False: attached, or external).
    """

    dsn: str = field(repr=False)
    version: int
    pid: int | None = None
    started: bool = False

    @property
    def embedded(self) -> bool:
        return self.pid is not None


@dataclass(frozen=True, slots=True)
class _Record:
    """What the state folder remembers of its server."""

    base: str
    copy: str | None
    boot: str

    @property
    def data(self) -> Path:
        return Path(self.base) / "data"


def start(state_dir: Path) -> Server:
    """Attach to the server of `state_dir`, or start it; a killed one is recovered, or made anew when that fails.

    Raises:
        ServerError: when no server can be had; the message says what to mend.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(state_dir):
        record = _read(state_dir)
        if record and (running := _running(state_dir, record)):
            return running
        install = locate()
        if record and record.boot == cluster.boot() and (recovered := _recover(state_dir, record, install)):
            return recovered
        if record:
            _discard(state_dir, record)
        return _create(state_dir, install)


def stop(state_dir: Path) -> bool:
    """Stop the server and remove its data. True when one ran.

    Raises:
        ServerError: when the state folder is not ours alone, or the server does not end.
    """
    if not state_dir.exists():
        return False
    with locked(state_dir):
        record = _read(state_dir)
        if record is None:
            return False
        running = cluster.postmaster(record.data) is not None
        _discard(state_dir, record)
        return running


def status(state_dir: Path) -> Server | None:
    """The running server, or None. Starts nothing.

    Raises:
        ServerError: when the state folder is not ours alone, or the server runs but does not answer.
    """
    if not state_dir.exists():
        return None
    with locked(state_dir):
        record = _read(state_dir)
        return _running(state_dir, record) if record else None


def external(dsn: str) -> Server:
    """A server given by DSN, once it has been seen to answer, to be new enough, and to grant what the clones need.

    Raises:
        ServerError: naming what is missing; never with the DSN or its password.
    """
    try:
        full = make_conninfo("", **{"connect_timeout": 10, **conninfo_to_dict(dsn)})
    except psycopg.Error:
        raise ServerError("the DSN cannot be read: expected 'host=… user=… dbname=…' or 'postgresql://…'") from None
    version, user, rights = _probe(full)
    if version < MINIMUM_VERSION:
        raise ServerError(f"PostgreSQL {version // 10000} is too old: 14 or newer is needed")
    if missing := [name for name, has in rights.items() if not has]:
        raise ServerError(
            f"role {user!r} lacks {' and '.join(missing)}: a superuser must ALTER ROLE … {' '.join(missing)}"
        )
    return Server(full, version)


def _probe(dsn: str) -> tuple[int, str, dict[str, bool]]:
    query = (
        "SELECT rolname, rolcreatedb OR rolsuper, rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user"
    )
    try:
        with psycopg.connect(dsn, client_encoding="utf8") as connection:
            row = connection.execute(query).fetchone()
            version = connection.info.server_version
    except psycopg.Error as error:
        raise ServerError(f"the server does not answer: {str(error).strip()}") from None
    if row is None:
        raise ServerError("the server does not list its own role")
    return version, row[0], {"CREATEDB": row[1], "CREATEROLE": row[2]}


def _running(state_dir: Path, record: _Record) -> Server | None:
    pid = cluster.postmaster(record.data)
    if pid is None:
        return None
    try:
        return _attach(state_dir, record, pid, started=False)
    except ServerError:
        if cluster.gone(record.data, 5.0, [pid]):  # it was about to end
            return None
        raise


def _recover(state_dir: Path, record: _Record, install: Install) -> Server | None:
    """The killed server on its old data, or None when that cannot be had: all that it holds can be built again."""
    try:
        server = _attach(state_dir, record, cluster.launch(Path(record.base), install), started=True)
    except (ServerError, OSError) as error:
        _LOG.warning("the server's data cannot be recovered and is made anew: %s", error)
        return None
    _drop_copy(record.copy)
    _remember(state_dir, record.base, install)
    return server


def _create(state_dir: Path, install: Install) -> Server:
    password = secrets.token_urlsafe(24)
    write(state_dir / "password", password)
    try:
        record = _remember(state_dir, str(cluster.make(install, password)), install)
    except BaseException:
        _drop_copy(install.copy)
        raise
    try:
        return _attach(state_dir, record, cluster.launch(Path(record.base), install), started=True)
    except BaseException:
        _discard(state_dir, record)
        raise


def _attach(state_dir: Path, record: _Record, pid: int, *, started: bool) -> Server:
    try:
        password = (state_dir / "password").read_text()
    except OSError:
        raise ServerError(f"the server of {state_dir} runs, but its password is gone: stop it first") from None
    dsn = make_conninfo(
        "", host=record.base, port=5432, user=cluster.ADMIN, password=password, dbname="postgres", connect_timeout=10
    )
    return Server(dsn, _probe(dsn)[0], pid, started)


def _discard(state_dir: Path, record: _Record) -> None:
    cluster.end(record.data)
    shutil.rmtree(record.base, ignore_errors=True)
    _drop_copy(record.copy)
    for name in ("server.json", "password"):
        (state_dir / name).unlink(missing_ok=True)


def _drop_copy(copy: Path | str | None) -> None:
    if copy:
        shutil.rmtree(copy, ignore_errors=True)


def _remember(state_dir: Path, base: str, install: Install) -> _Record:
    record = _Record(base, str(install.copy) if install.copy else None, cluster.boot())
    write(state_dir / "server.json", json.dumps(asdict(record)))
    return record


def _read(state_dir: Path) -> _Record | None:
    try:
        return _Record(**json.loads((state_dir / "server.json").read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise ServerError(
            f"{state_dir / 'server.json'} is damaged: stop its server by hand and remove the file"
        ) from None
