"""Benchmark core: a state that submissions of one task are graded on, and its clones.

The reader's clone is kept: a reader cannot change it, so what ran there before leaves nothing behind but settings of
its role, which are undone. Everything else runs on throw-away clones.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmark_core.postgres.pool import Pool, Source, State
from benchmark_core.postgres.roles import Access
from benchmark_core.postgres.templates import Clone, reclaim


class Site:
    """Clones of one state. Gradings on a site take turns: the kept clone has one role."""

    def __init__(self, clones: Pool, state: State, source: Source) -> None:
        self.state, self.source = state, source
        self._clones = clones
        self._kept: tuple[AsyncExitStack, Clone] | None = None

    @asynccontextmanager
    async def clone(self, access: Access) -> AsyncIterator[Clone]:
        """The kept reader's clone without sessions and settings, or a throw-away one.

        Raises:
            DatabaseError: when there is none.
        """
        if access is Access.READ:
            yield await self._reader()
            return
        async with self._clones.clone(self.source, access) as fresh:
            yield fresh

    async def close(self) -> None:
        """Let go of the kept clone."""
        if self._kept is not None:
            await self._kept[0].aclose()

    async def _reader(self) -> Clone:
        if self._kept is None:
            async with AsyncExitStack() as stack:
                clone = await stack.enter_async_context(self._clones.clone(self.source, Access.READ, ahead=0))
                self._kept = stack.pop_all(), clone
        else:
            await reclaim(self._kept[1])
        return self._kept[1]


@dataclass(frozen=True, slots=True)
class Sites:
    """Where the submissions of a sub-task are graded.

    Attributes:
        official: the same object as `strict` when the regimes start from the same state.
        second: the state over the database's second data seed, where the suite has one.
    """

    strict: Site
    official: Site
    second: Site | None = None
