"""Guard: the books of model calls: tokens and, where a price is known, money. Pure sums; knows no price list."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from guard.ledger import Call


@dataclass(frozen=True, slots=True)
class Usage:
    """Model calls of one role, over all attempts.

    Attributes:
        requests: HTTP requests sent. `uncounted`: calls whose tokens the server did not count.
        models: "model" or "model @ fingerprint", as the server named them -> calls.
    """

    calls: int
    cached: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    uncounted: int
    models: Mapping[str, int]


@dataclass(slots=True)
class _Account:
    calls: int = 0
    cached: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0
    models: Counter[str] = field(default_factory=Counter)


class Books:
    """Adds calls up by role."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def add(self, calls: Iterable[Call]) -> None:
        """Enter some calls."""
        for call in calls:
            account = self._accounts.setdefault(call.role, _Account())
            account.calls += 1
            account.cached += call.cached
            account.requests += call.attempts
            account.prompt_tokens += call.prompt_tokens or 0
            account.completion_tokens += call.completion_tokens or 0
            account.uncounted += call.prompt_tokens is None or call.completion_tokens is None
            account.models[_name(call)] += 1

    def usage(self) -> dict[str, Usage]:
        """The sums, roles and models in order of name."""
        return {
            role: Usage(
                calls=account.calls,
                cached=account.cached,
                requests=account.requests,
                prompt_tokens=account.prompt_tokens,
                completion_tokens=account.completion_tokens,
                uncounted=account.uncounted,
                models=dict(sorted(account.models.items())),
            )
            for role, account in sorted(self._accounts.items())
        }


def _name(call: Call) -> str:
    """A server chose it: no control characters, and too short to carry a reply."""
    name = f"{call.model} @ {call.system_fingerprint}" if call.system_fingerprint else call.model
    return "".join(letter if letter.isprintable() else "?" for letter in name[:160])
