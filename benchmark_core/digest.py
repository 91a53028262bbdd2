"""Benchmark core: content digests. Identity is what a thing says, not what it is called."""

import hashlib
import json
from pathlib import Path
from typing import Any


def canonical(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no blanks, UTF-8, no NaN. Equal values have equal bytes.

    Raises:
        ValueError: for NaN and infinities.
        TypeError: for what JSON cannot hold.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    """`sha256:…` of the canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """`sha256:…` of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_tree(root: Path, pattern: str) -> str:
    """`sha256:…` over relative names and contents of the files below `root` that match `pattern`."""
    files = sorted(p for p in root.rglob(pattern) if p.is_file())
    return digest({p.relative_to(root).as_posix(): digest_bytes(p.read_bytes()) for p in files})
