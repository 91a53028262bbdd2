"""Benchmark core: the throw-away PostgreSQL server, or one given by DSN.

The embedded server runs hostile SQL and holds nothing of worth: durability is off, it listens on a Unix socket in a folder
of mode 700 only, and `stop` removes its data. A state folder names it; every process that starts the same state folder
gets the same server. It outlives its owner, also one that was killed, until `stop`.
"""

import errno
import fcntl
import json
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmark_core.errors import ServerError
from benchmark_core.postgres.install import Install, locate
from benchmark_core.postgres.scram import verifier

MINIMUM_VERSION = 140000
ADMIN = "usg_admin"

_LOCK_WAIT_S = 120.0
_NEEDED_BYTES = 1 << 30
_FOLDERS = (Path("/dev/shm"), Path("/var/tmp"), Path("/tmp"))
_SETTINGS = """
listen_addresses = ''
unix_socket_permissions = 0700
password_encryption = scram-sha-256
scram_iterations = 1          # passwords are random and throw-away; halves the time to connect
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0   # float aggregates add up in one order
checkpoint_timeout = 1d
max_wal_size = 512MB
shared_buffers = 128MB
timezone = 'UTC'
log_timezone = 'UTC'
temp_file_limit = 256MB
log_min_error_statement = panic       # statements hold gold: none goes to the log
"""


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
    """What the state folder remembers: `boot` because data without fsync does not survive a reboot."""

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
    with _locked(state_dir, create=True):
        record = _read(state_dir)
        if record and (pid := _postmaster(record.data)):
            return _attach(state_dir, record, pid, started=False)
        if record and record.boot == _boot() and (record.data / "PG_VERSION").exists():
            try:
                return _attach(state_dir, record, _launch(record, _install(record)), started=True)
            except ServerError:
                _end(record.data)
        if record:
            _discard(state_dir, record)
        return _create(state_dir)


def stop(state_dir: Path) -> bool:
    """Stop the server and remove its data. True when one ran.

    Raises:
        ServerError: when the state folder is not ours alone, or the server does not end.
    """
    if not state_dir.exists():
        return False
    with _locked(state_dir, create=False):
        record = _read(state_dir)
        if record is None:
            return False
        running = _postmaster(record.data) is not None
        _end(record.data)
        _discard(state_dir, record)
        return running


def status(state_dir: Path) -> Server | None:
    """The running server, or None. Starts nothing.

    Raises:
        ServerError: when the state folder is not ours alone, or the server runs but does not answer.
    """
    if not state_dir.exists():
        return None
    with _locked(state_dir, create=False):
        record = _read(state_dir)
        pid = _postmaster(record.data) if record else None
        return _attach(state_dir, record, pid, started=False) if record and pid else None


def external(dsn: str) -> Server:
    """A server given by DSN, once it has been seen to answer, to be new enough, and to grant what the clones need.

    Raises:
        ServerError: naming what is missing; never with the DSN or its password.
    """
    try:
        parameters = {"connect_timeout": "10", **conninfo_to_dict(dsn)}
    except psycopg.Error:
        raise ServerError("the DSN cannot be read: expected 'host=… user=… dbname=…' or 'postgresql://…'") from None
    version, rights = _probe(make_conninfo("", **parameters))
    if version < MINIMUM_VERSION:
        raise ServerError(f"PostgreSQL {version // 10000} is too old: 14 or newer is needed")
    superuser, createdb, createrole, user = rights
    missing = [name for name, has in (("CREATEDB", createdb), ("CREATEROLE", createrole)) if not (has or superuser)]
    if missing:
        needed = " and ".join(missing)
        raise ServerError(f"role {user!r} lacks {needed}: run ALTER ROLE … {' '.join(missing)} as a superuser")
    return Server(make_conninfo("", **parameters), version)


def _probe(dsn: str) -> tuple[int, tuple[bool, bool, bool, str]]:
    query = "SELECT rolsuper, rolcreatedb, rolcreaterole, rolname FROM pg_roles WHERE rolname = current_user"
    try:
        with psycopg.connect(dsn) as connection:
            row = connection.execute(query).fetchone()
            version = connection.info.server_version
    except psycopg.Error as error:
        raise ServerError(f"the server does not answer: {str(error).strip()}") from None
    if row is None:
        raise ServerError("the server does not list its own role")
    return version, row


@contextmanager
def _locked(state_dir: Path, *, create: bool) -> Iterator[None]:
    if create:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = state_dir.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ServerError(f"{state_dir} must belong to this user and have mode 700: chmod 700 it, or choose another")
    handle = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _wait_for_lock(handle, state_dir)
        yield
    finally:
        os.close(handle)


def _wait_for_lock(handle: int, state_dir: Path) -> None:
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES) or time.monotonic() > deadline:
                raise ServerError(f"{state_dir} is locked by another process") from None
        time.sleep(0.02)


def _create(state_dir: Path) -> Server:
    install = locate()
    base = _new_base(install)
    record = _Record(str(base), str(install.copy) if install.copy else None, _boot())
    password = secrets.token_urlsafe(24)
    try:
        _write(state_dir / "password", password)
        _write(state_dir / "server.json", json.dumps(asdict(record)))
        _initialise(base, install, password)
        return _attach(state_dir, record, _launch(record, install), started=True)
    except BaseException:
        _end(record.data)
        _discard(state_dir, record)
        raise


def _new_base(install: Install) -> Path:
    """A folder of mode 700 for data, socket and log: in memory when it fits. Its path is short, as sockets need."""
    fits = [p for p in _FOLDERS if p.is_dir() and os.access(p, os.W_OK) and shutil.disk_usage(p).free > _NEEDED_BYTES]
    if not fits:
        raise ServerError(f"no room for a database server: 1 GiB is needed in one of {', '.join(map(str, _FOLDERS))}")
    base = Path(tempfile.mkdtemp(prefix="usg-", dir=fits[0]))
    if install.account:
        os.chown(base, install.account.uid, install.account.gid)
    return base


def _initialise(base: Path, install: Install, password: str) -> None:
    """`initdb`. It is given the SCRAM verifier in place of the password, which thus never leaves the state folder."""
    secret = base / "verifier"
    _write(secret, verifier(password))
    if install.account:
        os.chown(secret, install.account.uid, install.account.gid)
    locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    access = ["--auth=scram-sha-256", f"--pwfile={secret}", f"--username={ADMIN}"]
    data = base / "data"
    install.run(["initdb", f"--pgdata={data}", "--no-sync", "--no-instructions", *locale, *access], cwd=base)
    secret.unlink()
    with (data / "postgresql.conf").open("a", encoding="utf-8") as conf:
        conf.write(f"{_SETTINGS}unix_socket_directories = '{base}'\n")


def _launch(record: _Record, install: Install) -> int:
    _end(record.data)
    (record.data / "postmaster.pid").unlink(missing_ok=True)
    log = Path(record.base) / "log"
    install.run(["pg_ctl", "start", "--wait", "--timeout=50", f"--pgdata={record.data}"], cwd=record.data, log=log)
    pid = _postmaster(record.data)
    if pid is None:
        raise ServerError("the server ended right after its start")
    return pid


def _attach(state_dir: Path, record: _Record, pid: int, *, started: bool) -> Server:
    password = _secret(state_dir / "password")
    dsn = make_conninfo(
        "", host=record.base, port=5432, user=ADMIN, password=password, dbname="postgres", connect_timeout=10
    )
    version, _ = _probe(dsn)
    return Server(dsn, version, pid, started)


def _install(record: _Record) -> Install:
    install = locate() if record.copy is None else None
    raise NotImplementedError(install)
