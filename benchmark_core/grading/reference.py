"""Benchmark core: what the reference of a Query sub-task returns on a clean state, and how results compare with it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmark_core.errors import QueryError, QueryTimeout
from benchmark_core.grading.compare import Rule
from benchmark_core.grading.outcome import GoldFault
from benchmark_core.postgres.pool import Pool, Source
from benchmark_core.postgres.query import Table
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.sql.ordering import visible_order
from benchmark_core.sql.rounding import places
from suites.tasks import SubTask

DENIED = ("42501", "25006")
"""SQLSTATEs of a role that may not: insufficient privilege, read-only transaction."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a reference returns, how a prediction is compared with it, and the rights that it took. It is gold.

    Attributes:
        statements: that were run: the reference's, with its sort keys as further columns where order matters.
    """

    table: Table
    rule: Rule
    access: Access
    statements: tuple[str, ...]


async def compute(clones: Pool, source: Source, sub_task: SubTask, limits: Limits) -> Reference:
    """Run a reference on a clone of `source`, with as few rights as it can do with.

    Raises:
        GoldFault: it fails, is stopped, returns no columns, or more rows than the caps let through.
        DatabaseError: when the server is lost.
    """
    statements = sub_task.sol_sql or ("",)
    last = statements[-1]
    order = visible_order(last) if sub_task.conditions.order else None
    if order is not None:
        try:
            with_keys = (*statements[:-1], order.sql)
            table, access = await _run(clones, source, with_keys, limits)
            statements = with_keys
        except GoldFault:  # it cannot be shown by what it sorts: then it is taken row by row
            order = replace(order, keys=(), hidden=0)
            table, access = await _run(clones, source, statements, limits)
    else:
        table, access = await _run(clones, source, statements, limits)
    if not table.columns:
        raise GoldFault("the reference returns no columns")
    if table.truncated:
        raise GoldFault("the reference returns more than the caps let through")
    hidden = order.hidden if order else 0
    columns, decimal = len(table.columns) - hidden, sub_task.conditions.decimal
    rounded = (decimal,) * columns if decimal >= 0 else places(last, columns)
    return Reference(table, Rule(order.keys if order else None, hidden, rounded), access, statements)


async def _run(clones: Pool, source: Source, statements: Sequence[str], limits: Limits) -> tuple[Table, Access]:
    for access in Access:
        async with clones.clone(source, access, ahead=0) as clone:
            try:
                return await run(clone, statements, limits), access
            except QueryTimeout as error:
                raise GoldFault(f"the reference was {error}", timeout=True) from None
            except QueryError as error:
                if error.sqlstate not in DENIED or access is Access.WRITE:
                    raise GoldFault(f"the reference fails: {error} (SQLSTATE {error.sqlstate})") from None
    raise AssertionError("unreachable: the last access either runs or raises")
