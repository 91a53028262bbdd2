"""Guard: what a run will take, before anything is sent. Every prompt is made; a stand-in answers in place of models.

Stage 1 of the stand-in refuses, so prompts of later stages lack the chosen item, a line of text. Tokens are estimated
from bytes; only a server knows how it counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmark_core.chat import ChatRequest, Completion, Message
from benchmark_core.ports import Ask
from guard.asking import Bench
from guard.prices import Prices
from suites.questions import Question

SCHEMA = "usersim-guard/forecast/1"
BYTES_PER_TOKEN = 4.0
"""Of prompts, as expected: English and SQL."""
FEWEST_BYTES_PER_TOKEN = 2.5
"""Of prompts, at the least: bounds what a prompt can cost."""
EXPECTED_COMPLETION = 150
"""Tokens of a completion without hidden reasoning: a public two-stage simulator's replies average 552 characters
(BIRD-Interact-ADK, ten c-Interact samples, 451fe2c)."""
RETRY_PROMPTS, RETRY_BUDGETS = 2, 3
"""The dearest course of a call: sent twice, the second time with twice the budget."""
LATENCIES_S = (1.0, 5.0)
_CANNED = {
    "simulator": "<s>unanswerable()</s>\n<reply>I cannot say.</reply>",
    "judge": '{"reason": "-", "rating": "A"}',
}


@dataclass(frozen=True, slots=True)
class Needed:
    """One call that a question needs: who asks, bytes of the prompt, tokens of the budget."""

    role: str
    prompt_bytes: int
    budget: int


class StandIn:
    """A `ChatClient` that sends nothing: notes what it is asked, and answers at once."""

    def __init__(self, role: str, identity: Mapping[str, str]) -> None:
        self._role, self._identity = role, identity
        self.needed: list[Needed] = []
        self.longest: tuple[Message, ...] = ()
        self._most = 0

    @property
    def identity(self) -> Mapping[str, str]:
        """Of the endpoint that it stands in for."""
        return self._identity

    async def complete(self, request: ChatRequest) -> Completion:
        """Note the request."""
        size = sum(len(message.content.encode()) for message in request.messages)
        self.needed.append(Needed(self._role, size, request.decoding.max_tokens))
        if size > self._most:
            self._most, self.longest = size, request.messages
        return Completion(_CANNED[self._role], self._identity["model"])


@dataclass(frozen=True, slots=True)
class RoleForecast:
    """Calls of one role over a run; dollars are None where the price is not known."""

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    most_completion_tokens: int
    usd: float | None
    most_usd: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will take. `seconds`: latency of one answer -> duration of the run."""

    questions: int
    roles: Mapping[str, RoleForecast]
    seconds: Mapping[float, float]

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A bench that was built on stand-ins: asks every question and sends nothing."""

    bench: Bench
    stand_ins: Mapping[str, StandIn]

    async def needs(self, question: Question) -> tuple[Needed, ...]:
        """The calls that a question needs. No two questions may be rehearsed at once."""
        for stand_in in self.stand_ins.values():
            stand_in.needed.clear()
        ask = Ask(question.text, self.bench.oracles[question.key.instance_id])
        reply = await self.bench.simulator.answer(ask)
        await self.bench.judge.grade(question, reply.text)
        return tuple(need for stand_in in self.stand_ins.values() for need in stand_in.needed)


def dearest(found: Iterable[Needed], prices: Prices) -> float:
    """US dollars that a question costs at most, its retries included."""
    return sum(
        prices[need.role].of(RETRY_PROMPTS * need.prompt_bytes / FEWEST_BYTES_PER_TOKEN, RETRY_BUDGETS * need.budget)
        for need in found
        if need.role in prices
    )


def uncounted(found: Iterable[Needed], prices: Prices) -> dict[str, float]:
    """Role -> US dollars to assume for one call of a question whose tokens the server did not count."""
    return {
        need.role: prices[need.role].of(need.prompt_bytes / FEWEST_BYTES_PER_TOKEN, need.budget)
        for need in found
        if need.role in prices
    }


def sum_up(
    per_question: Sequence[tuple[Needed, ...]], models: Mapping[str, str], prices: Prices, concurrency: int
) -> Forecast:
    """Add the questions of a run up.

    Args:
        models: role -> model.
    """
    roles = {}
    for role, model in models.items():
        calls = [need for found in per_question for need in found if need.role == role]
        prompt = sum(need.prompt_bytes for need in calls) / BYTES_PER_TOKEN
        expected = sum(min(EXPECTED_COMPLETION, need.budget) for need in calls)
        most = sum(need.budget for need in calls)
        price = prices.get(role)
        usd = (price.of(prompt, expected), price.of(prompt, most)) if price else (None, None)
        roles[role] = RoleForecast(model, len(calls), round(prompt), expected, most, *usd)
    total = sum(role.calls for role in roles.values())
    seconds = {latency: total * latency / concurrency for latency in LATENCIES_S}
    return Forecast(len(per_question), roles, seconds)
