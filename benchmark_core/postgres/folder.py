"""Benchmark core: a private folder, one process at a time."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmark_core.errors import ServerError

_LOCK_WAIT_S = 120.0


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Hold the lock of a folder that is ours alone.

    Raises:
        ServerError: when it is not ours alone, or another process keeps the lock.
    """
    found = state_dir.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ServerError(f"{state_dir} must belong to this user with mode 700: run chmod 700, or name another folder")
    handle = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _acquire(handle, state_dir)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, state_dir: Path) -> None:
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES) or time.monotonic() > deadline:
                raise ServerError(f"{state_dir} stays locked by another process") from None
            time.sleep(0.02)
        else:
            return


def write(path: Path, text: str) -> None:
    """Whole or not at all, with mode 600 from its first byte on."""
    fresh = path.with_name(f"{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(fresh, path)
