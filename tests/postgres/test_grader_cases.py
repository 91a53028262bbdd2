"""Tests: 101 submissions that the public grader was seen to judge: `official` as it does, `strict` as is right.

The cases are not part of the project; without them these tests are skipped. What each stands for has its own tests.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from graders import query, read_cases, task, with_grader

from benchmark_core.grading.grade import Grader
from benchmark_core.grading.outcome import Grade, Outcome
from benchmark_core.postgres.server import Server
from suites.tasks import Category

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "grader_cases.jsonl"

FAILS = {Outcome.MISMATCH, Outcome.REFUSED, Outcome.EXECUTION_ERROR, Outcome.TIMEOUT}
MEANS = {"pass": {Outcome.PASSED}, "fail": FAILS, "error": {Outcome.EXECUTION_ERROR}}

OFFICIAL_EXCEPTIONS = {
    "exe-17-gold-error": (Outcome.GOLD_ERROR, "a reference that fails is nobody's wrong answer"),
    "tc-01-no-test-fn": (Outcome.GOLD_ERROR, "tests without a test would pass everybody"),
    "tc-03-non-string": (Outcome.GOLD_ERROR, "the same"),
    "tc-04-missing-helper": (Outcome.PASSED, "every test has all of the public helpers"),
    "tc-06-host-code": (Outcome.GOLD_ERROR, "tests reach no file of ours"),
    "tc-07-assert-false": (Outcome.GOLD_ERROR, "the reference does not pass either"),
    "tc-09-shared-globals": (Outcome.MISMATCH, "every test has names of its own"),
    "hack-12-pg-read-file": (Outcome.EXECUTION_ERROR, "no submission is a superuser's"),
    "hack-13-copy-program": (Outcome.EXECUTION_ERROR, "no submission is a superuser's"),
}
STRICT_EXCEPTIONS = {
    "rnd-12-paren-in-literal": (Outcome.MISMATCH, "the reference does not round, so a rounded sum is another number"),
    "tc-01-no-test-fn": (Outcome.GOLD_ERROR, "nothing was tested: the task's fault, not the submission's"),
    "tc-07-assert-false": (Outcome.GOLD_ERROR, "no submission can pass"),
}


def cases() -> list[Any]:
    found = read_cases(CASES) if CASES.exists() else []
    return [pytest.param(case, id=case["id"]) for case in found] or [
        pytest.param(None, marks=pytest.mark.skip(reason=f"no {CASES}"))
    ]


@pytest.fixture(scope="module")
def graded(embedded: Server) -> dict[str, Grade]:
    """All cases graded in one run, eight at a time."""
    found = read_cases(CASES)
    slots = asyncio.Semaphore(8)

    async def one(grades: Grader, case: dict[str, Any]) -> Grade:
        conditions = case["conditions"]
        sub_task = query(
            *case["sol_sql"],
            order=bool(conditions.get("order")),
            decimal=conditions.get("decimal", -1),
            category=Category(case["category"]),
            test_cases=[code if isinstance(code, str) else "" for code in case["test_cases"]],
        )
        async with slots, grades.task(task(sub_task, database=case["id"])) as opened:
            return await opened.grade(1, case["pred_sql"])

    async def work(grades: Grader) -> dict[str, Grade]:
        made = await asyncio.gather(*(one(grades, case) for case in found))
        return {case["id"]: grade for case, grade in zip(found, made, strict=True)}

    builds = {case["id"]: case["setup_sql"] for case in found}
    seconds = {
        "hack-16-constant-answer": builds["hack-16-constant-answer"] + "; UPDATE sale SET qty = 0 WHERE shop = 'B'"
    }
    return asyncio.run(with_grader(lambda: embedded, builds, work, seconds))


@pytest.mark.parametrize("case", cases())
def test_strict_gives_the_right_verdict(graded: dict[str, Grade], case: dict[str, Any]) -> None:
    verdict = graded[case["id"]].strict
    right = {"error": {Outcome.GOLD_ERROR}}.get(case["right_verdict"], MEANS.get(case["right_verdict"]))
    if (exception := STRICT_EXCEPTIONS.get(case["id"])) is not None:
        right = {exception[0]}
    assert verdict.outcome in (right or ()), f"{case['why']}: {verdict}"


@pytest.mark.parametrize("case", cases())
def test_official_gives_the_public_verdict(graded: dict[str, Grade], case: dict[str, Any]) -> None:
    verdict = graded[case["id"]].official
    public = MEANS[case["upstream_verdict"]]
    if (exception := OFFICIAL_EXCEPTIONS.get(case["id"])) is not None:
        public = {exception[0]}
    assert verdict.outcome in public, f"{case['why']}: {verdict}"
