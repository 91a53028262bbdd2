"""Tests of the states that submissions are graded on: preprocessing, follow-ups, replay, the gates of the gold."""

import asyncio
from typing import Any

import psycopg
import pytest
from graders import SALES, grade, management, query, task, with_grader

from benchmark_core.grading.grade import FollowUpFrom, Grader
from benchmark_core.grading.outcome import Grade, Outcome
from benchmark_core.postgres.sandbox import Limits
from benchmark_core.postgres.server import Server
from suites.tasks import Oracle

ARCHIVE = "INSERT INTO archive SELECT id, shop FROM sale WHERE qty >= 5"
ARCHIVED = {"SELECT id FROM archive": [(2,), (5,)]}
COUNT = "SELECT count(*) FROM archive"


def follow(server: Server, oracle: Oracle, prediction: str, before: str = "", **how: Any) -> Grade:
    """Grade a submission for sub-task 2."""

    async def work(opened: Grader) -> Grade:
        async with opened.task(oracle) as one:
            return await one.grade(2, (prediction,), (before,) if before else ())

    return asyncio.run(with_grader(lambda: server, {"db": SALES}, work, **how))


def outcomes(found: Grade) -> tuple[Outcome, Outcome]:
    return found.strict.outcome, found.official.outcome


BOTH_PASS = (Outcome.PASSED, Outcome.PASSED)


def test_preprocessing_runs_before_reference_and_submission(server: Server) -> None:
    oracle = task(query("SELECT sum(qty) FROM sale"), preprocess=("UPDATE sale SET qty = qty + 1",))
    assert outcomes(grade(server, oracle, "SELECT 23::bigint")) == BOTH_PASS
    assert grade(server, oracle, "SELECT 18::bigint").strict.outcome is Outcome.MISMATCH


def test_preprocessing_that_fails_is_the_tasks_fault(server: Server) -> None:
    found = grade(server, task(query("SELECT 1"), preprocess=("SELECT nothing",)), "SELECT 1")
    assert outcomes(found) == (Outcome.GOLD_ERROR, Outcome.GOLD_ERROR)
    assert "nothing" in found.strict.detail and "nothing" not in found.strict.message


def test_a_follow_up_starts_where_sub_task_1_ended(server: Server) -> None:
    """Dropping the replay would leave the archive empty."""
    oracle = task(management(ARCHIVE, **ARCHIVED), query(COUNT))
    assert outcomes(follow(server, oracle, "SELECT 2::bigint")) == BOTH_PASS
    assert outcomes(follow(server, oracle, COUNT, ARCHIVE)) == BOTH_PASS
    assert outcomes(follow(server, oracle, "SELECT 0::bigint", ARCHIVE)) == (Outcome.MISMATCH, Outcome.MISMATCH)


@pytest.mark.fault("E10")
def test_official_follows_the_submissions_state_and_strict_the_references(server: Server) -> None:
    oracle = task(management(ARCHIVE, **ARCHIVED), query("SELECT count(*) FROM sale"))
    damaging = f"{ARCHIVE}; DELETE FROM sale"
    assert outcomes(follow(server, oracle, "SELECT 0::bigint", damaging)) == (Outcome.MISMATCH, Outcome.PASSED)
    assert outcomes(follow(server, oracle, "SELECT 5::bigint", damaging)) == (Outcome.PASSED, Outcome.MISMATCH)
    from_submission = follow(server, oracle, "SELECT 0::bigint", damaging, follow_up_from=FollowUpFrom.SUBMISSION)
    assert outcomes(from_submission) == BOTH_PASS


@pytest.mark.fault("E10")
def test_damage_beside_an_answer_that_only_reads_is_not_carried_over(server: Server) -> None:
    oracle = task(query("SELECT count(*) FROM sale"), query("SELECT sum(qty) FROM sale"))
    damaging = "SELECT 5::bigint; DELETE FROM sale; SELECT 5::bigint"
    assert outcomes(follow(server, oracle, "SELECT sum(qty) FROM sale", damaging)) == BOTH_PASS
    assert outcomes(follow(server, oracle, "SELECT NULL::bigint", damaging)) == (Outcome.MISMATCH, Outcome.MISMATCH)


def test_a_submission_that_cannot_be_replayed_costs_official_only(server: Server) -> None:
    oracle = task(management(ARCHIVE, **ARCHIVED), query(COUNT))
    found = follow(server, oracle, COUNT, "SELECT nonsense")
    assert outcomes(found) == (Outcome.PASSED, Outcome.EXECUTION_ERROR)


def test_a_broken_first_reference_makes_the_follow_up_ungradable(server: Server) -> None:
    found = follow(server, task(management("INSERT INTO nowhere VALUES (1)"), query(COUNT)), COUNT)
    assert outcomes(found) == (Outcome.GOLD_ERROR, Outcome.GOLD_ERROR)


def test_management_by_post_conditions(server: Server) -> None:
    oracle = task(management(ARCHIVE, **ARCHIVED))
    assert outcomes(grade(server, oracle, ARCHIVE)) == BOTH_PASS
    assert outcomes(grade(server, oracle, "INSERT INTO archive VALUES (2, 'x'), (5, 'y')")) == BOTH_PASS
    assert grade(server, oracle, "INSERT INTO archive VALUES (2, 'x')").strict.outcome is Outcome.MISMATCH
    assert (
        grade(server, oracle, "INSERT INTO archive VALUES (2, 'x'), (2, 'x'), (5, 'x')").strict.outcome
        is Outcome.MISMATCH
    )
    assert grade(server, oracle, "INSERT INTO nowhere VALUES (1)").strict.outcome is Outcome.EXECUTION_ERROR
    assert grade(server, oracle, "SELECT pg_read_file('/etc/hostname')").strict.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    "gold",
    [
        management(ARCHIVE, **{"SELECT count(*) FROM sale": [(5,)]}),
        management("SELECT 1", **ARCHIVED),
        management("INSERT INTO nowhere VALUES (1)", **ARCHIVED),
    ],
    ids=["holds before", "reference does not satisfy it", "reference fails"],
)
def test_post_conditions_that_decide_nothing_are_the_tasks_fault(server: Server, gold: Any) -> None:
    found = grade(server, task(gold), ARCHIVE)
    assert outcomes(found) == (Outcome.GOLD_ERROR, Outcome.GOLD_ERROR)
    assert not found.strict.outcome.of_the_system


@pytest.mark.fault("B34")
def test_a_submission_may_not_answer_the_post_conditions_itself(server: Server) -> None:
    """Each is first seen to fool the check when nothing guards it."""
    conditions = {"SELECT upper(shop) FROM archive": [("A",), ("C",)]}
    gold = management(ARCHIVE.replace("id, shop", "id, shop::varchar"), **conditions)
    typed = "ALTER TABLE archive ALTER shop TYPE varchar; INSERT INTO archive VALUES (1, 'z'), (2, 'z'); "
    liar = (
        "CREATE FUNCTION public.upper(varchar) RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
        "RETURN (ARRAY['A', 'C'])[(SELECT count(*) FROM archive a WHERE false) + 1 + (random() > 2)::int]; END $$"
    )
    with psycopg.connect(server.dsn) as raw:
        raw.execute("CREATE TABLE public.archive (id int, shop text)")
        raw.execute(typed + liar)  # type: ignore[arg-type]
        assert raw.execute("SELECT DISTINCT upper(shop) FROM archive").fetchall() == [("A",)], "it lies"
        raw.rollback()
    found = grade(server, task(gold), typed + liar)
    assert found.strict.outcome is Outcome.REFUSED and "function upper" in found.strict.message


@pytest.mark.fault("E07")
def test_settings_of_the_submissions_role_do_not_reach_the_check(server: Server) -> None:
    hide = (
        "CREATE SCHEMA z; CREATE TABLE z.archive AS SELECT * FROM (VALUES (2), (5)) v (id); "
        "DO $$ BEGIN EXECUTE format('ALTER ROLE %I SET search_path = z', current_user); END $$"
    )
    assert grade(server, task(management(ARCHIVE, **ARCHIVED)), hide).strict.outcome is Outcome.MISMATCH


@pytest.mark.fault("B44")
def test_a_constant_does_not_pass_over_a_second_seed(server: Server) -> None:
    oracle = task(query("SELECT shop FROM sale ORDER BY qty * price DESC, id LIMIT 1"))
    other = {"db": SALES + "UPDATE sale SET qty = 0 WHERE shop = 'B';"}
    assert outcomes(grade(server, oracle, "SELECT 'B'")) == BOTH_PASS, "one seed cannot tell"
    assert outcomes(grade(server, oracle, "SELECT 'B'", seconds=other)) == (Outcome.MISMATCH, Outcome.PASSED)
    right = "SELECT shop FROM sale ORDER BY price * qty DESC LIMIT 1"
    assert outcomes(grade(server, oracle, right, seconds=other)) == BOTH_PASS


def test_what_a_system_is_told_holds_nothing_of_the_gold(server: Server) -> None:
    secret = "SELECT 'se' || 'cret', nosuch FROM sale"
    for gold in (query(secret), query("SELECT 'se' || 'cret'"), management(secret, **ARCHIVED)):
        found = grade(server, task(gold), "SELECT 1")
        for verdict in (found.strict, found.official):
            assert "secret" not in verdict.message and "nosuch" not in verdict.message
            assert "usg_" not in verdict.message


@pytest.mark.parametrize(
    ("prediction", "outcome"),
    [
        ("SELECT sum(qty) FROM sale", Outcome.PASSED),
        ("SELECT sum(qty) + 1 FROM sale", Outcome.MISMATCH),
        ("SELECT sum(quantity) FROM sale", Outcome.EXECUTION_ERROR),
        ("SELECT pg_sleep(9)", Outcome.TIMEOUT),
        ("DELETE FROM sale", Outcome.REFUSED),
    ],
)
def test_the_five_outcomes_that_are_the_systems(server: Server, prediction: str, outcome: Outcome) -> None:
    found = grade(server, task(query("SELECT sum(qty) FROM sale")), prediction, limits=Limits(deadline_s=1))
    assert found.strict.outcome is outcome and outcome.of_the_system


def test_gold_that_takes_too_long_is_nobodys_attempt(server: Server) -> None:
    found = grade(server, task(query("SELECT pg_sleep(9)")), "SELECT 1", limits=Limits(deadline_s=0.2))
    assert outcomes(found) == (Outcome.GOLD_TIMEOUT, Outcome.GOLD_TIMEOUT)


def test_a_database_that_cannot_be_built_is_the_suites_fault(server: Server) -> None:
    found = grade(server, task(query("SELECT 1")), "SELECT 1", build="CREATE TABLE broken (")
    assert outcomes(found) == (Outcome.GOLD_ERROR, Outcome.GOLD_ERROR)
    assert "syntax error" in found.strict.detail
