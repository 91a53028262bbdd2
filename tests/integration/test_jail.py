"""Tests: the jail. Escapes work with its locks off, and not with them; what the public tests use works."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from escapes import ESCAPES, Escape

from benchmark_core.errors import JailUnavailable
from benchmark_core.jail import jail as jails
from benchmark_core.jail import wire
from benchmark_core.jail.jail import Jail, jail
from benchmark_core.jail.job import Broken, BrokenCause, Failed, Job, Passed, Rows

T = TypeVar("T")

DEADLINE_S, WEAK_DEADLINE_S = 1.0, 60.0
NO_LOCKS = (
    "from benchmark_core.jail import lock, server; "
    "lock.drop_rights = lock.deny_files = lock.deny_calls = lambda: None; "
    "lock.limit = lambda cpu_s: None; server.main()"
)
NOON = datetime(2024, 1, 1, 12)  # noqa: DTZ001 - a timestamp without time zone
SAY = (
    "import os, sys",
    "say = sys.modules['benchmark_core.jail.child'].send",
    "DONE = {'kind': 'done', 'outcome': 'passed', 'message': ''}",
)
OTHER_ROWS = [(2, None, Decimal("1.50"), date(2024, 2, 29), NOON, time(1, 2), timedelta(3, 4, 5))]


@dataclass(slots=True)
class Database:
    """Answers what it is told to, and remembers what it was asked."""

    answer: Rows = field(default_factory=lambda: Rows(("n",), [(1,)]))
    same: int = 1
    asked: list[Any] = field(default_factory=list)

    async def execute(self, queries: tuple[str, ...]) -> Rows:
        self.asked.append(queries)
        return self.answer

    async def ex_base(self, pred_sqls: tuple[str, ...], sol_sqls: tuple[str, ...], order: bool) -> int:
        self.asked.append((pred_sqls, sol_sqls, order))
        return self.same


def job(code: str, deadline_s: float = 10.0, **changes: Any) -> Job:
    given: dict[str, Any] = {
        "pred_sqls": ("SELECT 1 /* mine */",),
        "sol_sqls": ("SELECT DISTINCT round(2.5)",),
        "conditions": {"order": True},
        "pred_query_result": OTHER_ROWS,
    }
    return Job(code=code, deadline_s=deadline_s, **{**given, **changes})


def test(*lines: str) -> str:
    return "\n".join(["def test_case(pred_sqls, sol_sqls, db_name, conn):", *(f"    {line}" for line in lines)])


test.__test__ = False  # type: ignore[attr-defined]


def jailed(work: Callable[[Jail], Awaitable[T]]) -> T:
    async def opened() -> T:
        async with jail() as one:
            return await work(one)

    return asyncio.run(opened())


def ran(code: str, database: Database | None = None, **how: Any) -> Passed | Failed | Broken:
    return jailed(lambda one: one.run(job(code, **how), database or Database()))


def fault_marks(escape: Escape) -> list[pytest.MarkDecorator]:
    return [pytest.mark.fault(number) for number in escape.faults]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, object]]:
    """What an escape aims at: a file, a folder, a process, a port."""
    tmp_path.chmod(0o777)
    (tmp_path / "secret").write_text("secret")
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with socket.create_server(("127.0.0.1", 0)) as listening, bystander:
        port = listening.getsockname()[1]
        try:
            yield {"secret": tmp_path / "secret", "file": tmp_path / "made", "pid": bystander.pid, "port": port}
        finally:
            bystander.kill()


@pytest.mark.parametrize(
    "escape", [pytest.param(e, id=f"{e.mechanism}-{e.name}", marks=fault_marks(e)) for e in ESCAPES]
)
def test_an_escape_works_without_locks_and_not_in_the_jail(
    escape: Escape, places: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = escape.code(**places)

    async def locked(one: Jail) -> tuple[Passed | Failed | Broken, Passed | Failed | Broken]:
        return await one.run(job(code, DEADLINE_S), Database()), await one.run(job(test("pass")), Database())

    outcome, after = jailed(locked)
    assert isinstance(outcome, Failed | Broken), "it must not get out"
    assert (outcome.cause if isinstance(outcome, Broken) else None) is not BrokenCause.JAIL
    assert after == Passed(), "who comes next is tested as before"
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert (tmp_path / "secret").read_text() == "secret" and (tmp_path / "secret").stat().st_mode & 0o777 == 0o644
    os.kill(int(str(places["pid"])), 0)

    monkeypatch.setattr(jails, "_SERVER", NO_LOCKS)
    assert ran(code, deadline_s=WEAK_DEADLINE_S) == Passed(), "it must work without locks"


def test_there_are_more_than_twenty_five_escapes() -> None:
    assert len({(escape.mechanism, escape.name) for escape in ESCAPES}) == len(ESCAPES) > 25


@pytest.mark.fault("B39")
@pytest.mark.parametrize(
    "lines",
    [
        ("assert execute_queries(pred_sqls, db_name, conn) == ([(1,)], None, False)",),
        ("assert perform_query_on_postgresql_databases('SELECT 1', db_name, conn) == ([(1,)], conn)",),
        ("assert ex_base(pred_sqls, sol_sqls, db_name, conn) == 1",),
        ("assert ex_base(pred_sqls, sol_sqls, db_name, conn, {'order': True}) == 1",),
        ("assert test_case_default(pred_sqls, sol_sqls, db_name, conn) == 1",),
        ("assert remove_distinct(sol_sqls) == ['SELECT round(2.5)']",),
        ("assert remove_comments(pred_sqls)[0].strip() == 'SELECT 1'",),
        ("assert 'round' not in remove_round(sol_sqls)[0].lower()",),
        ("assert [check_sql_function_usage(sol_sqls, [name]) for name in ('ROUND', 'SUM')] == [1, 0]",),
        ("from decimal import Decimal", "assert preprocess_results([(Decimal('1.5'), None)])",),
        ("assert pred_query_result[0][0] == 2 and pred_query_result[0][1] is None",),
        ("from datetime import date, datetime, time, timedelta", "from decimal import Decimal",
         "assert pred_query_result[0][2:4] == (Decimal('1.50'), date(2024, 2, 29))",
         "assert pred_query_result[0][4:] == (datetime(2024, 1, 1, 12), time(1, 2), timedelta(3, 4, 5))"),
        ("with conn.cursor() as cursor:", "    cursor.execute('SELECT 1')",
         "    assert cursor.description[0][0] == 'n' and cursor.rowcount == 1",
         "    assert [cursor.fetchone(), cursor.fetchone(), cursor.fetchall()] == [(1,), None, []]", "conn.commit()"),
        ("cursor = conn.cursor()", "cursor.execute('SELECT 1')", "assert list(cursor) == [(1,)]"),
        ("import re, json, math, decimal, datetime, collections, itertools, uuid, statistics",),
    ],
)  # fmt: skip
def test_what_public_tests_use_is_there(lines: tuple[str, ...]) -> None:
    assert ran(test(*lines)) == Passed()


def test_questions_arrive_as_asked() -> None:
    database = Database()
    lines = "execute_queries('SELECT 7', db_name, conn)", "ex_base(pred_sqls, sol_sqls, db_name, conn, {'order': True})"
    assert ran(test(*lines), database) == Passed()
    assert database.asked == [("SELECT 7",), (("SELECT 1 /* mine */",), ("SELECT DISTINCT round(2.5)",), True)]


def test_errors_and_timeouts_of_the_database_reach_the_test() -> None:
    failing, late = Database(Rows(error="no such table")), Database(Rows(timeout=True))
    told = "assert execute_queries('SELECT 1', db_name, conn) == (None, {!r}, {!r})"
    assert ran(test(told.format("no such table", False)), failing) == Passed()
    assert ran(test(told.format(None, True)), late) == Passed()
    caught = (
        "import psycopg2",
        "try:",
        "    conn.cursor().execute('SELECT 1')",
        "except psycopg2.{} as error:",
        "    return",
    )
    for database, name in ((failing, "Error"), (failing, "DatabaseError"), (late, "errors.QueryCanceled")):
        lines = [line.replace("{}", name) for line in caught]
        assert ran(test(*lines, "assert False"), database) == Passed(), name


@pytest.mark.fault("B39")
def test_imports_and_helpers_at_the_top_of_a_test_are_seen_by_it() -> None:
    code = "import re\nLIMIT = 3\ndef small(n):\n    return n < LIMIT and re.match('.', 'x')\n" + test(
        "assert small(2)"
    )
    assert ran(code) == Passed()


@pytest.mark.parametrize("parameters", ["pred_sqls, sol_sqls, db_name, conn, conditions", "a, b, c, d, e=None"])
def test_conditions_are_given_to_tests_that_take_them(parameters: str) -> None:
    last = parameters.split(", ")[-1].split("=")[0]
    assert ran(f"def test_case({parameters}):\n    assert {last} == {{'order': True}}") == Passed()


@pytest.mark.fault("B38", "B40")
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("", BrokenCause.NO_TEST_FUNCTION),
        ("x = 1", BrokenCause.NO_TEST_FUNCTION),
        ("test_case = 3", BrokenCause.NO_TEST_FUNCTION),
        ("def test_case(:", BrokenCause.NOT_CODE),
        ("def test_case(p, s, d, c):\n    x = '\0'", BrokenCause.NOT_CODE),
        ("(" * 100_000, BrokenCause.NOT_CODE),
        ("1 / 0", BrokenCause.TEST_ERROR),
        (test("raise ValueError('x')"), BrokenCause.TEST_ERROR),
        ("def test_case(): pass", BrokenCause.TEST_ERROR),
        (test("raise SystemExit(0)"), BrokenCause.TEST_ERROR),
        (test("import os", "os._exit(0)"), BrokenCause.PROTOCOL),
        (test("import ctypes", "ctypes.string_at(0)"), BrokenCause.LIMIT),
        (test("import os", "os.write(3, b'\\xff' * 100)"), BrokenCause.PROTOCOL),
        (test("import os", "os.write(3, b'\\0\\0\\0\\2{}')"), BrokenCause.PROTOCOL),
        (test("import os, json", "body = json.dumps({'d': [['kind', 'secret']]}).encode()",
              "os.write(3, len(body).to_bytes(4, 'big') + body)"), BrokenCause.PROTOCOL),
        (test(*SAY, "say({'kind': 'ready'})"), BrokenCause.PROTOCOL),
        (test(*SAY, "say(DONE)", "say(DONE)"), BrokenCause.PROTOCOL),
        (test(*SAY, "say(DONE)", "os._exit(1)"), BrokenCause.PROTOCOL),
        (test(*SAY, "say({**DONE, 'outcome': 'certified'})", "os._exit(0)"), BrokenCause.PROTOCOL),
        (test(*SAY, "say({'kind': 'sql', 'queries': [1]})"), BrokenCause.PROTOCOL),
        (test("for _ in range(100): execute_queries('x' * 1_000_000, db_name, conn)"), BrokenCause.PROTOCOL),
        (test("execute_queries('x' * 10_000_000, db_name, conn)"), BrokenCause.TEST_ERROR),
    ],
    ids=lambda value: value if isinstance(value, BrokenCause) else None,
)  # fmt: skip
def test_what_is_no_test_decides_nothing(code: str, cause: BrokenCause) -> None:
    found = ran(code)
    assert isinstance(found, Broken) and found.cause is cause, found


def test_a_failed_assertion_says_where() -> None:
    assert ran(test("assert 1 == 2, 'not so'")) == Failed("not so")
    assert ran(test("x = 1", "assert x == 2")) == Failed("(line 3)")
    assert ran(test("assert False, '\\ud800' * 1000")) == Failed(("\\ud800" * 84)[:500])


@pytest.mark.fault("B41")
def test_tests_share_nothing() -> None:
    first = test(
        "import builtins, json, sys",
        "builtins.sum = lambda x: 99",
        "json.load = None",
        "globals()['execute_queries'] = None",
        "sys.modules['benchmark_core.jail.child'].ask = None",
    )
    second = test("import json", "assert sum([1]) == 1 and json.load and execute_queries('SELECT 1', db_name, conn)")

    async def work(one: Jail) -> list[Passed | Failed | Broken]:
        return [await one.run(job(code), Database()) for code in (first, second)]

    assert jailed(work) == [Passed(), Passed()]


def test_a_test_sees_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "value")
    assert ran(test("import os", "assert set(os.environ) <= {'LC_CTYPE'}, sorted(os.environ)")) == Passed()


def test_many_tests_at_once_each_get_their_own_answers() -> None:
    code = "assert execute_queries('SELECT 1', db_name, conn)[0] == [({},)]"

    async def work(one: Jail) -> list[Passed | Failed | Broken]:
        jobs = [one.run(job(test(code.format(n))), Database(Rows(("n",), [(n,)]))) for n in range(40)]
        slow = one.run(job(test("while True: pass"), 1.0), Database())
        return await asyncio.gather(*jobs, slow)

    *found, stopped = jailed(work)
    assert found == [Passed()] * 40
    assert isinstance(stopped, Broken) and stopped.cause is BrokenCause.TIMEOUT


def test_an_error_of_the_database_side_passes_through_and_the_jail_goes_on() -> None:
    class Lost(Database):
        async def execute(self, queries: tuple[str, ...]) -> Rows:
            raise ConnectionResetError("lost")

    async def work(one: Jail) -> Passed | Failed | Broken:
        with pytest.raises(ConnectionResetError):
            await one.run(job(test("execute_queries('SELECT 1', db_name, conn)")), Lost())
        return await one.run(job(test("pass")), Database())

    assert jailed(work) == Passed()


def test_a_cancelled_test_is_gone() -> None:
    async def work(one: Jail) -> Passed | Failed | Broken:
        running = asyncio.create_task(one.run(job(test("while True: pass"), 60), Database()))
        await asyncio.sleep(0.2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not one._ended
        return await one.run(job(test("pass")), Database())

    assert jailed(work) == Passed()


def test_a_jail_whose_server_dies_says_so_and_leaves_no_test_behind() -> None:
    async def work(one: Jail) -> list[Passed | Failed | Broken]:
        running = asyncio.create_task(one.run(job(test("while True: pass"), 60), Database()))
        await asyncio.sleep(0.3)
        server = int(subprocess.check_output(["pgrep", "-P", str(os.getpid()), "-f", "jail.server"], text=True))
        tests = subprocess.check_output(["pgrep", "-P", str(server)], text=True).split()
        os.kill(server, 9)
        found = [await running, await one.run(job(test("pass")), Database())]
        for pid in tests:
            for _ in range(100):
                if not Path(f"/proc/{pid}").exists():
                    break
                await asyncio.sleep(0.02)
            assert not Path(f"/proc/{pid}").exists()
        return found

    for outcome in jailed(work):
        assert isinstance(outcome, Broken) and outcome.cause is not BrokenCause.TEST_ERROR


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("pass", "does not start"),
        (
            "from benchmark_core.jail import lock, server\n"
            "def refuse(): raise lock.LockError(1, 'seccomp')\n"
            "lock.deny_calls = refuse\nserver.main()",
            "seccomp",
        ),
        (
            "from benchmark_core.jail import lock, server\nlock._FREE_CALLS['openat'] = 257\nserver.main()",
            "openat is not denied",
        ),
    ],
)
def test_without_a_lock_there_is_no_jail(server: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jails, "_SERVER", f"exec({server!r})")
    with pytest.raises(JailUnavailable, match=why):
        ran(test("pass"))


def test_without_landlock_it_warns_and_still_locks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, places: dict[str, object]
) -> None:
    server = (
        "from benchmark_core.jail import lock, server\n"
        "def refuse(): raise lock.LockError(38, 'landlock_create_ruleset')\n"
        "lock.deny_files = refuse\nserver.main()"
    )
    monkeypatch.setattr(jails, "_SERVER", f"exec({server!r})")
    assert isinstance(ran(ESCAPES[0].code(**places)), Broken)
    assert "without Landlock (landlock_create_ruleset" in caplog.text


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, 1.5, float("inf"), "text\n\0", [1, [2]], (1, (2,)), {"a": (1,), 2: None}, b"\x00\xff",
        Decimal("1.50"), date(1, 1, 1), NOON, time(23, 59, 59, 1), timedelta(-1, 2, 3),
        UUID(int=7),
    ],
)  # fmt: skip
def test_values_come_back_as_they_were(value: object) -> None:
    frame = wire.pack(value)
    assert wire.length(frame[:4]) == len(frame) - 4
    back = wire.unpack(frame[4:])
    assert back == value and type(back) is type(value)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b"{}", b'{"x": 1}', b'{"l": 3}', b'{"date": 7}', b'{"d": [[{"l": []}, 1]]}', b"[" * 9999]
)  # fmt: skip
def test_what_is_no_frame_is_refused(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.unpack(body)


def test_what_has_no_tag_or_end_is_not_sent() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (object(), {1, 2}, endless):
        with pytest.raises(wire.WireError):
            wire.pack(value)
    with pytest.raises(wire.WireError, match="too long"):
        wire.length(b"\xff" * 4)
