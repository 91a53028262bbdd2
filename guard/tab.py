"""Guard: a till that opens a question only if its dearest course can be paid, and books what it cost."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from guard.forecast import Rehearsal, dearest, uncounted
from guard.ledger import ScoredItem
from guard.prices import Prices, paid
from guard.purse import Purse
from suites.questions import Question, QuestionKey


@dataclass(frozen=True, slots=True)
class _Order:
    """An open question: what was set aside, and what a call costs that the server does not count. US dollars."""

    most: float
    uncounted: Mapping[str, float]


class Tab:
    """A `Till` with a limit.

    Attributes:
        refused: whether a question could not be opened.
    """

    def __init__(self, purse: Purse, rehearsal: Rehearsal, prices: Prices) -> None:
        self.purse, self._rehearsal, self._prices = purse, rehearsal, prices
        self._orders: dict[QuestionKey, _Order] = {}
        self._one_at_a_time = asyncio.Lock()
        self.refused = False

    async def open(self, question: Question) -> bool:
        """Set money aside for a question; False when it might pass the limit."""
        async with self._one_at_a_time:
            needed = await self._rehearsal.needs(question)
        order = _Order(dearest(needed, self._prices), uncounted(needed, self._prices))
        if not await self.purse.reserve(order.most):
            self.refused = True
            return False
        self._orders[question.key] = order
        return True

    async def close(self, question: Question, item: ScoredItem) -> None:
        """Book a question's line."""
        order = self._orders.pop(question.key)
        await self.purse.settle(order.most, paid(item.calls, item.attempt, self._prices, order.uncounted))
