"""What is kept to be fast (prompts, evidence) is never given to another question, and requests stay as they were."""

import asyncio
import random
from functools import cache
from pathlib import Path

from chat_server import Answer, ChatServer, completion
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark_core.chat import ChatRequest, Decoding, Message
from benchmark_core.openai_chat import A_TURN, Endpoint, OpenAIChat
from judge.rule_judge import RuleJudge
from judge.verdict import Evidence, Judged
from simulators.prompts_loader import BUILT_IN, KEPT, PromptPack, load_pack
from suites.load import load
from suites.questions import Question

SUITE = load()
QUESTIONS = random.Random(1).sample(SUITE.questions, 6)
REPLIES = ("Only the last thirty days.", "SELECT * FROM t WHERE a_b = 'X1'", "Use the fare_amount column.", "")


def pack(folder: Path, reminder: str) -> PromptPack:
    for file in (BUILT_IN / "v1-open").glob("*.j2"):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "remind_reply.j2").write_text(reminder)
    return load_pack(folder)


@cache
def said_by_a_new_judge(question: Question, reply: str) -> tuple[Judged, tuple[Evidence, ...]]:
    return RuleJudge(SUITE.oracles).rate(question, reply), RuleJudge(SUITE.oracles).evidence(question, reply)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(QUESTIONS), st.sampled_from(REPLIES)), max_size=8))
def test_a_judge_that_judged_before_says_what_a_new_one_says(asked: list[tuple[Question, str]]) -> None:
    judge = RuleJudge(SUITE.oracles)
    for question, reply in asked:
        rating, evidence = said_by_a_new_judge(question, reply)
        assert judge.rate(question, reply) == rating
        assert judge.evidence(question, reply) == evidence


def test_a_prompt_is_that_of_its_values(tmp_path: Path) -> None:
    mine = pack(tmp_path, "{{ a }} {{ b }}")
    for _ in range(2):
        rendered = [mine.render("remind_reply.j2", a=n, b="x") for n in range(2 * KEPT)]
        assert rendered == [f"{n} x" for n in range(2 * KEPT)]
    assert mine.render("remind_reply.j2", a="x", b=0) == "x 0"
    assert mine.render("remind_reply.j2", a=True, b=1.0) == "True 1.0"  # equal to 1 and 1, and yet others
    assert mine.render("remind_reply.j2", a=1, b=1) == "1 1"


def test_extra_goes_before_decoding() -> None:
    async def ask(base_url: str) -> None:
        request = ChatRequest((Message("user", "hi"),), Decoding(), {"temperature": 0.7, "nested": {"a": [1, None]}})
        async with OpenAIChat(Endpoint(base_url, "m")) as chat:
            await chat.complete(request)

    with ChatServer("ok") as server:
        asyncio.run(ask(server.base_url))
    body = server.received[0].body
    assert (body["temperature"], body["nested"]) == (0.7, {"a": [1, None]})


def test_callers_that_go_away_leave_their_turn_to_others() -> None:
    async def ask(base_url: str) -> None:
        async with OpenAIChat(Endpoint(base_url, "m", concurrency=64)) as chat:

            async def one(number: int) -> None:
                await chat.complete(ChatRequest((Message("user", str(number)),), Decoding()))

            for wait_s in (0.0, 0.02, 0.03, 0.04):
                gone = [asyncio.create_task(one(n)) for n in range(64)]
                await asyncio.sleep(wait_s)
                for task in gone:
                    task.cancel()
                await asyncio.gather(*gone, return_exceptions=True)
            await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(3 * A_TURN))), timeout=20)

    with ChatServer(Answer(completion("ok"), delay_s=0.02)) as server:
        asyncio.run(ask(server.base_url))
