"""Benchmark core: loads dumps into templates, with the bundled psql, in its restricted mode, without any rights.

A dump is somebody else's SQL, written for a superuser. It runs as the draft's own role: what needs more rights fails,
and is an error unless it only says who owns or may read something. Of psql's own commands, which read files and run
programs, none is available (`\\restrict`, with a key that the dump cannot know).
"""

import asyncio
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from psycopg import sql

from benchmark_core.errors import InputError, ServerError
from benchmark_core.postgres.dump_files import Dump, DumpFile, lines
from benchmark_core.postgres.install import Install, locate
from benchmark_core.postgres.query import command, connect, run_script
from benchmark_core.postgres.templates import Clone, Template, Workspace

DEADLINE_S = 3600.0
"""Seconds for the loading of one file."""

_SHOWN = 5
_MAX_ERRORS = 10_000
_ERROR = re.compile(rb"psql:<stdin>:(\d+): (?:ERROR|FATAL|error):?\s*(.*)")
_COUNT_DEADLINE_S = 300.0
_SENT_AT_ONCE = 1 << 20
_TABLES = """
SELECT c.relname, format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_MARK = "usersim-guard database "


@dataclass(frozen=True, slots=True)
class Loaded:
    """A database that was loaded. `passed_over`: statements on owners and rights that could not be kept."""

    name: str
    template: Template
    tables: int
    rows: int
    passed_over: int


async def load_dump(space: Workspace, dump: Dump, step: Callable[[int], None]) -> Loaded:
    """Load a dump, unless the server has it, and make it the database of that name.

    Args:
        step: is told of bytes as they are sent.

    Raises:
        InputError: statements failed (file and line of each), or tables or rows are missing afterwards.
        DatabaseError: when the server is lost.
    """
    found = _Counted()
    install = await asyncio.to_thread(locate)

    async def fill(draft: Clone) -> None:
        for file in dump.files:
            found.passed_over += await _Psql(install, draft, file).load(step)
        found.tables, found.rows = await _check(draft, dump)

    template = await space.made(f"dump {dump.digest}", fill)
    if not found.tables:  # the server had it
        step(dump.bytes)
        found.tables = sum(len(file.creates) for file in dump.files)
        found.rows = sum(file.rows.total() for file in dump.files)
    await _name(space, template, dump.name)
    return Loaded(dump.name, template, found.tables, found.rows, found.passed_over)


async def find_loaded(space: Workspace, name: str) -> Template | None:
    """The template that was loaded under this name last."""
    async with connect(space.server.dsn) as admin:
        for database in await _named(admin, name):
            return space.known(database)
    return None


@dataclass(slots=True)
class _Counted:
    tables: int = 0
    rows: int = 0
    passed_over: int = 0


@dataclass(frozen=True, slots=True)
class _Psql:
    """One file on its way through psql."""

    install: Install
    draft: Clone
    file: DumpFile

    async def load(self, step: Callable[[int], None]) -> int:
        """Gives the number of statements that were passed over."""
        process = await self._start()
        may_fail: set[int] = set()
        try:
            async with asyncio.timeout(DEADLINE_S):
                errors, _ = await asyncio.gather(self._errors(process), self._send(process, step, may_fail))
                code = await process.wait()
        except TimeoutError:
            raise InputError(f"{self.file.path}: was not loaded within {DEADLINE_S:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if code != 0:
            last = errors[-1][1] if errors else ""
            raise ServerError(f"psql ended with status {code} while it loaded {self.file.path}: {last}")
        if faults := [(line, message) for line, message in errors if line not in may_fail]:
            self._refuse(faults)
        return len(errors)

    async def _start(self) -> asyncio.subprocess.Process:
        account = self.install.account
        who = {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}
        where = self.draft.admin.info.get_parameters()
        env = {f"PG{name.upper()}": where[name] for name in ("host", "port", "hostaddr", "sslmode") if name in where}
        try:
            return await asyncio.create_subprocess_exec(
                str(self.install.binaries / "psql"),
                *("-X", "-q", "-f", "-", "-v", "VERBOSITY=terse", "-v", "SHOW_CONTEXT=never"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                env={
                    "LC_ALL": "C",
                    "PGUSER": self.draft.role,
                    "PGPASSWORD": self.draft.password,
                    "PGDATABASE": self.draft.name,
                    "PGCLIENTENCODING": "UTF8",
                    **env,
                },
                **who,  # type: ignore[arg-type]
            )
        except OSError as error:
            raise ServerError(f"psql cannot be run: {error.strerror}") from None

    async def _send(self, process: asyncio.subprocess.Process, step: Callable[[int], None], may_fail: set[int]) -> None:
        assert process.stdin is not None
        pending = bytearray(f"\\restrict {secrets.token_hex(16)}\n".encode())
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended, and says why
            for line in lines(self.file.path):
                if line.may_fail:
                    may_fail.add(line.number)
                pending += line.text
                if len(pending) >= _SENT_AT_ONCE:
                    await self._drain(process.stdin, pending, step)
            await self._drain(process.stdin, pending, step)
        process.stdin.close()

    async def _drain(self, stdin: asyncio.StreamWriter, pending: bytearray, step: Callable[[int], None]) -> None:
        stdin.write(bytes(pending))
        step(len(pending))
        pending.clear()
        await stdin.drain()

    async def _errors(self, process: asyncio.subprocess.Process) -> list[tuple[int, str]]:
        """Line and message of each; the first line that was sent is ours."""
        assert process.stderr is not None
        found: list[tuple[int, str]] = []
        async for text in process.stderr:
            if (error := _ERROR.match(text)) and len(found) < _MAX_ERRORS:
                found.append((int(error[1]) - 1, error[2].decode("utf-8", "replace").strip()))
            elif text.startswith(b"psql: error:"):
                raise ServerError(text.decode("utf-8", "replace").strip())
        return found

    def _refuse(self, faults: list[tuple[int, str]]) -> None:
        shown = "\n".join(f"{self.file.path}:{line}: {message}" for line, message in faults[:_SHOWN])
        more = f"\nand {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise InputError(
            f"{shown}{more}\nNothing was loaded. Needed is a plain dump that an owner without further rights can load"
        )


async def _check(draft: Clone, dump: Dump) -> tuple[int, int]:
    """Number of tables and rows, once all are seen to be there."""
    async with draft.session() as session:
        known = {str(name): str(full) for name, full in (await run_script(session, (_TABLES,), 60.0)).rows}
        created = {table: file.path for file in dump.files for table in file.creates}
        for table, path in created.items():
            if table not in known:
                raise InputError(f"{path}: the table {table} is not there after loading")
        rows = 0
        for table, full in known.items():
            count = f"SELECT count(*) FROM {full}"
            [[number]] = (await run_script(session, (count,), _COUNT_DEADLINE_S)).rows
            wanted = sum(file.rows[table] for file in dump.files)
            if any(table in file.rows for file in dump.files) and number != wanted:
                raise InputError(f"{dump.name}: {number} rows in {table}, where the dump holds {wanted}")
            rows += int(str(number))
    return len(known), rows


async def _name(space: Workspace, template: Template, name: str) -> None:
    """The name is kept as the database's comment; whatever had it before loses it."""
    async with connect(space.server.dsn) as admin:
        for database in await _named(admin, name):
            await command(admin, sql.SQL("COMMENT ON DATABASE {} IS NULL").format(sql.Identifier(database)))
        statement = sql.SQL("COMMENT ON DATABASE {} IS {}")
        await command(admin, statement.format(sql.Identifier(template.name), sql.Literal(_MARK + name)))


async def _named(admin: object, name: str) -> list[str]:
    query = (
        "SELECT d.datname FROM pg_database d JOIN pg_shdescription s ON s.objoid = d.oid "
        "AND s.classoid = 'pg_database'::regclass WHERE s.description = %s"
    )
    return [str(row[0]) for row in await command(admin, query, _MARK + name)]  # type: ignore[arg-type]
