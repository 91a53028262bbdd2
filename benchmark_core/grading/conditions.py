"""Benchmark core: post-conditions of Management sub-tasks, checked on the state that a submission left.

They run as the clone's role, which its SQL may have prepared for them: so its settings are undone first, every query
has a session and a read-only transaction of its own, and a submission that leaves a function, an operator or a cast
that would be taken for one of PostgreSQL's is refused.
"""

from collections.abc import Sequence
from dataclasses import replace

from benchmark_core.errors import QueryError, QueryTimeout
from benchmark_core.postgres.query import command, rows_match
from benchmark_core.postgres.roles import inside
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.postgres.templates import Clone, reclaim
from benchmark_core.postgres.wire import decoded
from suites.tasks import PostCondition

_SHADOWS = """
    WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname = 'pg_catalog')
    SELECT 'function ' || p.proname::text FROM pg_proc p
        WHERE p.pronamespace NOT IN (TABLE ours)
        AND p.proname IN (SELECT q.proname FROM pg_proc q WHERE q.pronamespace IN (TABLE ours))
    UNION ALL
    SELECT 'operator ' || o.oprname::text FROM pg_operator o
        WHERE o.oprnamespace NOT IN (TABLE ours)
        AND o.oprname IN (SELECT q.oprname FROM pg_operator q WHERE q.oprnamespace IN (TABLE ours))
    UNION ALL
    SELECT 'cast to ' || t.typname::text FROM pg_cast c JOIN pg_type t ON t.oid = c.casttarget
        WHERE c.oid >= 16384
"""


async def shadows(clone: Clone) -> frozenset[str]:
    """Functions, operators and casts in a clone that PostgreSQL may take in place of its own."""
    async with inside(clone.server, clone.name) as connection:
        return frozenset(str(name) for (name,) in await command(connection, _SHADOWS))


async def violated(clone: Clone, conditions: Sequence[PostCondition], limits: Limits) -> list[str]:
    """What does not hold of what is committed in a clone, without any value; empty when all conditions hold.

    Raises:
        ServerError: when the server is lost.
    """
    await reclaim(clone)
    problems: list[str] = []
    for number, condition in enumerate(conditions, start=1):
        problem = await _problem(clone, condition, limits)
        if problem is not None:
            problems.append(f"post-condition {number}: {problem}")
    return problems


async def _problem(clone: Clone, condition: PostCondition, limits: Limits) -> str | None:
    capped = replace(limits, rows=len(condition.rows) + 1)
    try:
        found = await run(clone, ("BEGIN READ ONLY", condition.sql), capped, decode=decoded)
    except (QueryError, QueryTimeout) as error:
        return str(error)
    if not rows_match(found.rows, condition.rows):
        return f"other rows than expected ({len(condition.rows)} expected)"
    return None
