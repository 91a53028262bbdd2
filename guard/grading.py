"""Guard: grades recorded predictions against a suite, without any model."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from benchmark_core.errors import InputError
from benchmark_core.grading.grade import FollowUpFrom, Grader, grader
from benchmark_core.grading.ground import Seeds
from benchmark_core.grading.grounds import FindSeeds, FindServer
from benchmark_core.grading.outcome import Verdict
from benchmark_core.postgres.dumps import find_loaded
from benchmark_core.postgres.limits import Unenforced, unenforced
from benchmark_core.postgres.sandbox import Limits
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Workspace
from guard.grades import GradedItem, Kept, Key
from guard.predictions import Prediction
from suites.load import Suite
from suites.suite import Part, how_to_get
from suites.tasks import Database, Oracle

CONCURRENCY = 8
"""Tasks at a time. Submissions of one task follow each other."""


@dataclass(frozen=True, slots=True)
class GradePlan:
    """What is graded, and how.

    Attributes:
        private: whether details for the operator are kept, which may tell of the reference.
    """

    suite: Suite
    predictions: tuple[Prediction, ...]
    limits: Limits = field(default_factory=Limits)
    follow_up_from: FollowUpFrom = FollowUpFrom.REFERENCE
    private: bool = False

    def check(self) -> None:
        """Raises: InputError: a task is not in the suite, or the suite has no gold for it."""
        known = self.suite.oracles
        wanted = dict.fromkeys(prediction.instance_id for prediction in self.predictions)
        if unknown := [name for name in wanted if name not in known]:
            raise InputError(f"{_named(unknown)}: not in the suite {self.suite.name}; grade them with their own suite")
        if lacking := [name for name in wanted if not known[name].first.sol_sql]:
            raise InputError(f"{_named(lacking)}: the suite has no gold for them. {how_to_get(Part.GOLD)}")

    @property
    def has_test_cases(self) -> bool:
        """Whether code that came with the suite would run."""
        oracles = self.suite.oracles
        wanted = [(oracles[one.instance_id], one.sub_task) for one in self.predictions]
        return any((oracle.first if number == 1 else oracle.follow_up).test_cases for oracle, number in wanted)


async def check_limits(plan: GradePlan, server: Server, *, accepted: bool) -> tuple[Unenforced, ...]:
    """The limits on hostile SQL that the server cannot enforce.

    Raises:
        InputError: there are some, they were not accepted, and test cases would run.
    """
    found = await unenforced(server)
    if found and plan.has_test_cases and not accepted:
        lacking = "\n".join(f"- {limit.what}. To do: {limit.repair}" for limit in found)
        raise InputError(
            f"the suite's test cases are code that runs SQL, and this server cannot hold it in:\n{lacking}\n"
            "Unset USERSIM_GUARD_DSN to use the embedded server, or accept it with --accept-limits"
        )
    return found


async def grade_predictions(
    plan: GradePlan, find_server: FindServer, done: Iterable[Key], keep: Callable[[GradedItem], None]
) -> None:
    """Grade what is not done, and hand every grade to `keep` as it comes.

    Raises:
        InputError: as `GradePlan.check`; a database is neither built nor loaded.
        TemplateDrift: a template has changed; the grades cannot be relied on.
        DatabaseError: no server can be had.
    """
    plan.check()
    finished = frozenset(done)
    open_ones = [one for one in plan.predictions if _key(one) not in finished]
    tasks = [tuple(made) for _, made in groupby(open_ones, lambda one: one.instance_id)]
    oracles, slots = plan.suite.oracles, asyncio.Semaphore(CONCURRENCY)

    async def one(made: Sequence[Prediction], grades: Grader) -> None:
        async with slots:
            await _grade_task(plan, oracles[made[0].instance_id], made, grades, keep)

    async with grader(find_server, find_seeds(plan.suite.databases), plan.limits, plan.follow_up_from) as grades:
        try:
            async with asyncio.TaskGroup() as group:
                for made in tasks:
                    group.create_task(one(made, grades))
        except BaseExceptionGroup as many:
            raise many.exceptions[0] from None


def find_seeds(databases: Mapping[str, Database]) -> FindSeeds:
    """How the databases of a suite are found: built from their scripts, or loaded from dumps before."""

    async def find(space: Workspace, name: str) -> Seeds:
        database = databases[name]
        if database.build_sql is None:
            if (loaded := await find_loaded(space, name)) is None:
                raise InputError(f"database {name}: is published as a dump; load it with `usersim-guard db load`")
            return Seeds(loaded)
        second = database.second_build_sql
        return Seeds(await space.template(database.build_sql), await space.template(second) if second else None)

    return find


async def _grade_task(
    plan: GradePlan, oracle: Oracle, made: Sequence[Prediction], grades: Grader, keep: Callable[[GradedItem], None]
) -> None:
    async with grades.task(oracle) as task:
        for one in made:
            begun = time.monotonic()
            grade = await task.grade(one.sub_task, one.statements, one.before)
            sub_task = oracle.first if one.sub_task == 1 else oracle.follow_up
            strict, official = [_kept(verdict, private=plan.private) for verdict in (grade.strict, grade.official)]
            seconds = round(time.monotonic() - begun, 3)
            keep(GradedItem(_key(one), sub_task.category, strict, official, one.recorded, seconds))


def _kept(verdict: Verdict, *, private: bool) -> Kept:
    return Kept(verdict.outcome, verdict.message, verdict.detail if private else "")


def _key(one: Prediction) -> Key:
    return Key(one.instance_id, one.sub_task, one.number)


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
