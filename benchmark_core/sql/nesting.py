"""Benchmark core: nesting of SQL tokens: levels, parenthesised groups, and cuts at separators of the top level."""

from collections.abc import Callable, Iterator, Sequence

from sqlglot import TokenType

from benchmark_core.sql.tokens import SqlToken

Tokens = Sequence[SqlToken]
QUERY_HEADS = {"SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE"}
_OPENERS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSERS = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}

Separator = Callable[[Tokens, Sequence[int]], list[int]]


def cut(tokens: Tokens, separator: Separator) -> list[Tokens]:
    """The runs of tokens between separators, empty ones left out."""
    cuts = separator(tokens, levels_of(tokens))
    runs = [tokens[a:b] for a, b in zip([0, *(c + 1 for c in cuts)], [*cuts, len(tokens)], strict=True)]
    return [run for run in runs if run]


def at_commas(tokens: Tokens, levels: Sequence[int]) -> list[int]:
    return [i for i, token in enumerate(tokens) if token.type is TokenType.COMMA and not levels[i]]


def at_ands(tokens: Tokens, levels: Sequence[int]) -> list[int]:
    """The ANDs of a conjunction; none where an OR makes it a disjunction. The AND of BETWEEN is not one."""
    cuts: list[int] = []
    between = False
    for i, token in enumerate(tokens):
        if levels[i]:
            continue
        if token.word == "OR":
            return []
        if token.word == "BETWEEN":
            between = True
        elif token.word == "AND":
            if not between:
                cuts.append(i)
            between = False
    return cuts


def levels_of(tokens: Tokens) -> list[int]:
    """Nesting level of each token; an opener and its closer count as inside."""
    levels: list[int] = []
    level = 0
    for i in range(len(tokens)):
        if _opens(tokens, i):
            level += 1
        levels.append(level)
        if _closes(tokens, i):
            level = max(0, level - 1)
    return levels


def _opens(tokens: Tokens, i: int) -> bool:
    return tokens[i].type in _OPENERS and not (i and tokens[i - 1].type is TokenType.DOT)


def _closes(tokens: Tokens, i: int) -> bool:
    return tokens[i].type in _CLOSERS and not (i and tokens[i - 1].type is TokenType.DOT)


def query_groups(tokens: Tokens) -> Iterator[Tokens]:
    """The outermost parenthesised groups that enclose a query, also inside other groups and calls."""
    opened: list[int] = []
    covered = -1
    ends: dict[int, int] = {}
    for i, token in enumerate(tokens):
        if token.type is TokenType.L_PAREN:
            opened.append(i)
        elif token.type is TokenType.R_PAREN and opened:
            ends[opened.pop()] = i
    for start in sorted(ends):
        if start > covered and encloses_query(tokens[start : start + 2]):
            covered = ends[start]
            yield tokens[start : covered + 1]


def encloses_query(group: Tokens) -> bool:
    return len(group) > 1 and group[1].word in QUERY_HEADS - {"TABLE"}


def first_group(tokens: Tokens, *, outer: bool = False) -> Tokens:
    """The first parenthesised group at the top level, without its parentheses unless `outer`."""
    levels = levels_of(tokens)
    for start, token in enumerate(tokens):
        if token.type is TokenType.L_PAREN:
            end = next((i for i in range(start, len(tokens)) if levels[i] == 1 and _closes(tokens, i)), None)
            return () if end is None else tokens[start : end + 1] if outer else tokens[start + 1 : end]
    return ()
