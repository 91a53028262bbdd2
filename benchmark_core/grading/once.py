"""Benchmark core: what is worked out once per run and asked for often, by several at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from benchmark_core.errors import ServerError
from benchmark_core.grading.outcome import GoldFault

V = TypeVar("V")


class Once(Generic[V]):
    """Values by key. A `GoldFault` is kept like a value; after any other error the next who asks has it done anew."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[V]] = {}

    async def get(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The value of `key`, by `make` when there is none.

        Raises:
            ServerError: this was closed; or whatever `make` raises.
        """
        if (task := self._tasks.get(key)) is None or _failed(task):
            task = self._tasks[key] = asyncio.create_task(make())
        await asyncio.wait({task})
        if task.cancelled():  # by `close`, which is no reason to cancel who waits
            raise ServerError("the run's work is over")
        return task.result()

    async def close(self) -> None:
        """Cancel what still runs, and wait for its end."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def _failed(task: "asyncio.Task[Any]") -> bool:
    return task.done() and (task.cancelled() or not isinstance(task.exception(), GoldFault | None))
