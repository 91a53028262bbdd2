"""Bench: how much of a bare client's speed the whole pipeline keeps, and how near it comes to the latency bound.

All sides send the same requests (those of the `baseline` simulator) with the same number of workers and connections to
one server process, by turns. Seconds of a side are all of it: a new client, its connections, every answer, closing.
The pipeline's are those of `guard.runs.run`: building, prompts, cache, ledger, rule judge, and reading the ledger back
for the scorecard. Imports, and reading the suite, are done before.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import openai
from server import DelayServer
from suite_builder import SCHEMA, seal, write_suite

from benchmark_core.chat import ChatRequest, Completion, Decoding
from benchmark_core.chat_cache import ChatCache
from benchmark_core.openai_chat import Endpoint, OpenAIChat
from benchmark_core.ports import Ask
from guard.choices import Choices, EndpointChoice, JudgeChoice, SimulatorChoice
from guard.ledger import ScoredItem
from guard.runs import RunFolder, Watch, run
from guard.scoring import Plan, Scope, plan
from simulators.baseline import Baseline
from simulators.prompts_loader import load_pack
from suites.load import Suite, load

CONCURRENCY = 64
REPEATS, SLOW_REPEATS = 5, 3
TASKS, POINTS = 48, 3  # x 3 kinds x 3 styles = 1,296 questions
SCOPE = Scope(limit=20 * CONCURRENCY)  # the latency bound means something only if the last round is full too
SCHEMA_CHARACTERS = 5_000
QUICK_S, SLOW_S = 0.05, 0.2
MODEL = "bench"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of one run of the pipeline: in all, before the first question, and after the last answer."""

    whole: float
    before: float
    after: float


def throughput(say: Say) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch))
        with DelayServer(QUICK_S) as server:
            bench.against_bare(server.base_url, say)
        with DelayServer(SLOW_S) as server:
            bench.against_latency(server.base_url, say)


class Bench:
    """The suite, its requests, and a new folder for each run."""

    def __init__(self, scratch: Path) -> None:
        self._suite = _suite(scratch / "suite")
        self._requests = asyncio.run(_requests(self._suite))
        self._folders = (scratch / str(number) for number in count())

    def against_bare(self, base_url: str, say: Say) -> None:
        """The claim: the pipeline's throughput as a share of a bare client's. The other sides show where the rest goes.

        Shares are medians over the rounds of the two sides' ratio in a round, so that a machine whose speed drifts
        slows both.
        """
        sides: dict[str, Callable[[], float]] = {
            "plain aiohttp": lambda: _timed(_plain(base_url, self._requests)),
            "our client": lambda: _timed(_ours(base_url, self._requests, None)),
            "our client with its cache": lambda: _timed(_ours(base_url, self._requests, next(self._folders))),
            "bare openai client": lambda: _timed(_bare(base_url, self._requests)),
            "pipeline": lambda: self.pipeline(base_url).whole,
        }
        rounds = [{name: side() for name, side in sides.items()} for _ in range(REPEATS)]
        size = sum(len(m.content) for request in self._requests for m in request.messages) / len(self._requests)
        say(
            f"{len(self._requests)} questions, prompts of {size / 1000:.1f} kB, {QUICK_S * 1000:.0f} ms server, "
            f"concurrency {CONCURRENCY}, medians of {REPEATS} rounds:"
        )
        for name in sides:
            rate = len(self._requests) / median(seconds[name] for seconds in rounds)
            share = median(seconds["bare openai client"] / seconds[name] for seconds in rounds)
            say(f"  {name:<26}{share:.2f} of the bare client ({rate:.0f} requests/s)")

    def against_latency(self, base_url: str, say: Say) -> None:
        """The claim: the pipeline's seconds as a multiple of calls x latency / concurrency."""
        runs = sorted((self.pipeline(base_url) for _ in range(SLOW_REPEATS)), key=lambda spent: spent.whole)
        spent, bound = runs[SLOW_REPEATS // 2], len(self._requests) * SLOW_S / CONCURRENCY
        say(
            f"{len(self._requests)} questions, {SLOW_S * 1000:.0f} ms server, concurrency {CONCURRENCY}: pipeline "
            f"{spent.whole / bound:.2f} x the latency bound of {bound:.2f} s (start-up {spent.before:.2f} s and "
            f"counting {spent.after:.2f} s included)"
        )

    def pipeline(self, base_url: str) -> Spent:
        """One whole run into a new folder."""
        watch = _Stopwatch()
        choices = Choices(SimulatorChoice("baseline", EndpointChoice(MODEL, base_url)), JudgeChoice(), CONCURRENCY)
        begun = time.perf_counter()
        run(self._suite, choices, SCOPE, RunFolder(next(self._folders)), Watch(watch.started))
        ended = time.perf_counter()
        assert watch.rated == len(self._requests), "a failure is no throughput"
        return Spent(ended - begun, watch.first - begun, ended - watch.last)


class _Stopwatch:
    """Notes when a run asks its first question and when its last item is written."""

    first = last = 0.0
    rated = 0

    def started(self, _plan: Plan, _done: int) -> Callable[[ScoredItem], None]:
        self.first = time.perf_counter()
        return self._item

    def _item(self, item: ScoredItem) -> None:
        self.last = time.perf_counter()
        self.rated += item.rating is not None


class _Recorder:
    """A `ChatClient` that keeps the requests."""

    identity: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        return Completion("<reply>yes</reply>", MODEL)


def _suite(root: Path) -> Suite:
    """A suite of the wanted size, with a schema that makes the prompts as long as real ones."""
    write_suite(root, tasks=TASKS, points=POINTS)
    tables, numbers = SCHEMA, count(1)
    while len(tables) < SCHEMA_CHARACTERS:
        number = next(numbers)
        tables += (
            f"CREATE TABLE stock_{number} (stock_{number}_id int PRIMARY KEY, shop_id int REFERENCES shop,\n"
            f"  counted_on date NOT NULL, item_name text, item_count int CHECK (item_count >= 0), remark text);\n"
        )
    (root / "mart" / "mart_schema.txt").write_text(tables)
    seal(root)
    return load(root)


async def _requests(suite: Suite) -> list[ChatRequest]:
    """What `baseline` sends for each question, in the order of the plan."""
    recorder = _Recorder()
    baseline = Baseline(recorder, load_pack("v1-open"), Decoding())
    for question in plan(suite, SCOPE).questions:
        await baseline.answer(Ask(question.text, suite.oracles[question.key.instance_id]))
    assert len({request.messages for request in recorder.requests}) == len(recorder.requests), (
        "equal requests would be cache hits"
    )
    return recorder.requests


def _timed(work: Awaitable[None]) -> float:
    start = time.perf_counter()
    asyncio.run(_await(work))
    return time.perf_counter() - start


async def _await(work: Awaitable[None]) -> None:
    await work


async def _workers(requests: Iterable[ChatRequest], send: Callable[[ChatRequest], Awaitable[object]]) -> None:
    """A fixed set of workers that pull from one queue, as the pipeline has it."""
    queue = iter(requests)

    async def worker() -> None:
        for request in queue:
            assert await send(request)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(worker())


def _messages(request: ChatRequest) -> Any:
    return [{"role": message.role, "content": message.content} for message in request.messages]


async def _plain(base_url: str, requests: list[ChatRequest]) -> None:
    """No client library: proves that the server is not what limits the others."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:

        async def send(request: ChatRequest) -> object:
            body = {"model": MODEL, "messages": _messages(request), "max_tokens": request.decoding.max_tokens}
            async with session.post(f"{base_url}/chat/completions", json=body) as response:
                return (await response.json())["choices"][0]["message"]["content"]

        await _workers(requests, send)


async def _bare(base_url: str, requests: list[ChatRequest]) -> None:
    """The `openai` library as one would use it, on the transport that ours has."""
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY)
    transport = openai.DefaultAioHttpClient(limits=limits, timeout=None)
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, http_client=transport) as client:

        async def send(request: ChatRequest) -> object:
            decoding = request.decoding
            response = await client.chat.completions.create(
                model=MODEL,
                messages=_messages(request),
                temperature=decoding.temperature,
                top_p=decoding.top_p,
                max_tokens=decoding.max_tokens,
                reasoning_effort="medium",
            )
            return response.choices[0].message.content

        await _workers(requests, send)


async def _ours(base_url: str, requests: list[ChatRequest], cache_file: Path | None) -> None:
    endpoint = Endpoint(base_url, MODEL, concurrency=CONCURRENCY)
    cache = ChatCache(cache_file) if cache_file else None
    try:
        async with OpenAIChat(endpoint, cache) as chat:
            await _workers(requests, chat.complete)
    finally:
        if cache:
            cache.close()
