"""Guard: keeps a run within its money. A question is begun only if its dearest course can still be paid."""

import asyncio
import math

from benchmark_core.errors import UserSimGuardError


class CostReached(UserSimGuardError):
    """The run stopped because the next question might have passed the limit. What is done is kept; resume goes on."""


class Purse:
    """Money of one run, in US dollars.

    Args:
        limit: what may be spent over all resumes.
        spent: what was spent before.
    """

    def __init__(self, limit: float, spent: float) -> None:
        self.limit, self.spent = limit, spent
        self._open: list[float] = []
        self._settled = asyncio.Condition()

    async def reserve(self, most: float) -> bool:
        """Set the dearest course of a question aside; waits for open ones to settle, False when it cannot be paid."""
        async with self._settled:
            while self.spent + math.fsum(self._open) + most > self.limit:
                if not self._open:
                    return False
                await self._settled.wait()
            self._open.append(most)
            return True

    async def settle(self, most: float, actual: float) -> None:
        """Book what a question cost, and free what was set aside for it."""
        async with self._settled:
            self._open.remove(most)
            self.spent += actual
            self._settled.notify_all()
