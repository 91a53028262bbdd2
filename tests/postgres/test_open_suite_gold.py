"""PostgreSQL: the open suite's references hold, on the embedded server and on Debian's 15."""

import asyncio

import pytest

from benchmark_core.postgres import server as servers
from guard.audit import audit_gold
from suites.load import load


@pytest.mark.fault("D37")
@pytest.mark.parametrize("where", ["embedded", "debian"])
def test_the_gold_of_the_open_suite_is_sound(where: str, request: pytest.FixtureRequest) -> None:
    given = request.getfixturevalue(where)
    server = servers.external(given) if where == "debian" else given
    suite = load()
    report = asyncio.run(audit_gold(suite.databases, suite.tasks, suite.questions, server))
    assert (report.tasks, report.findings, report.broken_questions) == (14, (), ())
