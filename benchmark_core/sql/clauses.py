"""Benchmark core: the clause grammar behind `fragments`: where a clause starts, and what its parts are."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import TokenType

from benchmark_core.sql.nesting import (
    QUERY_HEADS,
    Separator,
    Tokens,
    at_ands,
    at_commas,
    cut,
    encloses_query,
    first_group,
    levels_of,
    query_groups,
)

OTHER_HEADS = set(
    "ALTER ANALYZE BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE DISCARD DO DROP "
    "END EXECUTE EXPLAIN FETCH GRANT IMPORT LISTEN LOAD LOCK MOVE NOTIFY PREPARE REASSIGN REFRESH REINDEX RELEASE "
    "RESET REVOKE ROLLBACK SAVEPOINT SECURITY SET SHOW START TRUNCATE UNLISTEN VACUUM".split()
)
_SIMPLE_STARTS = {"SELECT", "WHERE", "GROUP BY", "HAVING", "WINDOW", "ORDER BY", "LIMIT", "OFFSET", "FETCH"}
_SET_OPERATIONS = {"UNION", "INTERSECT", "EXCEPT"}
_JOIN_WORDS = {"NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER"}
_MAX_DEPTH = 40  # nested queries; deeper ones stay whole


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause or a part of one: a name and a run of tokens."""

    name: str
    tokens: Tokens


def clauses(statement: Tokens, depth: int = 0) -> Iterator[Clause]:
    """The clauses of one statement, each followed by its parts and by the clauses of the queries that it encloses."""
    head = statement[0]
    if head.word in QUERY_HEADS or head.type is TokenType.L_PAREN:
        yield from _query(statement, depth)
    elif head.word == "CREATE":
        yield from _create(statement, depth)
    elif head.word in OTHER_HEADS:
        yield from _around_bodies(head.word, statement)
    else:
        yield Clause("INVALID", statement)


def _create(statement: Tokens, depth: int) -> Iterator[Clause]:
    """`CREATE … AS query`, `CREATE INDEX … WHERE …`, or a header with its column list or body."""
    levels = levels_of(statement)
    for i, token in enumerate(statement):
        is_body = i > 0 and statement[i - 1].word == "AS" and levels[i] == 0
        query = token.word in QUERY_HEADS or (token.type is TokenType.L_PAREN and encloses_query(statement[i:]))
        if is_body and query:
            yield Clause("CREATE", statement[:i])
            yield from _query(statement[i:], depth)
            return
        if token.word == "WHERE" and levels[i] == 0 and any(t.word == "INDEX" for t in statement[:4]):
            yield Clause("CREATE", statement[:i])
            yield from _expanded(Clause("WHERE", statement[i:]), depth)
            return
    yield from _around_bodies("CREATE", statement)
    group = first_group(statement)
    if group and len(statement) > 1 and "TABLE" in {t.word for t in statement[:4]}:
        yield from _split_parts("COLUMN", group, at_commas)


def _around_bodies(name: str, statement: Tokens) -> Iterator[Clause]:
    """Header, dollar-quoted body (whole) and what follows it."""
    start = 0
    for i, token in enumerate(statement):
        if token.type is TokenType.HEREDOC_STRING:
            if i > start:
                yield Clause(name, statement[start:i])
            yield Clause("BODY", statement[i : i + 1])
            start = i + 1
    if start < len(statement):
        yield Clause(name, statement[start:])


def _query(tokens: Tokens, depth: int) -> Iterator[Clause]:
    starts = clause_starts(tokens)
    for (name, start), end in zip(starts, [start for _, start in starts[1:]] + [len(tokens)], strict=True):
        yield from _expanded(Clause(name, tokens[start:end]), depth)


def clause_starts(tokens: Tokens) -> list[tuple[str, int]]:
    """Names and first tokens of the clauses at the top level; the first clause starts at 0."""
    levels = levels_of(tokens)
    found: list[tuple[str, int]] = []
    command = ""  # the data-changing command that we are in, which decides what SET, USING, VALUES mean
    for i, token in enumerate(tokens):
        if levels[i] or (i and tokens[i - 1].type is TokenType.DOT):
            continue
        name = _name(tokens, i, command)
        if not name:
            continue
        if name in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            command = name
        at = _first_join_word(tokens, i, found[-1][1] if found else 0) if token.word == "JOIN" else i
        found.append((_join_name(tokens[at : i + 1]) if token.word == "JOIN" else name, at))
    if not found or found[0][1] > 0:
        found.insert(0, ("QUERY", 0))
    return found


def _name(tokens: Tokens, i: int, command: str) -> str:
    """The name of the clause that starts at token `i`, or ""."""
    word = tokens[i].word
    before = tokens[i - 1].word if i else ""
    after = tokens[i + 1].word if i + 1 < len(tokens) else ""
    if before == "AS":  # an alias, such as `AS window`
        return ""
    if word == "FROM":
        return "" if before in ("DISTINCT", "DELETE") else word
    if word in _SET_OPERATIONS:
        return " ".join([word, after] if after in ("ALL", "DISTINCT") else [word])
    if word in _SIMPLE_STARTS or word == "JOIN":
        return word
    return _command_clause(word, before, after, command) if i else _head(word)


def _head(word: str) -> str:
    return word if word in QUERY_HEADS else ""


def _command_clause(word: str, before: str, after: str, command: str) -> str:
    """Clauses that are such only after certain words or in certain commands."""
    if word in ("INSERT", "UPDATE", "DELETE", "MERGE"):
        return word if before == ")" and not command else ""  # after the CTEs
    if word == "FOR" and after in ("UPDATE", "SHARE", "NO", "KEY"):
        return "FOR"
    if word == "VALUES":
        return word if after == "(" and (command == "INSERT" or before in ("ALL", "DISTINCT", *_SET_OPERATIONS)) else ""
    if word == "ON" and after == "CONFLICT" and command == "INSERT":
        return "ON CONFLICT"
    if word == "WHEN" and command == "MERGE":
        return word
    allowed = {
        "SET": ("UPDATE",),
        "USING": ("DELETE", "MERGE"),
        "RETURNING": ("INSERT", "UPDATE", "DELETE", "MERGE"),
        "WITH": ("INSERT",),
    }
    return word if command in allowed.get(word, ()) and after not in ("TIME", "ORDINALITY") and before != "DO" else ""


def _first_join_word(tokens: Tokens, join: int, floor: int) -> int:
    at = join
    while at - 1 > floor and tokens[at - 1].word in _JOIN_WORDS:
        at -= 1
    return at


def _join_name(tokens: Tokens) -> str:
    return " ".join(token.word for token in tokens)


def _expanded(clause: Clause, depth: int) -> Iterator[Clause]:
    if clause.name == "WITH":
        yield from _ctes(clause.tokens, depth)
        return
    yield clause
    yield from _parts(clause)
    if depth < _MAX_DEPTH:
        for group in query_groups(clause.tokens):
            if encloses_query(group):
                yield from _query(group[1:-1], depth + 1)


def _ctes(tokens: Tokens, depth: int) -> Iterator[Clause]:
    """Each common table expression whole (the first with its WITH), followed by the clauses of its query."""
    for number, cte in enumerate(cut(tokens, at_commas)):
        yield Clause("WITH" if number == 0 else "CTE", cte)
        if depth < _MAX_DEPTH:
            for group in query_groups(cte):
                if encloses_query(group):
                    yield from _query(group[1:-1], depth + 1)


def _parts(clause: Clause) -> Iterator[Clause]:
    name, tokens = clause.name, clause.tokens
    if name == "SELECT":
        distinct = select_list_start(tokens)
        if distinct > 1:
            yield Clause("DISTINCT", tokens[1:distinct])
        yield from _split_parts(name, tokens[distinct:], at_commas, always=distinct > 1)
    elif name in ("FROM", "GROUP BY", "ORDER BY", "SET", "RETURNING", "WINDOW"):
        yield from _split_parts(name, tokens[1:], at_commas)
    elif name in ("WHERE", "HAVING"):
        yield from _split_parts(name, tokens[1:], at_ands)
    elif name.endswith("JOIN"):
        yield from _split_parts(name + " ON", _after(tokens, "ON"), at_ands)
    elif name == "ON CONFLICT":
        yield from _split_parts(name + " SET", _after(tokens, "SET"), at_commas, always=True)


def select_list_start(tokens: Tokens) -> int:
    """Index of the first token after `SELECT [ALL | DISTINCT [ON (…)]]`."""
    if len(tokens) < 2 or tokens[1].word not in ("ALL", "DISTINCT"):
        return 1
    if len(tokens) > 2 and tokens[1].word == "DISTINCT" and tokens[2].word == "ON":
        group = first_group(tokens, outer=True)
        return min(3 + len(group), len(tokens))
    return 2


def _after(tokens: Tokens, word: str) -> Tokens:
    levels = levels_of(tokens)
    found = [i for i, token in enumerate(tokens) if token.word == word and not levels[i]]
    return tokens[found[-1] + 1 :] if found else ()


def _split_parts(name: str, tokens: Tokens, separator: Separator, *, always: bool = False) -> Iterator[Clause]:
    """The parts between separators; a clause of one part has no parts of its own, unless `always`."""
    parts = cut(tokens, separator)
    if len(parts) > 1 or always:
        yield from (Clause(name, part) for part in parts)
