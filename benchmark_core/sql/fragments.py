"""Benchmark core: SQL cut into its clauses and their parts, as text of the source. A cut never loses a token.

The cut follows the grammar of PostgreSQL over tokens with their nesting, so that strings, comments, functions such as
`EXTRACT(… FROM …)`, `IS DISTINCT FROM`, `FILTER (WHERE …)` and dollar-quoted bodies are never split. What starts like
no statement is one fragment of clause `INVALID`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import TokenType

from benchmark_core.sql.clauses import Clause, clauses
from benchmark_core.sql.tokens import SqlToken, contains_tokens, overlaps, token_texts, tokenize

__all__ = ["INVALID", "Fragment", "contains_tokens", "fragments", "overlaps", "token_texts"]

INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Fragment:
    """A clause of a statement, or a part of one. `number` counts from 1 over all statements, `text` is source text."""

    number: int
    clause: str
    text: str


def fragments(statements: Sequence[str]) -> tuple[Fragment, ...]:
    """All clauses, each followed by its parts (projections, conjuncts, assignments, …) and those of nested queries.

    The clauses of a statement together hold all its tokens but the semicolons. Repeated pieces are listed once.
    """
    found = dict.fromkeys(piece for sql in statements for piece in _pieces(sql))
    return tuple(Fragment(number, clause, text) for number, (clause, text) in enumerate(found, 1))


def _pieces(sql: str) -> Iterator[tuple[str, str]]:
    try:
        tokens = tokenize(sql)
    except ValueError:
        yield INVALID, sql.strip()
        return
    for statement in _statements(tokens):
        for clause in clauses(statement):
            yield clause.name, _source(sql, clause)


def _statements(tokens: Sequence[SqlToken]) -> Iterator[Sequence[SqlToken]]:
    """Cut at semicolons, but not inside the body of `BEGIN ATOMIC … END`."""
    start, atomic = 0, False
    for i, token in enumerate(tokens):
        atomic = atomic or (token.word == "ATOMIC" and tokens[i - 1].word == "BEGIN")
        if token.type is TokenType.SEMICOLON:
            if atomic and not (tokens[i - 1].word == "END" and tokens[i - 2].type is TokenType.SEMICOLON):
                continue
            if i > start:
                yield tokens[start:i]
            start, atomic = i + 1, False
    if start < len(tokens):
        yield tokens[start:]


def _source(sql: str, clause: Clause) -> str:
    """The source of a run of tokens; where a comment stood, one blank stands."""
    texts: list[str] = []
    end = clause.tokens[0].start
    for token in clause.tokens:
        gap = sql[end : token.start]
        texts.append(gap if not gap.strip() else " ")
        texts.append(sql[token.start : token.end])
        end = token.end
    return "".join(texts)
