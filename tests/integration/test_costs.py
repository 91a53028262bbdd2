"""Integration: what a run takes is known before it is spent, and a limit on money holds, against a real server."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, ChatServer, completion
from hypothesis import given
from hypothesis import strategies as st
from ledgers import read
from suite_builder import small_suite

from benchmark_core.errors import InputError
from guard.choices import Choices, EndpointChoice, JudgeChoice, Money, SimulatorChoice
from guard.forecast import sum_up
from guard.ledger import Call
from guard.prices import Price, paid
from guard.purse import CostReached, Purse
from guard.runs import Counted, RunFolder, Watch, rehearse, run
from guard.scoring import Scope, plan
from suites.load import Suite

QUIET = Watch(lambda _plan, _done: lambda _item: None)
AGAIN = replace(QUIET, resume=True)
PRICES = {"simulator": Price(2.0, 8.0), "judge": Price(1.0, 4.0)}
PER_QUESTION = 2 * PRICES["simulator"].of(12, 3) + PRICES["judge"].of(12, 3)
"""The scripted server counts 12 and 3 tokens a call; function-driven calls twice."""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return small_suite(tmp_path_factory.mktemp("suite"), tasks=4, points=2)


def script(body: dict[str, Any]) -> dict[str, Any]:
    if "response_format" in body:
        return completion('{"reason": "fine", "rating": "A"}')
    return completion("<s>unanswerable()</s><reply>Sorry, I cannot say.</reply>")


def choices(server: ChatServer, limit: float | None = None, concurrency: int = 4) -> Choices:
    endpoint = EndpointChoice("m", server.base_url)
    return Choices(
        SimulatorChoice("function-driven", endpoint), JudgeChoice(endpoint), concurrency, Money(PRICES, limit)
    )


def go(suite: Suite, chosen: Choices, out: Path, watch: Watch = QUIET) -> Counted:
    return run(suite, chosen, Scope(), RunFolder(out), watch)


def test_a_rehearsal_makes_the_calls_of_the_run_and_sends_none(suite: Suite, tmp_path: Path) -> None:
    with ChatServer(script) as server:
        chosen = choices(server)
        rehearsal = asyncio.run(rehearse(suite, plan(suite, Scope()), chosen))
        needed = [asyncio.run(rehearsal.needs(question)) for question in suite.questions]
        forecast = sum_up(needed, chosen.models, PRICES, chosen.concurrency)
        assert server.paid == 0
        usage = go(suite, chosen, tmp_path / "r").scorecard.usage
        sent = sum(len(m["content"].encode()) for r in server.received for m in r.body["messages"])
    assert {role: part.calls for role, part in forecast.roles.items()} == {"simulator": 144, "judge": 72}
    assert {role: part.calls for role, part in usage.items()} == {"simulator": 144, "judge": 72}
    tokens = sum(part.prompt_tokens for part in forecast.roles.values())
    assert tokens == pytest.approx(sent / 4, rel=0.02), "the same prompts, but for the replies in the judge's"
    assert forecast.seconds[1.0] == 216 / 4
    assert forecast.roles["judge"].usd == pytest.approx(
        PRICES["judge"].of(forecast.roles["judge"].prompt_tokens, 72 * 150)
    )


@pytest.mark.parametrize("concurrency", [1, 16])
def test_the_limit_holds_and_resume_finishes(suite: Suite, tmp_path: Path, concurrency: int) -> None:
    whole = len(suite.questions) * PER_QUESTION
    with ChatServer(script) as server:
        limit = 0.075
        with pytest.raises(CostReached, match="--resume"):
            go(suite, choices(server, limit, concurrency), tmp_path / "r")
        first = server.paid
        done = len(read(tmp_path / "r" / "ledger.jsonl")[1])
        assert 0 < done < len(suite.questions)
        assert first == 3 * done, "what was begun was finished"
        with pytest.raises(CostReached):
            go(suite, choices(server, limit, concurrency), tmp_path / "r", AGAIN)
        assert server.paid == first, "the spent money counts on a resume"
        counted = go(suite, choices(server, 10.0, concurrency), tmp_path / "r", AGAIN)
        assert server.paid == 3 * len(suite.questions), "nothing was paid twice"
    assert counted.cost_usd == pytest.approx(whole)


def test_the_limit_holds_whatever_the_server_counts(suite: Suite, tmp_path: Path) -> None:
    """The dearest course: every reply is cut, sent again with twice the budget, and uses all of it."""

    def greedy(body: dict[str, Any]) -> Answer:
        size = sum(len(message["content"].encode()) for message in body["messages"])
        answer = completion("Everything sin", finish="length")
        answer["usage"] = {"prompt_tokens": size // 3, "completion_tokens": body["max_tokens"]}
        return Answer(answer, delay_s=0.005)

    with ChatServer(greedy) as server:
        limit = 0.5
        with pytest.raises(CostReached):
            go(suite, choices(server, limit, 16), tmp_path / "r")
        used = [
            (len("".join(m["content"] for m in r.body["messages"])) // 3, r.body["max_tokens"]) for r in server.received
        ]
    spent = sum(PRICES["simulator"].of(prompt, budget) for prompt, budget in used)
    assert 0.8 * limit < spent <= limit


def test_a_server_that_does_not_count_is_assumed_to_be_dear(suite: Suite, tmp_path: Path) -> None:
    def silent(body: dict[str, Any]) -> dict[str, Any]:
        return script(body) | {"usage": None}

    with ChatServer(silent) as server, pytest.raises(CostReached):
        go(suite, choices(server, 0.2), tmp_path / "r")


def test_a_limit_needs_prices(suite: Suite, tmp_path: Path) -> None:
    with ChatServer(script) as server:
        chosen = replace(choices(server), money=Money({"simulator": PRICES["simulator"]}, 1.0))
        with pytest.raises(InputError, match="--max-cost needs --judge-price"):
            go(suite, chosen, tmp_path / "r")
        assert server.paid == 0


@pytest.mark.parametrize("text", ["", "1", "1/2/3", "-1/2", "a/b", "1e9/1", "nan/1", "1/"])
def test_a_price_is_two_numbers(text: str) -> None:
    with pytest.raises(InputError, match=r"such as 2\.5/10"):
        Price.parse(text, "--price")


def test_what_a_line_cost() -> None:
    counted = Call("simulator", "m", None, 1000, 100, 1, False, 0.1)
    cached = replace(counted, cached=True)
    unknown = replace(counted, completion_tokens=None)
    price = {"simulator": Price(1.0, 10.0)}
    assert paid([counted, counted], 1, price, {}) == pytest.approx(0.004)
    assert paid([cached], 1, price, {}) == pytest.approx(0.002), "paid by a process that was killed"
    assert paid([cached], 2, price, {}) == 0.0, "paid in the first line"
    assert paid([unknown], 1, price, {"simulator": 0.5}) == 0.5
    assert paid([counted], 1, {}, {}) == 0.0


@given(st.lists(st.tuples(st.floats(0.01, 3), st.floats(0, 1)), max_size=30), st.floats(0, 10))
def test_a_purse_is_never_overdrawn(orders: list[tuple[float, float]], limit: float) -> None:
    """Questions that cost a part of what was set aside for them, all at once; nobody waits for ever."""

    async def spend() -> float:
        purse = Purse(limit, 0.0)

        async def one(most: float, part: float) -> None:
            if await purse.reserve(most):
                await asyncio.sleep(0)
                await purse.settle(most, most * part)

        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            for most, part in orders:
                group.create_task(one(most, part))
        return purse.spent

    assert asyncio.run(spend()) <= limit + 1e-9
