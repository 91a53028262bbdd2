"""Benchmark core: the names and the constants that SQL uses. Read from tokens, so that no statement is too odd."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from sqlglot import TokenType

from benchmark_core.sql.nesting import Tokens, at_commas, cut, first_group
from benchmark_core.sql.tokens import STRINGS, tokenize

_CREATE = re.compile(r"\bCREATE\s", re.IGNORECASE)
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_CONSTRAINTS = {"CONSTRAINT", "PRIMARY KEY", "FOREIGN KEY", "UNIQUE", "CHECK", "EXCLUDE", "LIKE"}
_BEFORE_TABLE = {"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "USING"}
_SETS = ("tables", "columns", "routines", "ctes", "aliases")
_BEFORE_ROUTINE = {"VIEW", "FUNCTION", "PROCEDURE", "TYPE"}


@dataclass(frozen=True, slots=True)
class Identifiers:
    """Names in the spelling of their source, without quotes. A name may stand in several sets.

    Attributes:
        routines: views, functions, procedures and types that the schema or the statements create.
        aliases: names that only the statements give, of tables or of result columns.
    """

    tables: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()
    routines: frozenset[str] = frozenset()
    ctes: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        return self.tables | self.columns | self.routines | self.ctes | self.aliases


@dataclass(frozen=True, slots=True)
class Constants:
    """Literals: strings with escapes resolved, numbers as they are written."""

    strings: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()


def identifiers(statements: Sequence[str], schema_text: str) -> Identifiers:
    """The names in a schema's `CREATE` statements and in the statements given. Text that is no SQL adds none."""
    schema = _schema_names(schema_text)
    found: dict[str, set[str]] = {name: set(schema[name]) for name in _SETS}
    only_columns = found["columns"] - found["tables"]
    for tokens in _token_runs(statements):
        _used(tokens, found)
        _created(tokens, found)
    found["tables"] -= only_columns  # `EXTRACT(YEAR FROM booked_at)` names no table
    found["aliases"] -= found["tables"] | found["columns"] | found["routines"] | found["ctes"]
    return Identifiers(**{name: frozenset(names) for name, names in found.items()})


def constants(statements: Sequence[str]) -> Constants:
    """The string and numeric literals of statements, bodies in dollar quotes included."""
    strings: set[str] = set()
    numbers: set[str] = set()
    for tokens in _token_runs(statements):
        strings.update(token.value for token in tokens if token.type in STRINGS)
        numbers.update(token.value for token in tokens if token.type is TokenType.NUMBER)
    return Constants(frozenset(strings), frozenset(numbers))


def _token_runs(statements: Sequence[str], depth: int = 2) -> Iterator[Tokens]:
    for sql in statements:
        try:
            tokens = tokenize(sql)
        except ValueError:
            continue
        yield tokens
        if depth:
            yield from _token_runs([t.value for t in tokens if t.type is TokenType.HEREDOC_STRING], depth - 1)


@lru_cache(maxsize=64)
def _schema_names(schema: str) -> Mapping[str, frozenset[str]]:
    """What a schema creates. Kept, since the tasks of a database share it."""
    found: dict[str, set[str]] = {name: set() for name in _SETS}
    for tokens in _schema_statements(schema):
        _created(tokens, found)
    return {name: frozenset(names) for name, names in found.items()}


def _schema_statements(schema: str) -> Iterator[Tokens]:
    """The statements of a schema file; prose or sample rows between them are passed over."""
    starts = [match.start() for match in _CREATE.finditer(schema)]
    for start, end in pairwise([*starts, len(schema)]):
        text = schema[start:end]
        try:
            yield tokenize(text)
        except ValueError:
            yield from _token_runs([text.partition(";")[0]])


def _created(tokens: Tokens, found: dict[str, set[str]]) -> None:
    words = [token.word for token in tokens[:8]]
    if not words or words[0] != "CREATE":
        return
    name = _created_name(tokens)
    if "TABLE" in words[:4]:
        found["tables"].add(name)
        for item in cut(first_group(tokens), at_commas):
            if item[0].word not in _CONSTRAINTS:
                found["columns"].add(item[0].value)
    elif _BEFORE_ROUTINE & set(words[:5]):
        found["routines"].add(name)


def _created_name(tokens: Tokens) -> str:
    """The name that follows `CREATE … TABLE | VIEW | … [IF NOT EXISTS]`, without its schema."""
    kinds = {"TABLE", *_BEFORE_ROUTINE}
    i = next((i for i, token in enumerate(tokens) if token.word in kinds), 0) + 1
    while i < len(tokens) and tokens[i].word in ("IF", "NOT", "EXISTS", "ONLY"):
        i += 1
    while i + 2 < len(tokens) and tokens[i + 1].type is TokenType.DOT:
        i += 2
    return tokens[i].value if i < len(tokens) else ""


def _used(tokens: Tokens, found: dict[str, set[str]]) -> None:
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        is_part = before is not None and before.type is TokenType.DOT
        if token.type not in _NAMES and not (is_part and token.word.isidentifier()):
            continue
        kind = _use(before.word if before else "", is_part, after.word if after else "", tokens[i + 2 : i + 3])
        if kind:
            found[kind].add(token.value)


def _use(before: str, is_part: bool, after: str, then: Tokens) -> str:
    """What a name stands for, by its neighbours; "" for a function that is called and a date field."""
    opens = bool(then) and then[0].type is TokenType.L_PAREN
    if after == "AS" and (opens or (bool(then) and then[0].word in ("MATERIALIZED", "NOT"))):
        return "ctes"
    if before in _BEFORE_TABLE:
        return "tables"
    if before == "AS":
        return "aliases"
    if after == "(" or (before == "(" and after == "FROM"):  # the field of `EXTRACT(YEAR FROM …)`
        return ""
    return "aliases" if after == "." and not is_part else "columns"
