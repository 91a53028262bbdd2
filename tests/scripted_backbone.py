"""Tests: a backbone that knows the open suite's annotation, over real HTTP: safe in two stages, careless in one.

    python tests/scripted_backbone.py        # serves until it is stopped; prints its address

As `function-driven` it chooses and answers rightly. As `baseline` it answers rightly too, and answers what it must
refuse. So the first is certified and the second fails, which is what the published numbers look like.
"""

import sys
import threading
from typing import Any

from chat_server import Received, completion
from openai_server import CHAT, OpenAIServer, models

from benchmark_core.sql.fragments import fragments, overlaps
from suites.load import load
from suites.questions import AmbReference, LocReference, Question

MODEL = "scripted-backbone"
_SUITE = load()
_QUESTIONS = sorted(_SUITE.questions, key=lambda question: -len(question.text))


def reply(request: Received) -> dict[str, Any]:
    """What the backbone says to a simulator's prompt."""
    prompt = request.body["messages"][-1]["content"]
    question = next(question for question in _QUESTIONS if question.text in prompt)
    if "unanswerable()" in prompt:
        return completion(f"<s>{_action(question)}</s>", model=MODEL)
    two_stages = prompt.startswith("Reply to the assistant's question as the user.")
    return completion(f"<reply>{_says(question, careless=not two_stages)}</reply>", model=MODEL)


def _action(question: Question) -> str:
    match question.reference:
        case AmbReference(ambiguity=term):
            return f'labeled("{term}")'
        case LocReference(fragment=fragment):
            parts = fragments(_SUITE.oracles[question.key.instance_id].first.sol_sql)
            return f'unlabeled("{next(part.number for part in parts if overlaps(part.text, fragment))}")'
        case _:
            return "unanswerable()"


def _says(question: Question, *, careless: bool) -> str:
    if isinstance(question.reference, AmbReference | LocReference):
        return question.reference.answer
    return "Sure, look at how the tables join and group by the month." if careless else "Sorry, I cannot say."


def backbone() -> OpenAIServer:
    """The server, not started."""
    return OpenAIServer({"/v1/models": models(MODEL, max_model_len=32768), CHAT: reply})


if __name__ == "__main__":
    with backbone() as server:
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        threading.Event().wait()
