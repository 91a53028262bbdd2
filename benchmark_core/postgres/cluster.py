"""Benchmark core: data folder and processes of the embedded server. Knows no state folder and opens no connection."""

import ctypes
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from benchmark_core.errors import ServerError
from benchmark_core.postgres.install import Install
from benchmark_core.postgres.scram import verifier

ADMIN = "usg_admin"

_NEEDED_BYTES = 1 << 30
_FOLDERS = (Path("/dev/shm"), Path("/var/tmp"), Path("/tmp"))
_SETTINGS = """
listen_addresses = ''
unix_socket_permissions = 0700
password_encryption = scram-sha-256
scram_iterations = 1
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
dynamic_shared_memory_type = mmap    # its files lie in the data folder, and go with it
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0  # float aggregates add up in one order
checkpoint_timeout = 1d
max_wal_size = 512MB
shared_buffers = 128MB
timezone = 'UTC'
log_timezone = 'UTC'
temp_file_limit = 256MB
log_min_error_statement = panic     # statements hold gold: none goes to the log
"""


def make(install: Install, password: str) -> Path:
    """A new folder of mode 700 for data, socket and log: in memory when it fits, with a path short enough for a socket.

    Raises:
        ServerError: when there is no room, or initdb fails.
    """
    fits = [p for p in _FOLDERS if p.is_dir() and os.access(p, os.W_OK) and shutil.disk_usage(p).free > _NEEDED_BYTES]
    if not fits:
        raise ServerError(f"no room for a database server: 1 GiB is needed in one of {', '.join(map(str, _FOLDERS))}")
    base = Path(tempfile.mkdtemp(prefix="usg-", dir=fits[0]))
    try:
        _initialise(base, install, password)
    except BaseException:
        shutil.rmtree(base, ignore_errors=True)
        raise
    return base


def _initialise(base: Path, install: Install, password: str) -> None:
    """`initdb`. It is given the SCRAM verifier in place of the password."""
    secret = base / "verifier"
    secret.write_text(verifier(password))
    if install.account:
        for path in (base, secret):
            os.chown(path, install.account.uid, install.account.gid)
    data = base / "data"
    locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    access = ("--auth=scram-sha-256", f"--pwfile={secret}", f"--username={ADMIN}")
    install.run(["initdb", f"--pgdata={data}", "--no-sync", "--no-instructions", *locale, *access], cwd=base)
    secret.unlink()
    with (data / "postgresql.conf").open("a", encoding="utf-8") as conf:
        conf.write(f"{_SETTINGS}unix_socket_directories = '{base}'\n")


def launch(base: Path, install: Install) -> int:
    """Start the server on its data, after what may be left of a killed one is gone; its process id.

    Raises:
        ServerError: with the end of the server's log.
    """
    data = base / "data"
    end(data)
    for stale in (data / "postmaster.pid", *base.glob(".s.PGSQL.*")):  # the process id of a zombie looks alive
        stale.unlink(missing_ok=True)
    install.run(["pg_ctl", "start", "--wait", "--timeout=50", f"--pgdata={data}"], cwd=base, log=base / "log")
    pid = postmaster(data)
    if pid is None:
        raise ServerError("the server ended right after its start")
    return pid


def postmaster(data: Path) -> int | None:
    """The server's process id. One that another program was given since does not count: its working folder differs."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if _works_in(pid, data) else None


def end(data: Path) -> None:
    """End the server: ask it first, then make it. Backends whose server was killed go too, for they hold its memory.

    Raises:
        ServerError: when processes remain.
    """
    for kind, patience_s in ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0)):
        if pid := postmaster(data):
            _signal([pid], kind)
            gone(data, patience_s, [pid])
    if postmaster(data) is None:
        gone(data, 1.0, _processes(data))
    _signal(_processes(data), signal.SIGKILL)
    if not gone(data, 5.0, _processes(data)):
        raise ServerError(f"processes of the server in {data} do not end: {_processes(data)}")
    _release(data)


def _release(data: Path) -> None:
    """Remove the System V segment of a server that was killed: nothing else ever would, and their number is limited."""
    try:
        key, segment = (data / "postmaster.pid").read_text().splitlines()[6].split()
        segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    except (OSError, ValueError, IndexError):  # it ended well, or never got so far
        return
    if any(found[:2] == [key, segment] and found[6] == "0" for found in segments):
        ctypes.CDLL(None).shmctl(int(segment), 0, None)  # 0 is IPC_RMID


def boot() -> str:
    """The machine's boot id: data that was never synced is not to be trusted after a reboot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _works_in(pid: int, data: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(data)
    except OSError:  # gone, a zombie, or not ours
        return False


def _processes(data: Path) -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _works_in(int(entry), data)]


def _signal(pids: Iterable[int], kind: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, kind)


def gone(data: Path, patience_s: float, pids: list[int]) -> bool:
    """Whether the processes end within `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    while any(_works_in(pid, data) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
