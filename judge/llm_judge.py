"""Judge: a language model as judge, under one of two rubrics. What it writes is read strictly, and never trusted."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Any

from benchmark_core.chat import ChatClient, ChatRequest, Completion, Decoding, Message
from benchmark_core.errors import ChatError, ChatFailure
from judge.prompts_loader import prompts_digest, shows_injection, system_prompt, user_prompt
from judge.rubric import MENU, Rating, Rubric
from judge.rule_judge import settle_empty
from judge.verdict import Judged, Unjudged, UnjudgedCause
from judge.verdict_parser import parse_verdict
from suites.questions import Kind, Question

INJECTION_NOTE = "[question or reply holds text that speaks to the judge] "
_DETAIL = 300  # characters of an unread verdict that are kept


class Constraint(StrEnum):
    """How the server is asked to keep the verdict in shape. It is validated all the same: servers have ignored it."""

    JSON_SCHEMA = "json_schema"
    NONE = "none"


class LlmJudge:
    """A `Judge` that asks a model.

    Args:
        decoding: doubled in budget, once, for a verdict that was cut.
    """

    def __init__(
        self,
        chat: ChatClient,
        rubric: Rubric,
        decoding: Decoding,
        constraint: Constraint = Constraint.JSON_SCHEMA,
    ) -> None:
        self._chat, self._rubric, self._decoding, self._constraint = chat, rubric, decoding, constraint

    @property
    def identity(self) -> Mapping[str, object]:
        """What the verdicts depend on; the address of the server is no part of it."""
        return {
            "kind": "llm",
            "rubric": self._rubric.value,
            "model": self._chat.identity["model"],
            "prompts": prompts_digest(),
            "decoding": asdict(self._decoding),
            "constraint": self._constraint.value,
        }

    async def grade(self, question: Question, reply: str) -> Judged | Unjudged:
        """Rate `reply`. A verdict that cannot be had or read is `Unjudged` with its cause; nothing is put in its place.

        Empty and content-free replies are settled by the rule judge's rule, without a call.
        """
        if (settled := settle_empty(question, reply)) is not None:
            return settled
        paid: list[Completion] = []
        try:
            text = await self._complete(self._request(question, reply), paid)
        except ChatError as error:
            return Unjudged(UnjudgedCause(error.cause.value), error.detail, tuple(paid))
        verdict = parse_verdict(text, question.kind)
        if isinstance(verdict, UnjudgedCause):
            return Unjudged(verdict, text[:_DETAIL], tuple(paid))
        note = INJECTION_NOTE if shows_injection(question.text) or shows_injection(reply) else ""
        return Judged(verdict, note + _reason(text), None, tuple(paid))

    async def _complete(self, request: ChatRequest, paid: list[Completion]) -> str:
        """The verdict's text; a verdict that was cut is asked for once more, with twice the budget."""
        try:
            return await self._pay(request, paid)
        except ChatError as error:
            if error.cause is not ChatFailure.TRUNCATED:
                raise
        budget = 2 * request.decoding.max_tokens
        return await self._pay(replace(request, decoding=replace(request.decoding, max_tokens=budget)), paid)

    async def _pay(self, request: ChatRequest, paid: list[Completion]) -> str:
        try:
            completion = await self._chat.complete(request)
        except ChatError as error:
            paid += [error.spent] if error.spent else []
            raise
        paid.append(completion)
        return completion.text

    def _request(self, question: Question, reply: str) -> ChatRequest:
        messages = (
            Message("system", system_prompt(self._rubric, question)),
            Message("user", user_prompt(self._rubric, question, reply)),
        )
        extra = _schema(question.kind) if self._constraint is Constraint.JSON_SCHEMA else {}
        return ChatRequest(messages, self._decoding, extra)


def _schema(kind: Kind) -> dict[str, Any]:
    """`response_format` with the kind's menu as the only ratings; the reason comes first, so that it can matter."""
    ratings: list[Rating] = list(MENU[kind])
    schema = {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "rating": {"type": "string", "enum": [r.value for r in ratings]}},
        "required": ["reason", "rating"],
        "additionalProperties": False,
    }
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}
    }


def _reason(text: str) -> str:
    """The reason that the verdict names; the whole text where it is no JSON object."""
    try:
        verdict = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    reason = verdict.get("reason") if isinstance(verdict, dict) else None
    return reason if isinstance(reason, str) else text.strip()
