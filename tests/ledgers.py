"""Tests: a whole ledger in memory."""

from collections.abc import Iterable
from pathlib import Path

from guard.ledger import Header, ScoredItem, read_header, stream
from suites.questions import QuestionKey


def read(path: Path) -> tuple[Header, tuple[ScoredItem, ...]]:
    """Header and every line, retries included."""
    return read_header(path), tuple(stream(path))


def latest(items: Iterable[ScoredItem]) -> dict[QuestionKey, ScoredItem]:
    """The last line of each key."""
    return {item.key: item for item in items}


def last_attempts(path: Path) -> dict[QuestionKey, ScoredItem]:
    """The last line of each key of a ledger."""
    return latest(stream(path))
