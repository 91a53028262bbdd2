"""Guard: files that are only added to, line by line, by one process at a time. Readable by their owner alone."""

import fcntl
import os
from pathlib import Path

from benchmark_core.errors import InputError


def open_alone(path: Path) -> int:
    """A descriptor for appending, locked; what a kill left behind the last line break is cut off.

    Raises:
        InputError: another process holds the file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _drop_torn_line(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"{path}: another process is writing into this run") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_line(descriptor: int, line: bytes) -> None:
    """Add a line; it is with the operating system when this returns, so that a kill cannot lose it."""
    data = line + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _drop_torn_line(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    keep, step = size, 65536
    while keep > 0:
        start = max(0, keep - step)
        at = os.pread(descriptor, keep - start, start).rfind(b"\n")
        if at >= 0:
            keep = start + at + 1
            break
        keep = start
    if keep != size:
        os.ftruncate(descriptor, keep)
