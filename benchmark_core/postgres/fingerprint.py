"""Benchmark core: fingerprints of databases: what is in a template, hashed inside PostgreSQL, and what has changed.

A template takes no connections, so a clone of it is read, as the clone's own role and never as the administrator:
planning a mere SELECT evaluates the expressions of a table's indexes, so reading a hostile table runs its owner's code.
Rows are read with the types' output functions: a cast of their owner's making is not used, so it cannot hide a row.

What counts: columns, constraints, indexes, views, functions, triggers, rules, policies, types, sequences with their
place, extensions, and every row. What does not: owners, grants, comments, statistics, large objects, numbers (OIDs).
Between major versions the text of views may differ, as PostgreSQL writes it; all else is equal from 14 to 18.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmark_core.errors import DatabaseError, QueryError
from benchmark_core.postgres.query import Session, command, connect, run_script
from benchmark_core.postgres.templates import Clone, Template, Workspace

DEADLINE_S = 120.0
"""Seconds for the reading of one database."""

_AT_ONCE = 4
_MAX_PARTS = 200_000
_SHOWN = 8

_SAFELY = "SET search_path = pg_catalog; SET row_security = off; SET enable_indexscan = off"
_OURS = r"n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_t%'"
_LISTED = f"""
SELECT c.relkind::text, format('%I.%I', n.nspname, c.relname), pg_has_role(c.relowner, 'USAGE'), c.relforcerowsecurity
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'm', 'S') AND {_OURS}
"""
_IN_SCHEMA = f"JOIN pg_namespace n ON n.oid = {{}} WHERE {_OURS}"
_ON_TABLE = f"JOIN pg_class c ON c.oid = {{}} JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OURS}"
_NAMED = "format('%I.%I: %I', n.nspname, c.relname, {})"
_COLUMNS = """
SELECT a.attrelid, jsonb_agg(jsonb_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  a.attidentity, a.attgenerated, a.attcollation::regcollation::text, pg_get_expr(d.adbin, d.adrelid)) ORDER BY a.attnum)
  AS columns
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attnum > 0 AND NOT a.attisdropped GROUP BY a.attrelid
"""
_ENUM = "SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid"
_RANGE = "SELECT r.rngsubtype::regtype::text FROM pg_range r WHERE r.rngtypid = t.oid"
_CHECKS = "SELECT jsonb_agg(pg_get_constraintdef(k.oid) ORDER BY 1) FROM pg_constraint k WHERE k.contypid = t.oid"
_PARENTS = (
    "SELECT jsonb_agg(i.inhparent::regclass::text ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = c.oid"
)
_SCHEMA = (
    f"SELECT 'schema', format('%I', n.nspname), '' FROM pg_namespace n WHERE {_OURS}",
    f"""SELECT 'table', format('%I.%I', n.nspname, c.relname), jsonb_build_array(c.relkind, c.relpersistence, l.columns,
        c.relrowsecurity, c.relforcerowsecurity, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid),
        ({_PARENTS}))::text
        FROM pg_class c LEFT JOIN ({_COLUMNS}) l ON l.attrelid = c.oid {_IN_SCHEMA.format("c.relnamespace")}
        AND c.relkind IN ('r', 'p', 'f', 'c')""",
    f"""SELECT 'view', format('%I.%I', n.nspname, c.relname), concat(c.relkind, l.columns, c.reloptions,
        pg_get_viewdef(c.oid))
        FROM pg_class c LEFT JOIN ({_COLUMNS}) l ON l.attrelid = c.oid {_IN_SCHEMA.format("c.relnamespace")}
        AND c.relkind IN ('v', 'm')""",
    f"""SELECT 'constraint', {_NAMED.format("k.conname")}, concat(k.convalidated, pg_get_constraintdef(k.oid))
        FROM pg_constraint k {_ON_TABLE.format("k.conrelid")} AND k.contype <> 'n'""",
    f"""SELECT 'index', {_NAMED.format("m.relname")}, concat(i.indisvalid, pg_get_indexdef(i.indexrelid))
        FROM pg_index i JOIN pg_class m ON m.oid = i.indexrelid {_ON_TABLE.format("i.indrelid")}""",
    f"""SELECT 'trigger', {_NAMED.format("g.tgname")}, concat(g.tgenabled, pg_get_triggerdef(g.oid))
        FROM pg_trigger g {_ON_TABLE.format("g.tgrelid")} AND NOT g.tgisinternal""",
    f"""SELECT 'rule', {_NAMED.format("w.rulename")}, concat(w.ev_enabled, pg_get_ruledef(w.oid))
        FROM pg_rewrite w {_ON_TABLE.format("w.ev_class")} AND w.rulename <> '_RETURN'""",
    f"""SELECT 'policy', {_NAMED.format("p.polname")}, concat(p.polcmd, p.polpermissive,
        pg_get_expr(p.polqual, p.polrelid), ' CHECK ', pg_get_expr(p.polwithcheck, p.polrelid))
        FROM pg_policy p {_ON_TABLE.format("p.polrelid")}""",
    f"""SELECT 'function', p.oid::regprocedure::text, CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid)
        ELSE jsonb_build_array(p.prorettype::regtype, a.aggtransfn::text, a.aggfinalfn::text, a.aggtranstype::regtype,
        a.agginitval, a.aggsortop::regoper::text)::text END
        FROM pg_proc p LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid {_IN_SCHEMA.format("p.pronamespace")}""",
    f"""SELECT 'type', format('%I.%I', n.nspname, t.typname), jsonb_build_array(t.typtype, ({_ENUM}), ({_RANGE}),
        format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typdefault, ({_CHECKS}))::text
        FROM pg_type t {_IN_SCHEMA.format("t.typnamespace")} AND t.typtype IN ('e', 'd', 'r')""",
    f"""SELECT 'operator', o.oid::regoperator::text, o.oprcode::text
        FROM pg_operator o {_IN_SCHEMA.format("o.oprnamespace")}""",
    """SELECT 'cast', format('%s to %s', s.castsource::regtype, s.casttarget::regtype),
        concat(s.castcontext, s.castmethod, s.castfunc::regprocedure) FROM pg_cast s WHERE s.oid >= 16384""",
    f"""SELECT 'sequence', format('%I.%I', n.nspname, c.relname), jsonb_build_array(q.seqtypid::regtype, q.seqstart,
        q.seqincrement, q.seqmax, q.seqmin, q.seqcache, q.seqcycle)::text
        FROM pg_sequence q {_ON_TABLE.format("q.seqrelid")}""",
    "SELECT 'extension', x.extname::text, x.extversion FROM pg_extension x",
)
_HASHED = "encode(sha256(convert_to(definition, 'UTF8')), 'hex')"
_PARTS = f"SELECT kind, name, {_HASHED} FROM ({' UNION ALL '.join(_SCHEMA)}) AS parts (kind, name, definition)"
_ROW = "sha256(convert_to(ROW(t.*)::text, 'UTF8'))"  # ROW(t.*), for t alone would be a column of that name
_ALL_ROWS = "encode(sha256(coalesce(string_agg(h, NULL ORDER BY h), '')), 'hex')"


class TemplateDrift(DatabaseError):
    """A template is not what it was. `changes` says for each one what differs, as `rows public.item`."""

    def __init__(self, changes: Mapping[Template, tuple[str, ...]]) -> None:
        self.changes = changes
        named = "; ".join(f"{template.name}: {_shown(what)}" for template, what in changes.items())
        super().__init__(f"templates have changed since they were built: {named}. Purge the server and start again")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is in a database: SHA-256 in hexadecimal for each part, keyed by kind and name. The keys are sorted."""

    parts: Mapping[tuple[str, str], str] = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 over all parts, in hexadecimal."""
        text = "".join(f"{kind}\0{name}\0{digest}\n" for (kind, name), digest in self.parts.items())
        return hashlib.sha256(text.encode()).hexdigest()

    def changes(self, after: "Fingerprint") -> tuple[str, ...]:
        """Kind and name of what differs, came or went."""
        keys = sorted({*self.parts, *after.parts})
        return tuple(f"{kind} {name}" for kind, name in keys if self._at(kind, name) != after._at(kind, name))

    def _at(self, kind: str, name: str) -> str | None:
        return self.parts.get((kind, name))


async def fingerprint(clone: Clone) -> str:
    """The digest of everything in a clone: SHA-256 in hexadecimal. Raises as `read` does."""
    return (await read(clone)).digest


async def read(clone: Clone) -> Fingerprint:
    """Everything in a clone, hashed by PostgreSQL; rows do not leave the server, and their order is of no matter.

    Raises:
        QueryError, QueryTimeout, ServerError: when it cannot be read, or not within `DEADLINE_S`.
    """
    async with clone.session() as session:
        await run_script(session, (_SAFELY,), DEADLINE_S)
        found = {(kind, name): digest for kind, name, digest in await _rows(session, _PARTS)}
        listed = await _rows(session, _LISTED)
        for kind, name, digest in await _rows(session, *_contents(listed)):
            found[kind, name] = digest
    return Fingerprint(dict(sorted(found.items())))


def _contents(listed: Iterable[tuple[Any, ...]]) -> tuple[str, ...]:
    """Statements that give the contents of tables and sequences as the last result, and change nothing."""
    lift, parts = [], []
    for relkind, name, owned, forced in listed:
        kind, label = "place" if relkind == "S" else "rows", name.replace("'", "''")
        if not owned:  # in a template that we built, all is the role's: somebody has put it there
            parts.append(f"SELECT '{kind}', '{label}', 'another owner''s'")
        elif relkind == "S":
            parts.append(f"SELECT '{kind}', '{label}', concat(last_value, ' ', is_called) FROM {name}")
        else:
            parts.append(f"SELECT '{kind}', '{label}', {_ALL_ROWS} FROM (SELECT {_ROW} FROM ONLY {name} t) AS r (h)")
            lift += [f"ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY"] if forced else []
    wanted = " UNION ALL ".join(parts) or "SELECT '', '', '' WHERE false"
    return ("; ".join(["BEGIN", *lift]), wanted)


async def _rows(session: Session, *statements: str) -> tuple[tuple[Any, ...], ...]:
    table = await run_script(session, statements, DEADLINE_S, _MAX_PARTS)
    if table.truncated:
        raise QueryError(f"the database has more than {_MAX_PARTS} parts: it cannot be fingerprinted")
    return table.rows


async def fingerprints(space: Workspace, templates: Iterable[Template]) -> dict[Template, Fingerprint]:
    """What is in templates, each read from a clone of its own, a few at a time.

    Raises:
        DatabaseError: as `read` and `Workspace.clone` do, for the first that fails.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(template: Template) -> Fingerprint:
        async with turns, space.clone(template) as clone:
            return await read(clone)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {template: group.create_task(one(template)) for template in templates}
    except BaseExceptionGroup as many:
        raise many.exceptions[0] from None
    return {template: task.result() for template, task in tasks.items()}


async def check_templates(space: Workspace, before: Mapping[Template, Fingerprint]) -> None:
    """Compare templates with what they were.

    Raises:
        TemplateDrift: naming every template that has changed or is gone, and what in it.
        DatabaseError: when one cannot be read.
    """
    async with connect(space.server.dsn) as admin:
        names = {name for (name,) in await command(admin, "SELECT datname FROM pg_database")}
    now = await fingerprints(space, [template for template in before if template.name in names])
    changes: dict[Template, tuple[str, ...]] = {}
    for template, was in before.items():
        what = was.changes(now[template]) if template in now else ("the database is gone",)
        if what:
            changes[template] = what
    if changes:
        raise TemplateDrift(changes)


def _shown(what: tuple[str, ...]) -> str:
    more = f" and {len(what) - _SHOWN} more" if len(what) > _SHOWN else ""
    return ", ".join(what[:_SHOWN]) + more
