"""Benchmark core: the ground of a run's gradings, laid anew when the server was lost; its templates must not change."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

from benchmark_core.errors import DatabaseError, QueryError, QueryTimeout
from benchmark_core.grading.ground import Ground, Seeds, ground
from benchmark_core.grading.outcome import GoldFault
from benchmark_core.jail.jail import Jail
from benchmark_core.postgres.fingerprint import Fingerprint, TemplateDrift, check_templates, fingerprints
from benchmark_core.postgres.sandbox import Limits
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import Template, Workspace, workspace

FindServer = Callable[[], Server]
"""Gives a server that lives: starts it again when it does not. It may block."""

FindSeeds = Callable[[Workspace, str], Awaitable[Seeds]]
"""The templates of a database of the suite, by name; builds what is not there."""


class Grounds:
    """Hands out the ground. `close` ends it."""

    def __init__(self, find_server: FindServer, find_seeds: FindSeeds, jail: Jail | None, limits: Limits) -> None:
        self._find_server, self._find_seeds = find_server, find_seeds
        self._jail, self._limits = jail, limits
        self._turn = asyncio.Lock()
        self._laid: tuple[Ground, AsyncExitStack] | None = None
        self._prints: dict[Template, Fingerprint] = {}

    async def ground(self) -> Ground:
        """The ground on the server that lives.

        Raises:
            ServerError: when there is no server.
        """
        async with self._turn:
            if self._laid is None:
                server = await asyncio.to_thread(self._find_server)
                async with AsyncExitStack() as stack:
                    space = await stack.enter_async_context(workspace(server))
                    laid = await stack.enter_async_context(ground(space, self._jail, self._limits))
                    self._laid = laid, stack.pop_all()
            return self._laid[0]

    async def seeds(self, on: Ground, database: str) -> Seeds:
        """The templates of a database, fingerprinted when they are first used.

        Raises:
            GoldFault: its build script fails.
            TemplateDrift: a template is not what it was earlier in this run.
            DatabaseError: when it cannot be had.
        """
        return await on.seeds.get(database, lambda: self._fresh_seeds(on, database))

    async def failed(self, on: Ground) -> None:
        """Something went wrong on a ground: when its server was lost, end it, so that the next is laid."""
        async with self._turn:
            if self._laid is not None and self._laid[0] is on and not await on.clones.space.alive():
                await self._end()

    async def close(self) -> None:
        """End the ground.

        Raises:
            TemplateDrift: a template has changed since it was first used.
        """
        async with self._turn:
            if self._laid is None:
                return
            try:
                await check_templates(self._laid[0].clones.space, self._prints)
            finally:
                await self._end()

    async def _end(self) -> None:
        if self._laid is not None:
            stack, self._laid = self._laid[1], None
            with suppress(DatabaseError):  # the server is gone, and what is left goes when the next run begins
                await stack.aclose()

    async def _fresh_seeds(self, on: Ground, database: str) -> Seeds:
        space = on.clones.space
        try:
            seeds = await self._find_seeds(space, database)
        except (QueryError, QueryTimeout) as error:
            if not await space.alive():
                raise
            raise GoldFault(f"the database {database} cannot be built: {error}") from None
        templates = [template for template in (seeds.first, seeds.second) if template is not None]
        changes = {}
        for template, found in (await fingerprints(space, templates)).items():
            known = self._prints.setdefault(template, found)
            if known.digest != found.digest:
                changes[template] = known.changes(found)
        if changes:
            raise TemplateDrift(changes)
        return seeds
