"""Benchmark core: SQL tokens with their place in the source, and comparison of SQL by tokens."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from sqlglot import TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError

STRINGS = frozenset(
    {
        TokenType.STRING,
        TokenType.BYTE_STRING,
        TokenType.UNICODE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.BIT_STRING,
        TokenType.HEX_STRING,
    }
)
_VERBATIM = STRINGS | {TokenType.IDENTIFIER}
_MAX_BODY_DEPTH = 3  # a body in a body in a body: deeper is not SQL that people write


class _Tokenizer(Postgres.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()  # else everything after CALL, DO, EXPLAIN, … would be one opaque string


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token; `sql[start:end]` is its source text.

    Attributes:
        word: upper-case spelling with single blanks, "" for literals and quoted identifiers: they are never keywords.
        value: what the quotes enclose, escapes resolved; for other tokens their text.
    """

    type: TokenType
    word: str
    value: str
    start: int
    end: int


def tokenize(sql: str) -> tuple[SqlToken, ...]:
    """The tokens of PostgreSQL text; comments are dropped, a dollar-quoted body is one token.

    Raises:
        ValueError: for text that is no sequence of SQL tokens, such as an unterminated string.
    """
    try:
        found = _Tokenizer(dialect=Postgres).tokenize(sql)
    except SqlglotError as problem:
        raise ValueError(f"not SQL: {problem}") from None
    return tuple(
        SqlToken(
            token.token_type,
            ""
            if token.token_type in _VERBATIM or token.token_type is TokenType.HEREDOC_STRING
            else " ".join(token.text.upper().split()),
            token.text,
            token.start,
            token.end + 1,
        )
        for token in found
    )


def token_texts(sql: str) -> tuple[str, ...]:
    """Tokens in a form that can be compared: case-folded but for string literals and quoted identifiers.

    Comments are dropped; bodies in dollar quotes are tokenised, enclosed by `$$`. Text that is no SQL is cut at blanks.
    """
    return _texts(sql, _MAX_BODY_DEPTH)


@lru_cache(maxsize=4096)
def _texts(sql: str, depth: int) -> tuple[str, ...]:
    try:
        tokens = tokenize(sql)
    except ValueError:
        return tuple(sql.casefold().split())
    texts: list[str] = []
    for token in tokens:
        if token.type is TokenType.HEREDOC_STRING and depth:
            texts += ["$$", *_texts(token.value, depth - 1), "$$"]
        elif token.word:
            texts += token.word.casefold().split()
        else:
            texts.append(sql[token.start : token.end])
    return tuple(texts)


def contains_tokens(sql: str, piece: str) -> bool:
    """Whether the tokens of `piece` occur in `sql` one after the other; False for a piece without tokens."""
    whole, part = token_texts(sql), token_texts(piece)
    starts = range(len(whole) - len(part) + 1) if part else ()
    return any(whole[i] == part[0] and whole[i : i + len(part)] == part for i in starts)


def overlaps(a: str, b: str) -> bool:
    """Whether one piece of SQL contains the other, token for token."""
    return contains_tokens(a, b) or contains_tokens(b, a)
