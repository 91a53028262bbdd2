"""Tests: values worked out once, asked for by several."""

import asyncio

import pytest

from benchmark_core.errors import ServerError
from benchmark_core.grading.once import Once
from benchmark_core.grading.outcome import GoldFault


class Maker:
    """Counts how often it was asked; fails with each error in turn, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    async def __call__(self) -> int:
        self.calls += 1
        await asyncio.sleep(0.01)
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


def test_several_who_ask_at_once_share_the_work() -> None:
    async def work() -> None:
        once, make = Once[int](), Maker()
        assert await asyncio.gather(*(once.get("key", make) for _ in range(5))) == [1] * 5
        assert await once.get("other", make) == 2

    asyncio.run(work())


def test_a_gold_fault_is_kept_and_another_error_is_not() -> None:
    async def work() -> None:
        once, faulty, lost = Once[int](), Maker(GoldFault("x")), Maker(ServerError("lost"))
        for _ in range(2):
            with pytest.raises(GoldFault):
                await once.get("faulty", faulty)
        assert faulty.calls == 1
        with pytest.raises(ServerError):
            await once.get("lost", lost)
        assert await once.get("lost", lost) == 2

    asyncio.run(work())


def test_one_who_gives_up_takes_nothing_from_the_others() -> None:
    async def work() -> None:
        once, make = Once[int](), Maker()
        first, second = (asyncio.create_task(once.get("key", make)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 1

    asyncio.run(work())


def test_whoever_waits_when_it_closes_is_told_and_not_cancelled() -> None:
    async def work() -> None:
        once = Once[int]()
        waiting = asyncio.create_task(once.get("key", Maker()))
        await asyncio.sleep(0)
        await once.close()
        with pytest.raises(ServerError, match="over"):
            await waiting

    asyncio.run(work())
