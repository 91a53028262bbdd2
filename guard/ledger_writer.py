"""Guard: the open ledger of a run: append-only, one writer, the unit of resume.

A ledger holds replies, and replies can hold gold: the file is readable by its owner alone.
"""

import json
import os
from pathlib import Path
from typing import Any, Self

from benchmark_core.errors import DigestMismatch, InputError
from guard.appending import open_alone, write_line
from guard.ledger import FORMAT, Header, ScoredItem, dump_header, dump_item, format_of, read_header


class Ledger:
    """An open ledger. Holds a lock: a second process on the same run is refused."""

    def __init__(self, path: Path, header: Header, descriptor: int) -> None:
        self.path, self.header, self._descriptor = path, header, descriptor

    @classmethod
    def open(cls, path: Path, header: Header, *, resume: bool) -> Self:
        """Create the ledger, or resume it.

        Raises:
            InputError: it exists and `resume` is false, or another process holds it.
            DigestMismatch: it is of another simulator, suite, judge or plan.
            LedgerError: it is damaged.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_alone(path)
        try:
            if os.fstat(descriptor).st_size == 0:
                write_line(descriptor, dump_header(header))
                return cls(path, header, descriptor)
            if not resume:
                raise InputError(f"{path}: holds a run already; go on with --resume, or choose another --out")
            if (found_format := format_of(path)) != FORMAT:
                raise InputError(
                    f"{path}: of format {found_format}: it can be counted, not resumed; choose another --out"
                )
            found = read_header(path)
            _demand_same(path, found, header)
            return cls(path, found, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def append(self, item: ScoredItem) -> None:
        """Write one item; it is with the operating system when this returns, so that a kill cannot lose it."""
        write_line(self._descriptor, dump_item(item))

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _demand_same(path: Path, found: Header, wanted: Header) -> None:
    differing = sorted(
        k for k in found.digests.keys() | wanted.digests.keys() if found.digests.get(k) != wanted.digests.get(k)
    )
    if differing:
        named = "; ".join(f"{k}: {_difference(found.identities.get(k), wanted.identities.get(k))}" for k in differing)
        raise DigestMismatch(f"{path}: holds a run of another identity ({named}); choose another --out")


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))
        return ", ".join(f"{k} was {json.dumps(found.get(k))}, is {json.dumps(wanted.get(k))}" for k in keys)
    return f"was {json.dumps(found)}, is {json.dumps(wanted)}"
