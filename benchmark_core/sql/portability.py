"""Benchmark core: SQL that PostgreSQL 14 does not have. What runs on newer servers only must not be in a suite.

Source: the release notes of PostgreSQL 15 to 18, section "Migration" and "Changes". Reads tokens, and the tree for what
tokens cannot show; knows what people write in queries and build scripts, not every corner.
"""

import re
from collections.abc import Iterator

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from benchmark_core.sql.tokens import SqlToken, tokenize

OLDEST = 14

FUNCTIONS = {
    15: "regexp_count regexp_instr regexp_like regexp_substr",
    16: "any_value array_sample array_shuffle date_add date_subtract erf erfc json_agg_strict json_array json_arrayagg "
    "json_object_agg_strict json_object_agg_unique json_object_agg_unique_strict json_objectagg jsonb_agg_strict "
    "jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict pg_input_error_info "
    "pg_input_is_valid random_normal",
    17: "json_exists json_query json_scalar json_serialize json_table json_value jsonb_populate_record_valid "
    "pg_basetype to_bin to_oct to_regtypemod unicode_assigned unicode_version uuid_extract_timestamp "
    "uuid_extract_version xmltext",
    18: "array_reverse array_sort casefold crc32 crc32c gamma lgamma uuidv4 uuidv7",
}
"""Functions by the version that first has them; some are grammar, and not in `pg_proc`."""
_SINCE = {name: version for version, names in FUNCTIONS.items() for name in names.split()}
_PHRASES = (
    (15, ("NULLS", "NOT", "DISTINCT")),
    (15, ("SECURITY_INVOKER",)),
    (16, ("IS", "JSON")),
    (16, ("IS", "NOT", "JSON")),
    (17, ("MERGE_ACTION", "(")),
    (18, ("GENERATED", "ALWAYS", "AS", "VIRTUAL")),
    (18, ("WITHOUT", "OVERLAPS")),
    (18, ("RETURNING", "OLD", ".")),
    (18, ("RETURNING", "NEW", ".")),
)
_NEW_NUMBER = re.compile(r"0[xXoObB][0-9a-fA-F_]+|\d[\d_]*_\d[\d_]*")


def newer_than_oldest(sql: str) -> Iterator[tuple[str, int]]:
    """What `sql` uses that came after PostgreSQL 14: (what, the version that has it). Reads dollar quotes too."""
    try:
        tokens = tokenize(sql)
    except ValueError:
        return
    words = [token.word for token in tokens]
    for at, token in enumerate(tokens):
        if token.type is TokenType.HEREDOC_STRING:
            yield from newer_than_oldest(token.value)
        called = words[at + 1 : at + 2] == ["("] and (at == 0 or words[at - 1] != ".")
        if called and (version := _SINCE.get(token.word.lower())):
            yield f"the function {token.word.lower()}", version
        if token.word == "MERGE" and words[at + 1 : at + 2] == ["INTO"]:
            yield "MERGE", 15
        for version, phrase in _PHRASES:
            if tuple(words[at : at + len(phrase)]) == phrase:
                yield " ".join(phrase), version
    yield from _numbers(sql, tokens)
    if _unnamed_subquery(sql):
        yield "a subquery in FROM without a name", 16


def _numbers(sql: str, tokens: tuple[SqlToken, ...]) -> Iterator[tuple[str, int]]:
    """Older servers read `1_000` as the number 1 with the alias `_000`."""
    for token in tokens:
        if token.type in (TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING):
            text = re.match(r"[0-9a-zA-Z_]+", sql[token.start :])
            if text and _NEW_NUMBER.fullmatch(text[0]):
                yield f"the number {text[0]}", 16


def _unnamed_subquery(sql: str) -> bool:
    try:
        trees = sqlglot.parse(sql, dialect="postgres", error_level=sqlglot.ErrorLevel.RAISE)
    except (SqlglotError, RecursionError):
        return False
    sources = [source.this for tree in trees if tree is not None for source in tree.find_all(exp.From, exp.Join)]
    queries = [source for source in sources if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Query)]
    return any(not query.alias for query in queries)
