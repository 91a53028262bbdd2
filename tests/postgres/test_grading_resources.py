"""Tests: many tasks at once, whatever they are called; nothing is held on to, and nothing is read whole."""

import asyncio
import json
import subprocess
import sys

import psycopg
import pytest
from graders import SALES, grades, query, task, with_grader

from benchmark_core.grading.grade import Grader
from benchmark_core.grading.outcome import Outcome
from benchmark_core.postgres.server import Server

LONG = "a" * 63
NAMES = [
    *(pytest.param(pair, marks=pytest.mark.fault(fault), id=fault) for fault, pair in (
        ("E14", (LONG + "_1", LONG + "_2")),
        ("E15", ("b" * 59, "b" * 59 + "_snap")),
        ("E16", ("a-1", "a.1", "a_1", "A_1")),
        ("E17", ("x'; CREATE ROLE via_id; --", 'x"; CREATE ROLE via_id; --', "", "\u0131 ü")),
    )),
]  # fmt: skip


@pytest.mark.parametrize("databases", NAMES)
def test_databases_of_any_name_are_apart(server: Server, databases: tuple[str, ...]) -> None:
    builds = {name: f"CREATE TABLE lone (n int); INSERT INTO lone VALUES ({at})" for at, name in enumerate(databases)}

    async def one(opened: Grader, at: int, name: str) -> list[Outcome]:
        async with opened.task(task(query("SELECT n FROM lone"), database=name)) as graded:
            found = [await graded.grade(1, (f"SELECT {n}",)) for n in range(len(databases))]
        return [grade.strict.outcome for grade in found]

    async def work(opened: Grader) -> list[list[Outcome]]:
        return await asyncio.gather(*(one(opened, at, name) for at, name in enumerate(databases)))

    found = asyncio.run(with_grader(lambda: server, builds, work))
    for at, outcomes in enumerate(found):
        assert outcomes == [Outcome.PASSED if n == at else Outcome.MISMATCH for n in range(len(databases))]
    with psycopg.connect(server.dsn) as admin:
        assert admin.execute("SELECT 1 FROM pg_roles WHERE rolname = 'via_id'").fetchone() is None


@pytest.mark.fault("E13")
def test_submissions_of_one_task_at_the_same_time_take_turns(server: Server) -> None:
    async def work(opened: Grader) -> list[Outcome]:
        async with opened.task(task(query("SELECT count(*) FROM sale"))) as one:
            found = await asyncio.gather(*(one.grade(1, ("SELECT count(id) FROM sale",)) for _ in range(6)))
        return [verdict.outcome for grade in found for verdict in (grade.strict, grade.official)]

    assert asyncio.run(with_grader(lambda: server, {"db": SALES}, work)) == [Outcome.PASSED] * 12


@pytest.mark.fault("E18")
def test_no_connection_is_held_on_to(server: Server) -> None:
    def sessions() -> int:
        with psycopg.connect(server.dsn) as admin:
            row = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            ).fetchone()
        assert row
        return int(row[0])

    before = sessions()
    statements = [
        "SELECT 1",
        "SELECT nothing",
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "CREATE TABLE t (x int)",
    ]
    grades(server, task(query("SELECT 1")), *statements * 5)
    assert sessions() <= before


@pytest.mark.fault("E19")
def test_a_result_of_two_million_rows_takes_no_memory(server: Server) -> None:
    code = """
import asyncio, json, resource, sys
from benchmark_core.postgres.query import Session, connect, run_script

async def main():
    async with connect(sys.argv[1]) as one, connect(sys.argv[1]) as admin:
        session = Session(one, admin, "nobody")
        await run_script(session, ("SELECT 1",), 60)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        table = await run_script(session, ("SELECT i, repeat('x', 40) FROM generate_series(1, 2000000) i",), 120)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps([len(table.rows), table.truncated, grown]))

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code, server.dsn], capture_output=True, text=True, check=True)
    rows, truncated, grown_kilobytes = json.loads(done.stdout)
    assert (rows, truncated) == (10_000, True)
    assert grown_kilobytes < 20_000
