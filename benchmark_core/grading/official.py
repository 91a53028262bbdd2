"""Benchmark core: the `official` regime: the public default test case, step by step, with its faults.

The submission runs first as an executability check, then edited, then the edited reference, all in one session and
one database, each statement in a transaction of its own; rows are compared by `official_values`. The database is a
clone that no later statement of the system reaches. Behaviour as in bird-bench/BIRD-Interact at 451fe2c
(BIRD-Interact-ADK); unlike there the role is no superuser, and time and disk are limited from outside.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from benchmark_core.errors import QueryError, QueryTimeout
from benchmark_core.grading.driver_values import driver_value
from benchmark_core.grading.official_text import default_edits
from benchmark_core.grading.official_values import NORMALISER_ERRORS, preprocess_results, same_rows
from benchmark_core.grading.outcome import PASSED, Outcome, Verdict
from benchmark_core.postgres.query import MAX_ROWS, Session, Table
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.postgres.templates import Clone

WRONG = "the result is not the expected one"

_CANCELLED = "57014"
_UNLIMITED = 10_000_000  # the public code caps only what starts with SELECT or WITH


@dataclass(frozen=True, slots=True)
class Answer:
    """What the public `execute_queries` gives: rows (None: the statement has none), or an error, or a timeout."""

    rows: list[tuple[Any, ...]] | None = None
    columns: tuple[str, ...] = ()
    error: str | None = None
    timeout: bool = False

    @property
    def failed(self) -> bool:
        return self.error is not None or self.timeout


@dataclass(frozen=True, slots=True)
class PublicSession:
    """A session that runs statements as the public code does."""

    clone: Clone
    session: Session
    limits: Limits

    async def execute_queries(self, queries: Sequence[str]) -> Answer:
        """Run statements in order and give the last one's result; the first failure ends it; blank ones do not run.

        Raises:
            ServerError: when the server is lost.
        """
        answer = Answer()
        for query in queries:
            if not query.strip():
                continue
            try:
                answer = await self._perform(query)
            except QueryTimeout:
                return Answer(timeout=True)
            except QueryError as error:
                return Answer(timeout=True) if error.sqlstate == _CANCELLED else Answer(error=str(error))
            except ValueError as error:  # a value that the public driver cannot hold
                return Answer(error=str(error))
        return answer

    async def ex_base(self, prediction: Sequence[str], reference: Sequence[str], *, order: bool) -> bool:
        """The public comparison: whether both run, return rows, and these are the same once normalised."""
        if not prediction or not reference:
            return False
        got, expected = await self.execute_queries(prediction), await self.execute_queries(reference)
        if got.failed or expected.failed:
            return False
        return same_rows(preprocess_results(got.rows), preprocess_results(expected.rows), order=order)

    async def _perform(self, query: str) -> Answer:
        await self._run("BEGIN; SET statement_timeout = '60s'")
        selects = query.strip().lower().startswith(("select", "with"))
        try:
            table = await self._run(query, MAX_ROWS if selects else _UNLIMITED)
            await self._run("COMMIT")
        except QueryError:
            with suppress(QueryError):  # the statement may have ended its own session
                await self._run("ROLLBACK")
            raise
        if selects and not table.columns:
            return Answer(error="no results to fetch")
        rows = [tuple(map(driver_value, row, table.types)) for row in table.rows] if table.columns else None
        return Answer(rows, table.columns)

    async def _run(self, statement: str, rows: int = 0) -> Table:
        return await run(self.clone, (statement,), replace(self.limits, rows=rows), session=self.session)


async def grade_default(
    clone: Clone, prediction: Sequence[str], reference: Sequence[str], *, order: bool, limits: Limits
) -> Verdict:
    """Grade a submission with the public default test case on a clone that nothing else runs on.

    Raises:
        ServerError: when the server is lost.
    """
    async with clone.session() as session:
        public = PublicSession(clone, session, limits)
        if (failure := executed(await public.execute_queries(prediction))) is not None:
            return failure
        try:
            same = await public.ex_base(default_edits(prediction), default_edits(reference), order=order)
        except NORMALISER_ERRORS as error:
            return Verdict(Outcome.MISMATCH, WRONG, f"the public normaliser fails: {type(error).__name__}")
    return PASSED if same else Verdict(Outcome.MISMATCH, WRONG)


def executed(answer: Answer) -> Verdict | None:
    """What the public executability check makes of a submission's run; None when it ran."""
    if answer.timeout:
        return Verdict(Outcome.TIMEOUT, "the submission was stopped at its deadline")
    if answer.error is not None:
        return Verdict(Outcome.EXECUTION_ERROR, answer.error)
    return None
