"""Guard: what model calls cost. Prices are the user's: they change too often to be shipped."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmark_core.errors import InputError
from guard.ledger import Call

PER_MILLION = 1e-6


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    prompt: float
    completion: float

    @classmethod
    def parse(cls, text: str, flag: str) -> "Price":
        """`2.5/10`: prompt and completion tokens.

        Raises:
            InputError: for anything else.
        """
        found = re.fullmatch(r"(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)", text.strip())
        if found is None:
            raise InputError(
                f"{flag} {text}: expected PROMPT/COMPLETION in US dollars per million tokens, such as 2.5/10"
            )
        return cls(float(found[1]), float(found[2]))

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """US dollars for so many tokens."""
        return PER_MILLION * (self.prompt * prompt_tokens + self.completion * completion_tokens)


Prices = Mapping[str, Price]
"""By role: `simulator`, `judge`. A role that is missing has no known price."""


def paid(calls: Iterable[Call], attempt: int, prices: Prices, uncounted: Mapping[str, float]) -> float:
    """US dollars that one line of a ledger cost.

    A call that came from the run's own completions was paid in another line of the same question, or, in the first
    one, by a process that was killed before it could write its line: there it counts.

    Args:
        uncounted: role -> US dollars to assume for a call whose tokens the server did not count.
    """
    spent = 0.0
    for call in calls:
        if (call.cached and attempt > 1) or call.role not in prices:
            continue
        if call.prompt_tokens is None or call.completion_tokens is None:
            spent += uncounted.get(call.role, 0.0)
        else:
            spent += prices[call.role].of(call.prompt_tokens, call.completion_tokens)
    return spent
