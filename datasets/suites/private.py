"""Suites: writes files that can hold gold: whole or not at all, readable by their owner alone, replacing nothing."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from suites.errors import SuiteError
from suites.lines import open_file


def write_new(path: Path, lines: Iterable[str]) -> None:
    """Write lines into a new file of mode 0600.

    Raises:
        SuiteError: there is something at this path, or it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "x", encoding="utf-8", opener=_own) as file:
            file.writelines(f"{line}\n" for line in lines)
        if os.path.lexists(path):
            raise SuiteError(path, "exists already; expected a new file")
        draft.rename(path)
    except OSError as error:
        raise SuiteError(path, f"cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def _own(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hex.

    Raises:
        SuiteError: it cannot be read, or is too large.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
