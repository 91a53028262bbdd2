"""Benchmark core: completions kept on disk, so that nothing is paid twice."""

import asyncio
import json
import os
import sqlite3
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from benchmark_core.chat import ChatRequest, Completion, Usage
from benchmark_core.digest import digest
from benchmark_core.errors import InputError

FORMAT = 1
"""SQLite `user_version` of the cache file."""

_TABLE = "CREATE TABLE IF NOT EXISTS completions (key TEXT PRIMARY KEY, body TEXT NOT NULL, stored TEXT NOT NULL)"


def cache_key(base_url: str, model: str, request: ChatRequest) -> str:
    """`sha256:…` over everything that a completion depends on, and over the trial: trials are never shared."""
    return digest(
        {
            "base_url": base_url,
            "model": model,
            "messages": [[message.role, message.content] for message in request.messages],
            "decoding": asdict(request.decoding),
            "extra": dict(request.extra),
            "trial": request.trial,
        }
    )


class ChatCache:
    """Usable completions by key, in one SQLite file of mode 0600 on a local disk. Prompts and keys are not stored.

    `put` commits before it returns: a killed process loses at most what was in flight. Processes may share the file.

    Args:
        path: the file; made when absent.

    Raises:
        InputError: from every method, when the file cannot be used; the message says what to do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._flights: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            path.chmod(0o600)
            # autocommit: each statement is its own transaction; WAL survives kill -9 without an fsync per row
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        except (OSError, sqlite3.Error) as problem:
            raise InputError(f"chat cache {path}: cannot be opened: {problem}; name a writable file") from problem
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        self._run("PRAGMA journal_mode = WAL")
        self._run("PRAGMA synchronous = NORMAL")
        found = self._run("PRAGMA user_version")[0][0]
        if found not in (0, FORMAT):
            raise InputError(f"chat cache {self._path}: format {found}, expected {FORMAT}; name another file")
        self._run(_TABLE)
        self._run(f"PRAGMA user_version = {FORMAT}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the cache is of no use afterwards."""
        self._db.close()

    def __len__(self) -> int:
        """Completions on disk."""
        return int(self._run("SELECT count(*) FROM completions")[0][0])

    def flight(self, key: str) -> asyncio.Lock:
        """The lock of a key: who holds it looks the key up, sends and stores; the others then find it stored."""
        return self._flights.setdefault(key, asyncio.Lock())

    def get(self, key: str) -> Completion | None:
        """The stored completion, marked `cached` with 0 attempts; None when there is none."""
        rows = self._run("SELECT body FROM completions WHERE key = ?", key)
        if not rows:
            return None
        try:
            stored = json.loads(str(rows[0][0]))
            usage = Usage(**stored.pop("usage"))
            return Completion(**stored, usage=usage, attempts=0, cached=True, latency_s=0.0)
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise self._damaged(problem) from problem

    def put(self, key: str, completion: Completion) -> None:
        """Store a completion; the first one stored under a key stays."""
        body = json.dumps(
            {
                "text": completion.text,
                "model": completion.model,
                "system_fingerprint": completion.system_fingerprint,
                "usage": asdict(completion.usage),
            }
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._run("INSERT OR IGNORE INTO completions VALUES (?, ?, ?)", key, body, now)

    def _run(self, sql: str, *values: str) -> list[tuple[str | int, ...]]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as problem:
            raise self._damaged(problem) from problem

    def _damaged(self, problem: Exception) -> InputError:
        return InputError(f"chat cache {self._path}: {problem}; move the file away or name another one")
