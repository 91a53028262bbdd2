"""Benchmark core: clones made ahead, so that a submission does not wait for one, and dropped behind its back.

A state is a template and the scripts that have run on it since. Whoever replaces a sandbox asks for its state again,
and so gets it with those scripts replayed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmark_core.errors import QueryError, ServerError
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.sandbox import Limits, run
from benchmark_core.postgres.templates import Clone, Template, Workspace, seal

WAITING = 12
"""Clones that lie ready, over all sources together."""

_LOG = logging.getLogger(__name__)
_CLOSED = "the run's databases are closed"
_MAKERS = 4  # copies of small databases run side by side, but not without end

Source = Template | Clone


@dataclass(frozen=True, slots=True)
class State:
    """Where a sandbox starts: a template, and scripts that ran on it since, each in a session of its own."""

    template: Template
    scripts: tuple[tuple[str, ...], ...] = ()

    def then(self, *scripts: Sequence[str]) -> "State":
        """The state after further scripts; empty ones change nothing."""
        return State(self.template, self.scripts + tuple(tuple(script) for script in scripts if script))


class Pool:
    """Clones of one run. Made by `pool`."""

    def __init__(self, space: Workspace) -> None:
        self.space = space
        self._makers = asyncio.Semaphore(_MAKERS)
        self._ready: list[_Held] = []  # the one asked for the longest ago first
        self._all: set[_Held] = set()
        self._closed = False

    @asynccontextmanager
    async def clone(self, source: Source, access: Access, *, ahead: int = 1) -> AsyncIterator[Clone]:
        """A fresh clone, with `ahead` more made in the meantime for the next who ask for the same.

        Raises:
            ServerError: when it cannot be made.
        """
        if self._closed:
            raise ServerError(_CLOSED)
        held = self._take(source, access)
        try:
            for _ in range(ahead - sum(other.fits(source, access) for other in self._ready)):
                self._ready.append(self._make(source, access))
            while len(self._ready) > WAITING:
                self._ready.pop(0).release()
            yield await held.clone()
        finally:
            held.release()

    @asynccontextmanager
    async def source(self, state: State, limits: Limits) -> AsyncIterator[Source]:
        """Something to clone for a state: its template, or a clone on which its scripts have run, sealed since.

        Raises:
            QueryError, QueryTimeout: when a script fails.
        """
        if not state.scripts:
            yield state.template
            return
        async with self.clone(state.template, Access.WRITE) as clone:
            for script in state.scripts:
                await run(clone, script, limits)
            await seal(clone)
            try:
                yield clone
            finally:
                await self._forget(clone)

    async def close(self) -> None:
        """Drop every clone, also those that somebody holds. From then on there are none: nobody would drop them."""
        self._closed = True
        for held in self._all:
            held.release()
        await asyncio.gather(*(held.task for held in self._all), return_exceptions=True)

    def _take(self, source: Source, access: Access) -> "_Held":
        for held in self._ready:
            if held.fits(source, access):
                self._ready.remove(held)
                return held
        return self._make(source, access)

    def _make(self, source: Source, access: Access) -> "_Held":
        held = _Held(self.space, self._makers, source, access)
        self._all.add(held)
        held.task.add_done_callback(lambda _: self._all.discard(held))
        return held

    async def _forget(self, source: Source) -> None:
        """Drop the copies of a source before itself: its role may own what is in them."""
        copies = [held for held in self._all if held.source is source]
        self._ready = [held for held in self._ready if held.source is not source]
        for held in copies:
            held.release()
        await asyncio.gather(*(held.task for held in copies), return_exceptions=True)


class _Held:
    """A clone that a task of its own makes, holds until nobody needs it, and drops."""

    def __init__(self, space: Workspace, makers: asyncio.Semaphore, source: Source, access: Access) -> None:
        self.source, self.access = source, access
        self._made: asyncio.Future[Clone] = asyncio.get_running_loop().create_future()
        self._released = asyncio.Event()
        self.task = asyncio.create_task(self._hold(space, makers))
        self.task.add_done_callback(self._over)

    def fits(self, source: Source, access: Access) -> bool:
        return self.source == source and self.access is access and not self.task.done()

    def _over(self, task: asyncio.Task[None]) -> None:
        failed = None if task.cancelled() else task.exception()
        told = self._made.cancel()  # then whoever asks for the clone is told
        if failed and not told and not isinstance(failed, ServerError):  # a lost server is spoken of elsewhere
            _LOG.warning("a clone was not dropped, the next run will: %s", failed)

    async def clone(self) -> Clone:
        await asyncio.wait({self._made})
        if self._made.cancelled():
            try:
                self.task.result()  # says why there is none
            except QueryError as error:
                raise ServerError(f"a database cannot be copied: {error}") from None
            raise ServerError(_CLOSED)
        return self._made.result()

    def release(self) -> None:
        """Let the clone be dropped, without waiting for it."""
        self._released.set()

    async def _hold(self, space: Workspace, makers: asyncio.Semaphore) -> None:
        async with AsyncExitStack() as stack:
            async with makers:
                if self._released.is_set():
                    return
                self._made.set_result(await stack.enter_async_context(space.clone(self.source, self.access)))
            await self._released.wait()


@asynccontextmanager
async def pool(space: Workspace) -> AsyncIterator[Pool]:
    """Open a pool; at the end every clone of it is gone, whatever happened."""
    opened = Pool(space)
    try:
        yield opened
    finally:
        await opened.close()
