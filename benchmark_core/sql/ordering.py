"""Benchmark core: by what a query sorts its rows, made visible, so that rows which it leaves tied can be told.

Text is only inserted, by token positions: a query is never written anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import TokenType

from benchmark_core.sql.clauses import clause_starts, select_list_start
from benchmark_core.sql.nesting import Tokens, at_commas, cut, levels_of
from benchmark_core.sql.tokens import SqlToken, tokenize

_DIRECTIONS = (("ASC",), ("DESC",), ("NULLS", "FIRST"), ("NULLS", "LAST"))
_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT")


@dataclass(frozen=True, slots=True)
class Order:
    """A query that also returns what it sorts by.

    Attributes:
        sql: the query, with the sort keys that it does not return appended as columns.
        keys: the columns that are sort keys; negative ones count from the end. Empty when they cannot be told.
        hidden: how many columns were appended.
    """

    sql: str
    keys: tuple[int, ...] = ()
    hidden: int = 0


def visible_order(statement: str) -> Order | None:
    """How the rows of a query are sorted; None when it does not sort them, or is not SQL."""
    try:
        tokens = [token for token in tokenize(statement) if token.type is not TokenType.SEMICOLON]
    except ValueError:
        return None
    starts = clause_starts(tokens) if tokens else []
    bounds = [*(start for _, start in starts), len(tokens)]
    spans = {name: (start, end) for (name, start), end in zip(starts, bounds[1:], strict=True)}
    if "ORDER BY" not in spans:
        return None
    begin, end = spans["ORDER BY"]
    wanted = [_without_direction(item) for item in cut(tokens[begin + 1 : end], at_commas)]
    names = [name for name, _ in starts]
    if names.count("SELECT") != 1 or any(name.startswith(_SET_OPERATIONS) for name in names):
        return Order(statement)
    return _shown(statement, tokens[slice(*spans["SELECT"])], wanted)


def _shown(statement: str, select: Tokens, wanted: Sequence[Tokens]) -> Order:
    first = select_list_start(select)
    items = cut(select[first:], at_commas)
    distinct = first > 1 and select[1].word == "DISTINCT" and select[min(2, first - 1)].word != "ON"
    starred = next((at for at, item in enumerate(items) if _is_star(item)), len(items))
    keys: list[int | Tokens] = []
    for key in wanted:
        found = _column(key, items)
        if found is None or (found >= starred and not distinct):  # its place is not known: its expression is shown
            keys.append(key if found is None else _expression(items[found]))
        else:
            keys.append(found)
    appended = [shown for shown in keys if not isinstance(shown, int)]
    if not items or not all(wanted) or (distinct and (appended or starred < len(items))):
        return Order(statement)
    left = -len(appended)
    places: list[int] = []
    for column in keys:
        places.append(column if isinstance(column, int) else left)
        left += not isinstance(column, int)
    at = select[-1].end
    extra = "".join(f", ({statement[shown[0].start : shown[-1].end]})" for shown in appended)
    return Order(statement[:at] + extra + statement[at:], tuple(places), len(appended))


def _without_direction(item: Tokens) -> Tokens:
    levels = levels_of(item)
    using = next((i for i, token in enumerate(item) if token.word == "USING" and not levels[i]), len(item))
    item = item[:using]
    for words in reversed(_DIRECTIONS):
        if tuple(token.word for token in item[-len(words) :]) == words:
            item = item[: -len(words)]
    return item


def _column(key: Tokens, items: Sequence[Tokens]) -> int | None:
    """The column of the select list that a sort key means: by number, by output name, or because it is the same."""
    if len(key) == 1 and key[0].type is TokenType.NUMBER:
        number = int(key[0].value) if key[0].value.isdigit() else 0
        return number - 1 if 0 < number <= len(items) else None
    if len(key) == 1 and (name := _name(key[0])) is not None:
        named = [at for at, item in enumerate(items) if _output_name(item) == name]
        if named:
            return named[0]
    same = [at for at, item in enumerate(items) if _same(_expression(item), key)]
    return same[0] if same else None


def _same(a: Tokens, b: Tokens) -> bool:
    return [(token.word, token.value if not token.word else "") for token in a] == [
        (token.word, token.value if not token.word else "") for token in b
    ]


def _is_star(item: Tokens) -> bool:
    return bool(item) and item[-1].type is TokenType.STAR and (len(item) == 1 or item[-2].type is TokenType.DOT)


def _name(token: SqlToken) -> str | None:
    """What an identifier names: folded unless quoted. None for anything else."""
    if token.type is TokenType.IDENTIFIER:
        return token.value
    return token.value.lower() if token.word.isidentifier() else None


def _output_name(item: Tokens) -> str | None:
    return _name(item[-1]) if _is_aliased(item) or len(item) == 1 or item[-2].type is TokenType.DOT else None


def _expression(item: Tokens) -> Tokens:
    """A select-list item without its alias."""
    if not _is_aliased(item):
        return item
    return item[:-2] if item[-2].word == "AS" else item[:-1]


def _is_aliased(item: Tokens) -> bool:
    if len(item) < 2 or _name(item[-1]) is None:
        return False
    before = item[-2]
    if before.word == "AS":
        return True
    closed = before.type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.NUMBER, TokenType.STRING)
    plain = before.type in (TokenType.VAR, TokenType.IDENTIFIER) or before.word == "END"
    return (closed or plain) and item[-1].type in (TokenType.VAR, TokenType.IDENTIFIER)
