"""Benchmark core: to how many decimals a query rounds what it returns."""

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


def places(statement: str, columns: int) -> tuple[int | None, ...]:
    """Per column the decimals that the outer select list rounds to; None where it does not.

    `ROUND(x, 2)`, `ROUND(x)`, `x::numeric(10, 2)` and `CAST(x AS numeric(10, 2))` round, also inside parentheses, a
    cast to another type and `COALESCE`. Empty when the select list does not say how many columns it has.
    """
    try:
        query = sqlglot.parse_one(statement, read="postgres")
    except (SqlglotError, RecursionError):
        return ()
    if not isinstance(query, exp.Select) or len(query.expressions) != columns or query.is_star:
        return ()
    return tuple(_places(item) for item in query.expressions)


def _places(item: exp.Expression) -> int | None:
    match item:
        case exp.Alias() | exp.Paren():
            return _places(item.this)
        case exp.Coalesce():
            constant = all(isinstance(other, exp.Literal | exp.Null) for other in item.expressions)
            return _places(item.this) if constant else None
        case exp.Round():
            decimals = item.args.get("decimals")
            return 0 if decimals is None else _integer(decimals)
        case exp.Cast():
            sizes = item.to.expressions
            if item.to.is_type(exp.DataType.Type.DECIMAL) and sizes:
                return _integer(sizes[1].this) if len(sizes) > 1 else 0
            return _places(item.this)
    return None


def _integer(literal: exp.Expression) -> int | None:
    if isinstance(literal, exp.Neg):
        value = _integer(literal.this)
        return None if value is None else -value
    return int(literal.this) if isinstance(literal, exp.Literal) and literal.is_int else None
