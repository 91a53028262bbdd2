"""Tests: limits that a server cannot enforce are named, and keep test cases from running there."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from official_builder import edit, write_gold, write_questions, write_tasks

from benchmark_core.errors import InputError
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.limits import unenforced
from benchmark_core.postgres.server import Server
from guard.grading import GradePlan, check_limits
from guard.predictions import Prediction
from suites.imports import Inputs, import_official
from suites.load import Suite

FIXES = {
    "temporary files": "ALTER SYSTEM SET temp_file_limit = '256MB'",
    "statements that fail": "ALTER SYSTEM SET log_min_error_statement = panic",
}


def named(server: Server) -> list[str]:
    return [limit.what for limit in asyncio.run(unenforced(server))]


def test_the_embedded_server_enforces_all_but_what_only_we_know(embedded: Server) -> None:
    assert asyncio.run(unenforced(embedded)) == ()
    assert named(replace(embedded, pid=None)) == ["memory of a query has no limit from outside"]


def test_a_server_as_debian_sets_it_up_is_not_safe_and_can_be_made_so(debian: str) -> None:
    server = servers.external(debian)
    before = named(server)
    for words in (*FIXES, "memory"):
        assert any(words in what for what in before), (words, before)
    with psycopg.connect(debian, autocommit=True) as admin:
        try:
            for statement in FIXES.values():
                admin.execute(statement)  # type: ignore[arg-type]
            admin.execute("SELECT pg_reload_conf(), pg_sleep(0.5)")
            assert named(server) == ["memory of a query has no limit from outside"]
        finally:
            admin.execute("ALTER SYSTEM RESET ALL")
            admin.execute("SELECT pg_reload_conf(), pg_sleep(0.5)")
    assert named(server) == before


def test_only_a_superuser_can_close_large_objects(debian: str, limited: Callable[[str, str], str]) -> None:
    server = servers.external(limited(debian, "CREATEDB CREATEROLE"))
    assert any("large objects" in what for what in named(server))


@pytest.fixture
def official(tmp_path: Path) -> Suite:
    ids = ["mart_1", "mart_M_1"]
    gold = write_gold(tmp_path / "gold.jsonl", ids)
    edit(gold, 1, test_cases=[])
    questions, tasks = write_questions(tmp_path / "questions", ids), write_tasks(tmp_path / "tasks", ids)
    return import_official(tmp_path / "out", Inputs(str(questions), str(tasks), gold)).suite


def plan(official: Suite, instance_id: str) -> GradePlan:
    return GradePlan(official, (Prediction(instance_id, 1, 1, ("SELECT 1",)),))


def test_test_cases_run_there_only_where_that_is_accepted(debian: str, embedded: Server, official: Suite) -> None:
    server = servers.external(debian)
    with pytest.raises(InputError, match=r"memory of a query[^$]*--accept-limits") as refused:
        asyncio.run(check_limits(plan(official, "mart_M_1"), server, accepted=False))
    assert "temp_file_limit" in str(refused.value)
    assert len(asyncio.run(check_limits(plan(official, "mart_M_1"), server, accepted=True))) > 1
    assert len(asyncio.run(check_limits(plan(official, "mart_1"), server, accepted=False))) > 1, "said, not refused"
    assert asyncio.run(check_limits(plan(official, "mart_M_1"), embedded, accepted=False)) == ()
