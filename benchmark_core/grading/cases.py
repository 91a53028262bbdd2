"""Benchmark core: Management sub-tasks with Python test cases (official data). The tests run in the jail; here is what
they may ask of the database, in both regimes.

`official`: the submission has run in a session, and every question of a test runs in that session, as in the public
code. `strict`: submission and reference each run once, in clones of their own; a test that runs one of them is given
the recorded result, and its further questions go to the state that this one left, each in a clean session.

A test that its own reference does not pass, or that an empty submission passes, decides nothing: a gold fault.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import asdict, dataclass
from itertools import permutations

from benchmark_core.errors import QueryError, QueryTimeout, ServerError
from benchmark_core.grading.compare import Rule, difference
from benchmark_core.grading.driver_values import driver_value
from benchmark_core.grading.official import Answer, PublicSession, executed
from benchmark_core.grading.official_text import remove_comments, remove_distinct, remove_round
from benchmark_core.grading.outcome import PASSED, GoldFault, Outcome, Verdict
from benchmark_core.grading.strict import WRONG
from benchmark_core.jail.jail import Jail
from benchmark_core.jail.job import Broken, BrokenCause, Channel, Failed, Job, Passed, Rows
from benchmark_core.postgres.query import Table
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.postgres.templates import Clone, reclaim
from benchmark_core.sql.rounding import places
from suites.tasks import SubTask

NewClone = Callable[[], AbstractAsyncContextManager[Clone]]
"""Opens a writer's clone of the sub-task's state."""

PASSES_NOTHING = "the tests pass an empty submission"
"""Detail of the fault of tests that decide nothing."""

_EDITS = (remove_comments, remove_distinct, remove_round)
_NOTHING = ("",)


@dataclass(frozen=True, slots=True)
class CaseGrader:
    """Runs the test cases of Management sub-tasks."""

    jail: Jail
    limits: Limits

    async def strict(self, sub_task: SubTask, prediction: Sequence[str], fresh: NewClone) -> Verdict:
        """Grade in the `strict` regime; the caller has seen `check_tests` pass.

        Raises:
            GoldFault: a test was stopped, or is broken.
            ServerError: when the server is lost.
        """
        async with AsyncExitStack() as stack:
            submitted = await _Side.of(prediction, await stack.enter_async_context(fresh()), self.limits)
            if (failure := executed(submitted.answer)) is not None:
                return failure

            referred = _Referred(sub_task, fresh, self.limits, stack)
            forms = _forms(prediction), _forms(sub_task.sol_sql)
            channel = _StrictChannel(submitted, forms, referred, self.limits, submitted)
            return await self._tests(sub_task, prediction, submitted.answer, channel)

    async def official(self, sub_task: SubTask, prediction: Sequence[str], clone: Clone) -> Verdict:
        """Grade in the `official` regime on a throw-away clone. Raises the same."""
        async with clone.session() as session:
            public = PublicSession(clone, session, self.limits)
            answer = await public.execute_queries(prediction)
            if (failure := executed(answer)) is not None:
                return failure
            return await self._tests(sub_task, prediction, answer, _OfficialChannel(public))

    async def check_tests(self, sub_task: SubTask, fresh: NewClone) -> None:
        """Raises: GoldFault: the reference does not pass the tests, or an empty submission does."""
        verdict = await self.strict(sub_task, sub_task.sol_sql, fresh)
        if not verdict.passed:
            why = f"the reference does not pass its own tests: {verdict.outcome} {verdict.message} {verdict.detail}"
            raise GoldFault(why.strip(), timeout=verdict.outcome is Outcome.TIMEOUT)
        if (await self.strict(sub_task, _NOTHING, fresh)).passed:
            raise GoldFault(PASSES_NOTHING)

    async def _tests(self, sub_task: SubTask, prediction: Sequence[str], answer: Answer, channel: Channel) -> Verdict:
        for number, code in enumerate(sub_task.test_cases, start=1):
            job = Job(
                code=code,
                pred_sqls=tuple(prediction),
                sol_sqls=sub_task.sol_sql,
                conditions=asdict(sub_task.conditions),
                pred_query_result=answer.rows,
                deadline_s=self.limits.deadline_s,
            )
            match await self.jail.run(job, channel):
                case Passed():
                    pass
                case Failed(message):
                    return Verdict(Outcome.MISMATCH, WRONG, f"test {number}: {message}")
                case Broken(BrokenCause.TEST_ERROR, message):  # the reference passes without, so the submission did it
                    return Verdict(Outcome.MISMATCH, WRONG, f"test {number}: {message}")
                case Broken(BrokenCause.TIMEOUT, message):  # likewise
                    return Verdict(Outcome.TIMEOUT, "the tests were stopped at their deadline", f"test {number}")
                case Broken(BrokenCause.LIMIT, message):
                    return Verdict(Outcome.MISMATCH, WRONG, f"test {number}: {message}")
                case Broken(BrokenCause.JAIL, message):
                    raise ServerError(f"the jail is broken: {message}")
                case Broken(cause, message):
                    raise GoldFault(f"test {number}: {cause}: {message}")
        return PASSED


@dataclass(frozen=True, slots=True)
class _OfficialChannel:
    public: PublicSession

    async def execute(self, queries: tuple[str, ...]) -> Rows:
        return _rows(await self.public.execute_queries(queries))

    async def ex_base(self, pred_sqls: tuple[str, ...], sol_sqls: tuple[str, ...], order: bool) -> int:
        return int(await self.public.ex_base(pred_sqls, sol_sqls, order=order))


@dataclass(frozen=True, slots=True)
class _Side:
    """A clone on which a script has run once, and what that gave."""

    clone: Clone
    answer: Answer
    table: Table

    @classmethod
    async def of(cls, script: Sequence[str], clone: Clone, limits: Limits) -> "_Side":
        table, answer = await _run(clone, script, limits)
        await reclaim(clone)
        return cls(clone, answer, table)


@dataclass(slots=True)
class _Referred:
    """The reference's side, made when a test first asks for it: most never do."""

    sub_task: SubTask
    fresh: NewClone
    limits: Limits
    stack: AsyncExitStack
    made: _Side | None = None

    async def side(self) -> _Side:
        if self.made is None:
            clone = await self.stack.enter_async_context(self.fresh())
            self.made = await _Side.of(self.sub_task.sol_sql, clone, self.limits)
        return self.made


@dataclass(slots=True)
class _StrictChannel:
    """Which state a question goes to: that of the script, of submission and reference, that the test ran last."""

    submitted: _Side
    forms: tuple[frozenset[tuple[str, ...]], frozenset[tuple[str, ...]]]  # of the submission, of the reference
    referred: _Referred
    limits: Limits
    current: _Side

    async def execute(self, queries: tuple[str, ...]) -> Rows:
        known = await self._known(queries)
        if known is not None:
            self.current = known
            return _rows(known.answer)
        return _rows((await _run(self.current.clone, queries, self.limits))[1])

    async def ex_base(self, pred_sqls: tuple[str, ...], sol_sqls: tuple[str, ...], order: bool) -> int:
        if not pred_sqls or not sol_sqls:
            return 0
        got, expected = [await self._result(queries) for queries in (pred_sqls, sol_sqls)]
        if got[1].failed or expected[1].failed or not got[0].columns or not expected[0].columns:
            return 0
        rule = Rule(() if order else None, places=places(sol_sqls[-1], len(expected[0].columns)))
        return int(difference(got[0], expected[0], rule) is None)

    async def _result(self, queries: tuple[str, ...]) -> tuple[Table, Answer]:
        known = await self._known(queries)
        return (known.table, known.answer) if known else await _run(self.current.clone, queries, self.limits)

    async def _known(self, queries: tuple[str, ...]) -> _Side | None:
        if queries in self.forms[0]:
            return self.submitted
        return await self.referred.side() if queries in self.forms[1] else None


def _forms(script: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """A script as tests hand it over: as it is, or after some of the public edits."""
    found = {tuple(script)}
    for count in range(1, len(_EDITS) + 1):
        for edits in permutations(_EDITS, count):
            text = list(script)
            for edit in edits:
                text = edit(text)
            found.add(tuple(text))
    return frozenset(found)


async def _run(clone: Clone, queries: Sequence[str], limits: Limits) -> tuple[Table, Answer]:
    """Run a script once, in a clean session: its result as it is, and as the public code hands it over."""
    script = [query for query in queries if query.strip()]
    try:
        table = await run(clone, script, limits)
        rows = [tuple(map(driver_value, row, table.types)) for row in table.rows] if table.columns else None
    except QueryTimeout:
        return Table(), Answer(timeout=True)
    except (QueryError, ValueError) as error:
        return Table(), Answer(error=str(error))
    return table, Answer(rows, table.columns)


def _rows(answer: Answer) -> Rows:
    return Rows(columns=answer.columns, rows=answer.rows, error=answer.error, timeout=answer.timeout)
