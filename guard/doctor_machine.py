"""Guard: what `doctor` looks at on the machine: Python, packages, room, limits, clock, scheduler."""

import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from guard.doctor_names import DISTRIBUTION
from guard.finding import Finding, Level

_GIB = 1 << 30
_ENOUGH_BYTES = _GIB  # a run of 2,100 questions writes some 10 MB; the embedded server wants 1 GiB
_LEAST_BYTES = 100 << 20
_MEMORY_BYTES = 2 * _GIB  # what one server process may take at most (`postgres.install.MEMORY_KIB`)
_SPARE_FILES = 64  # open before the first connection: libraries, ledger, completions
_FEWEST, _FEW = 8, 64  # `--concurrency`: the default; the most that a big run usefully has on one machine
_FIRST_YEAR = 2025
_SCHEDULER_S = 10.0


def check_python() -> Iterator[Finding]:
    """The running Python against `requires-python`."""
    version, wanted = platform.python_version(), _metadata("Requires-Python")
    seen = f"{version} ({sys.executable}), {wanted} is needed"
    fits = SpecifierSet(wanted).contains(version, prereleases=True)
    repair = f"make an environment with a fitting Python and pip install {DISTRIBUTION} there"
    yield Finding("python", "ok", seen) if fits else Finding("python", "fail", seen, repair)


def _metadata(field: str) -> str:
    try:
        return str(metadata.metadata(DISTRIBUTION)[field] or "")
    except metadata.PackageNotFoundError:
        return ""


def check_packages() -> Iterator[Finding]:
    """Every package that this one requires, and those of the extras that it asks for."""
    try:
        wanted = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or ()]
    except metadata.PackageNotFoundError:
        yield Finding("packages", "warn", f"{DISTRIBUTION} is not installed, so its ranges are not known", "make setup")
        return
    wanted = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    wanted += [extra for one in wanted for extra in _of_extras(one)]
    wrong = [(one, has) for one in wanted if not _fits(one, has := _version(one.name))]
    if not wrong:
        yield Finding("packages", "ok", f"{len(wanted)} packages within their ranges")
    for one, has in wrong:
        repair = f"pip install '{one.name}{one.specifier}'"
        yield Finding("packages", "fail", f"{one.name} {has or 'is missing'}; needed is {one.specifier}", repair)


def _of_extras(requirement: Requirement) -> Iterator[Requirement]:
    if not requirement.extras or _version(requirement.name) is None:
        return
    for one in map(Requirement, metadata.requires(requirement.name) or ()):
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            if any(one.marker.evaluate({"extra": extra}) for extra in requirement.extras):
                yield one


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fits(requirement: Requirement, version: str | None) -> bool:
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def check_room(name: str, folder: Path) -> Iterator[Finding]:
    """Whether a folder, which need not exist yet, can be written to and has room."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    name = f"room for {name}"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Finding(name, "fail", f"{there} cannot be written to", "name another folder, or mend its owner and mode")
        return
    free = shutil.disk_usage(there).free
    level: Level = "ok" if free >= _ENOUGH_BYTES else "warn" if free >= _LEAST_BYTES else "fail"
    repair = "" if level == "ok" else f"make room on the disk of {there}, or name another folder"
    yield Finding(name, level, f"{_gib(free)} free at {there}", repair)


def check_shared_memory() -> Iterator[Finding]:
    """/dev/shm: where the embedded server's data goes when it fits."""
    folder = Path("/dev/shm")
    if not folder.is_dir():
        yield Finding("/dev/shm", "warn", "there is none; the server's data goes to /var/tmp, which is slower")
        return
    usage = shutil.disk_usage(folder)
    seen = f"{_gib(usage.free)} of {_gib(usage.total)} free"
    if usage.free >= _GIB:
        yield Finding("/dev/shm", "ok", seen)
        return
    repair = "give the container more (docker run --shm-size=2g), or take it as slower"
    yield Finding("/dev/shm", "warn", f"{seen}; below 1 GiB the server's data goes to /var/tmp", repair)


def check_memory() -> Iterator[Finding]:
    """Memory that can still be had: of the machine, and of the control group that confines this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = min([int(lines["MemAvailable"].split()[0]) * 1024, *_confined()])
    if free >= _MEMORY_BYTES:
        yield Finding("memory", "ok", f"{_gib(free)} available")
        return
    repair = "end other programs, or raise the limit; a query may take 2 GiB"
    yield Finding("memory", "warn", f"{_gib(free)} available", repair)


def _confined() -> list[int]:
    group = Path("/sys/fs/cgroup")
    try:
        return [int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())]
    except (OSError, ValueError):  # no such group, or "max"
        return []


def check_open_files() -> Iterator[Finding]:
    """The limit of open files against connections: two a question, to the simulator's server and to the judge's."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        yield Finding("open files", "ok", "no limit")
        return
    carries = max(0, limit - _SPARE_FILES) // 2
    level: Level = "ok" if carries >= _FEW else "warn" if carries >= _FEWEST else "fail"
    repair = "" if level == "ok" else "raise it: ulimit -n 4096"
    yield Finding("open files", level, f"limit {limit}, enough for --concurrency {carries}", repair)


def check_temporary() -> Iterator[Finding]:
    """Whether a temporary file can be written and read back."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        repair = "make room there, or set TMPDIR to a folder that can be written to"
        yield Finding("temporary files", "fail", f"cannot be written: {error.strerror or error}", repair)
        return
    yield Finding("temporary files", "ok", f"can be written in {tempfile.gettempdir()}")


def check_clock() -> Iterator[Finding]:
    """Certificates are dated and expire."""
    now = datetime.now(UTC)
    seen = now.isoformat(timespec="seconds")
    if now.year >= _FIRST_YEAR:
        yield Finding("clock", "ok", seen)
    else:
        yield Finding("clock", "fail", seen, "set the clock: timedatectl set-ntp true")


def check_scheduler() -> Iterator[Finding]:
    """SLURM, where there is one."""
    missing = [name for name in ("sbatch", "squeue") if shutil.which(name) is None]
    if missing:
        yield Finding("scheduler", "skipped", f"no {' and no '.join(missing)}: only for SLURM jobs")
        return
    command = ["squeue", "--noheader", "--me"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SCHEDULER_S)
        says = "" if done.returncode == 0 else " ".join(done.stderr.split())[:200] or f"exit {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        says = type(error).__name__
    if says:
        yield Finding("scheduler", "warn", f"SLURM does not answer: {says}", "ask: scontrol ping")
    else:
        yield Finding("scheduler", "ok", "SLURM answers")


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
