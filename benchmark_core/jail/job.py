"""Benchmark core: what a test case is given, what it may ask, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """A test case with what it is about. It holds gold.

    Attributes:
        code: Python that defines `test_case`.
        pred_query_result: rows of the submission; None when it has none.
        deadline_s: seconds of wall time for all of it.
    """

    code: str
    pred_sqls: tuple[str, ...]
    sol_sqls: tuple[str, ...]
    conditions: Mapping[str, Any]
    pred_query_result: list[tuple[Any, ...]] | None
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Rows:
    """What `execute_queries` gives to a test: rows (None: the statement has none), or an error, or a timeout."""

    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] | None = None
    error: str | None = None
    timeout: bool = False


class Channel(Protocol):
    """What a test may ask of the database."""

    async def execute(self, queries: tuple[str, ...]) -> Rows:
        """Run statements in order."""

    async def ex_base(self, pred_sqls: tuple[str, ...], sol_sqls: tuple[str, ...], order: bool) -> int:
        """1 when both give the same result, else 0."""


class BrokenCause(StrEnum):
    """Why there is no verdict."""

    NO_TEST_FUNCTION = "no_test_function"
    NOT_CODE = "not_code"
    TEST_ERROR = "test_error"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    PROTOCOL = "protocol"
    JAIL = "jail"


@dataclass(frozen=True, slots=True)
class Passed:
    """The test ran to its end."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An assertion did not hold. The message may hold gold: never shown to a system."""

    message: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The test was no test, or was stopped. The same holds of its message."""

    cause: BrokenCause
    message: str
