"""Benchmark core: template databases, built once per build script, and their clones, one per trial.

Names are opaque: nothing that a suite says reaches an identifier. Everything below a run's token is dropped when the
run ends, or by the next run when it was killed: a run holds an advisory lock on its token for as long as it lives.
"""

import asyncio
import base64
import hashlib
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection, sql

from benchmark_core.errors import ServerError
from benchmark_core.postgres.leftovers import drop, lock_key, reap
from benchmark_core.postgres.query import Session, command, connect, run_script, terminate
from benchmark_core.postgres.roles import Access, admit, create_role, hand_over, inside
from benchmark_core.postgres.scram import verifier
from benchmark_core.postgres.server import Server

BUILD_DEADLINE_S = 600.0

_VACATE_S = 30.0
_RECIPE = "1"  # part of every template's name: raise it when the way of building changes
_TEMPLATE, _OWNER, _TRIAL = "usg_t_", "usg_o_", "usg_x_"


@dataclass(frozen=True, slots=True)
class Template:
    """A built database that takes no connections, and the role (without login) that owns what is in it."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class Clone:
    """A database of one trial. `role` is its own, unprivileged, and goes with it; `owner` owns the objects in it;
    `size`: its bytes on disk when it was made."""

    name: str
    role: str
    owner: str
    server: Server
    admin: AsyncConnection[Any] = field(repr=False)
    password: str = field(repr=False)
    size: int

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection of the trial's role.

        Raises:
            ServerError: when there is none (the role's SQL may have changed its own password).
        """
        who = {"dbname": self.name, "user": self.role, "password": self.password}
        async with connect(self.server.dsn, **who) as connection:
            yield Session(connection, self.admin, self.role)


class Workspace:
    """One run's databases on a server. Made by `workspace`."""

    def __init__(self, server: Server, token: str, guard: AsyncConnection[Any]) -> None:
        self.server = server
        self._guard = guard  # holds the lock on the token
        self._names = (f"{_TRIAL}{token}_{number:x}" for number in itertools.count())

    async def alive(self) -> bool:
        """Whether the run's databases are still its own: where the server was lost, others may drop them."""
        try:
            await command(self._guard, "SELECT 1")
            async with connect(self.server.dsn):  # of a killed server, old sessions may live on for a moment
                return True
        except ServerError:
            return False

    async def template(self, build_sql: str, deadline_s: float = BUILD_DEADLINE_S) -> Template:
        """The template of `build_sql`, built unless the server has it; two that ask at once build it once.

        Raises:
            QueryError, QueryTimeout: when the script fails.
        """

        async def fill(draft: Clone) -> None:
            async with draft.session() as session:
                await run_script(session, (build_sql,), deadline_s)

        return await self.made(build_sql, fill)

    async def made(self, recipe: str, fill: Callable[[Clone], Awaitable[None]]) -> Template:
        """The template of a recipe, which says all that is in it. `fill` fills an empty draft where there is none."""
        digest = hashlib.sha256(f"{_RECIPE}\n{recipe}".encode()).digest()
        template = self.known(_TEMPLATE + base64.b32encode(digest).decode().rstrip("=").lower())
        async with connect(self.server.dsn) as admin:
            await command(admin, "SELECT pg_advisory_lock(%s)", lock_key(digest[:8]))
            if not await command(admin, "SELECT 1 FROM pg_database WHERE datname = %s", template.name):
                async with self._trial(admin, "template0", None, Access.WRITE) as draft:
                    await fill(draft)
                    await _settle(draft)
                    await _publish(draft, template)
        return template

    @staticmethod
    def known(name: str) -> Template:
        """A template by the name of its database."""
        return Template(name, _OWNER + name.removeprefix(_TEMPLATE))

    @asynccontextmanager
    async def clone(self, source: Template | Clone, access: Access = Access.WRITE) -> AsyncIterator[Clone]:
        """A fresh copy of a template, or of a clone without sessions, dropped at the end whatever happens."""
        async with connect(self.server.dsn) as admin:
            async with self._trial(admin, source.name, source.owner, access) as clone:
                yield clone

    @asynccontextmanager
    async def snapshot(self, clone: Clone) -> AsyncIterator[Clone]:
        """A copy of a clone as it is, under a role of its own. Ends the clone's sessions; new ones may follow."""
        await vacate(clone)
        async with self.clone(clone) as copy:
            yield copy

    @asynccontextmanager
    async def _trial(
        self, admin: AsyncConnection[Any], source: str, owner: str | None, access: Access
    ) -> AsyncIterator[Clone]:
        name, password = next(self._names), secrets.token_urlsafe(24)
        try:
            await create_role(admin, name, password)
            how = _how(self.server, source)
            await command(admin, sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), how))
            await admit(admin, name, name, access)
            await hand_over(self.server, name, name, owner, access)
            owner = owner if owner and access is not Access.WRITE else name
            yield Clone(name, name, owner, self.server, admin, password, await size(admin, name))
        finally:
            await drop(admin, name)


@asynccontextmanager
async def workspace(server: Server) -> AsyncIterator[Workspace]:
    """Open a run's workspace, and drop what runs that were killed have left behind.

    Raises:
        ServerError: when the server cannot be reached.
    """
    token = secrets.token_hex(8)
    async with connect(server.dsn) as admin:
        await command(admin, "SELECT pg_advisory_lock(%s)", lock_key(bytes.fromhex(token)))
        await reap(admin, _TRIAL)
        yield Workspace(server, token, admin)


async def purge(server: Server) -> None:
    """Drop every template, and whatever dead runs have left: the server is then as it was before its first use."""
    async with connect(server.dsn) as admin:
        await reap(admin, _TRIAL)
        for (name,) in await command(
            admin, "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", _TEMPLATE
        ):
            await command(admin, sql.SQL("ALTER DATABASE {} IS_TEMPLATE false").format(sql.Identifier(name)))
            await drop(admin, name, role=_OWNER + name.removeprefix(_TEMPLATE))


def _how(server: Server, source: str) -> sql.Composed:
    """The clauses of CREATE DATABASE. Text sorts by code point on every server, so that results do not depend on it."""
    parts = [sql.SQL("TEMPLATE {}").format(sql.Identifier(source))]
    if source == "template0":
        parts.append(
            sql.SQL("ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE {}").format("C" if server.embedded else "C.UTF-8")
        )
        if not server.embedded and server.version >= 150000:
            parts.append(sql.SQL("LOCALE_PROVIDER libc").format())
    elif server.embedded:  # pays off only without fsync
        parts.append(sql.SQL("STRATEGY FILE_COPY").format())
    return sql.SQL(" ").join(parts)


async def _settle(draft: Clone) -> None:
    async with inside(draft.server, draft.name) as connection:
        await command(connection, "VACUUM (ANALYZE)")
    if draft.server.embedded:  # without fsync, a crash may lose what no checkpoint has seen
        await command(draft.admin, "CHECKPOINT")


async def _publish(draft: Clone, template: Template) -> None:
    """Give a draft its name, at once and last: a database of that name is always a whole one."""
    await vacate(draft)
    database, role = sql.Identifier(draft.name), sql.Identifier(draft.role)
    async with draft.admin.transaction():
        for statement in (
            sql.SQL("ALTER ROLE {} NOLOGIN PASSWORD NULL").format(role),
            sql.SQL("ALTER ROLE {} RESET ALL").format(role),
            sql.SQL("ALTER DATABASE {} WITH IS_TEMPLATE true ALLOW_CONNECTIONS false").format(database),
            sql.SQL("ALTER ROLE {} RENAME TO {}").format(role, sql.Identifier(template.owner)),
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(database, sql.Identifier(template.name)),
        ):
            await command(draft.admin, statement)


async def size(admin: AsyncConnection[Any], database: str) -> int:
    """Bytes on disk."""
    return int((await command(admin, "SELECT pg_database_size(%s)", database))[0][0])


async def seal(clone: Clone) -> None:
    """End a clone's sessions and let nobody in any more: it is now a source of copies, and does not change."""
    role = sql.Identifier(clone.role)
    await command(clone.admin, sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
    await vacate(clone)


async def reclaim(clone: Clone) -> None:
    """End a clone's sessions, and undo what its role may have done to itself: settings, and its password."""
    role, database = sql.Identifier(clone.role), sql.Identifier(clone.name)
    await terminate(clone.admin, clone.role)
    for statement in (
        sql.SQL("ALTER ROLE {} RESET ALL").format(role),
        sql.SQL("ALTER ROLE {} IN DATABASE {} RESET ALL").format(role, database),
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, verifier(clone.password)),
    ):
        await command(clone.admin, statement)


async def vacate(clone: Clone) -> None:
    """End all sessions in a clone, and wait until they are gone: a database in use cannot be copied or renamed."""
    await terminate(clone.admin, clone.role)
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = %s LIMIT 1"
    try:
        async with asyncio.timeout(_VACATE_S):
            while await command(clone.admin, query, clone.name):
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise ServerError(f"sessions in a clone did not end within {_VACATE_S:g} s") from None
