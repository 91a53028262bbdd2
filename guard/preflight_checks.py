"""Guard: what is checked of one endpoint, and what is said of it. Free of charge, but for `probe_constraint`."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Self

from benchmark_core.chat import Decoding, Message
from benchmark_core.errors import ChatError
from benchmark_core.probe import Card, Constrained, Counted, Listing, Outcome, Probe, probing
from guard.choices import EndpointChoice, Role
from guard.finding import Finding, Level

if TYPE_CHECKING:
    from benchmark_core.openai_chat import Endpoint

DEADLINE_S = 8.0
"""Of each free request, in seconds."""
CHARACTERS_PER_TOKEN = 3
"""For estimates: English has about 4, SQL and schemas about 3."""
_NAMED = 5  # models in a message


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint, and how its user names it.

    Attributes:
        key_env: the environment variable that holds the key.
    """

    role: Role
    endpoint: "Endpoint"
    key_env: str

    @classmethod
    def of(cls, role: Role, choice: EndpointChoice) -> Self:
        """The endpoint of a choice, with the key that its variable holds now.

        Raises:
            InputError: for an address, model or key that cannot work.
        """
        from benchmark_core.openai_chat import Endpoint  # a slow import

        key = os.environ.get(choice.api_key_env, "")
        end = Endpoint(choice.base_url, choice.model, key, choice.deadline_s)
        return cls(role, end, choice.api_key_env)

    def flag(self, name: str) -> str:
        """`--model`, or `--judge-model`."""
        return f"--judge-{name}" if self.role is Role.JUDGE else f"--{name}"


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """What was found of an endpoint. No key, no text of a prompt.

    Attributes:
        context_length: tokens of prompt and reply together, as the server says; None: it does not.
        prompt_tokens: of the longest prompt; `counted` by the server's tokenizer, or else estimated.
        constrained: the paid call; None when it was not made.
        away: no sound answer came: a matter of time, not of what the user gave.
    """

    role: Role
    base_url: str
    model: str
    findings: tuple[Finding, ...]
    server_version: str | None = None
    context_length: int | None = None
    prompt_tokens: int | None = None
    counted: bool = False
    constrained: Constrained | None = None
    away: bool = False

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        tokens = self.prompt_tokens
        return {
            "role": self.role.value,
            "base_url": self.base_url,
            "model": self.model,
            "server_version": self.server_version,
            "context_length": self.context_length,
            "prompt_tokens": tokens,
            "prompt_tokens_are": None if tokens is None else "counted" if self.counted else "estimated",
            "findings": [finding.to_json() for finding in self.findings],
            "constrained": self.constrained.to_json() if self.constrained else None,
        }


async def check_endpoint(target: Target, longest: Sequence[Message] | None, max_tokens: int) -> EndpointReport:
    """Look at one endpoint; free of charge. See `Load` for the arguments."""
    end = target.endpoint
    name = f"{target.role.value} endpoint"
    async with probing(end, min(DEADLINE_S, end.deadline_s)) as probe:
        try:
            listing = await probe.models()
        except ChatError as error:
            repair = f"see that the server runs and that {target.flag('base-url')} is right (it ends in /v1): "
            repair += f"curl {end.base_url}/models"
            failed = Finding(name, "fail", error.detail, repair)
            return EndpointReport(target.role, end.base_url, end.model, (failed,), away=True)
        answered = _answered(name, target, listing)
        if answered.level == "fail":
            return EndpointReport(target.role, end.base_url, end.model, (answered,), away=listing.status >= 500)
        version, counted = await asyncio.gather(probe.version(), _count(probe, longest))
    seen = f"{answered.seen}, version {version}" if version else answered.seen
    card = next((card for card in listing.cards if card.answers_to(end.model)), None)
    tokens = counted.tokens if counted else _estimate(longest)
    length = (counted.context_length if counted else None) or (card.context_length if card else None)
    report = EndpointReport(
        target.role, end.base_url, end.model, (replace(answered, seen=seen),), version, length, tokens, bool(counted)
    )
    fits = _fits(target, report, max_tokens)
    return replace(report, findings=(*report.findings, _model(target, listing, card), fits))


async def _count(probe: Probe, longest: Sequence[Message] | None) -> Counted | None:
    return await probe.count(longest) if longest else None


def _estimate(longest: Sequence[Message] | None) -> int | None:
    if longest is None:
        return None
    return -(-sum(len(message.content) for message in longest) // CHARACTERS_PER_TOKEN)


def _answered(name: str, target: Target, listing: Listing) -> Finding:
    end, status = target.endpoint, listing.status
    if status == 200:
        return Finding(name, "ok", f"{end.base_url} answers")
    seen = f"{end.base_url}/models answers with HTTP {status}"
    if status in (401, 403):
        had = "does not take the key in" if end.api_key else "wants a key, and there is none in"
        repair = f"put a valid key into the environment variable {target.key_env}, or name another with "
        return Finding(name, "fail", f"{seen}: it {had} {target.key_env}", repair + target.flag("api-key-env"))
    if 300 <= status < 400:
        repair = f"give the address that it redirects to as {target.flag('base-url')}"
        return Finding(name, "fail", f"{seen}: it redirects", repair)
    if status >= 500:
        return Finding(name, "fail", seen, "wait until the server has loaded its model, or look into its log")
    return Finding(name, "warn", seen, f"check that {target.flag('base-url')} ends in /v1; the model cannot be checked")


def _model(target: Target, listing: Listing, card: Card | None) -> Finding:
    name, model = f"{target.role.value} model", target.endpoint.model
    if card is not None:
        return Finding(name, "ok", f"{model} is served")
    if not listing.cards or not listing.whole:
        says = "lists more models than one page" if listing.cards else "lists no models"
        repair = f"make sure that {target.flag('model')} is spelt as the server spells it"
        return Finding(name, "warn", f"cannot be checked: the server {says}", repair)
    ids = [card.id for card in listing.cards]
    near = get_close_matches(model, ids, n=_NAMED, cutoff=0.4) or ids[:_NAMED]
    rest = "" if len(near) == len(ids) else f" (of {len(ids)})"
    repair = f"give {target.flag('model')} one that it lists: {', '.join(near)}{rest}"
    return Finding(name, "fail", f"the server does not list {model}", repair)


def _fits(target: Target, report: EndpointReport, max_tokens: int) -> Finding:
    """Whether the longest prompt and the completion's budget fit into the context."""
    name, length, tokens = f"{target.role.value} context", report.context_length, report.prompt_tokens
    how = "counted by the server" if report.counted else f"estimated at {CHARACTERS_PER_TOKEN} characters each"
    prompt = "the longest prompt is not known" if tokens is None else f"the longest prompt has {tokens} tokens ({how})"
    if length is None:
        return Finding(name, "skipped", f"the server does not say how long its context is; {prompt}")
    needed = (tokens or 0) + max_tokens
    seen = f"{prompt}; with {max_tokens} for the reply it needs {needed} of {length} tokens"
    if needed <= length:
        return Finding(name, "ok", seen)
    lower = "" if target.role is Role.JUDGE else f"lower {target.flag('max-tokens')}, or "
    repair = f"{lower}serve a longer context (vLLM: --max-model-len {needed})"
    return Finding(name, "fail", seen, repair)


async def probe_constraint(target: Target, decoding: Decoding) -> Constrained:
    """ONE tiny paid call: whether the server keeps a schema that the prompt begs it to break."""
    async with probing(target.endpoint, target.endpoint.deadline_s) as probe:
        return await probe.constrained(decoding)


_CONSTRAINT: dict[Outcome, tuple[Level, str, str]] = {
    Outcome.RESPECTED: ("ok", "the server keeps the schema", ""),
    Outcome.IGNORED: (
        "fail",
        "the server ignores the schema of response_format and says what the prompt asks for",
        "serve the judge with a server that keeps json_schema (vLLM 0.12 or newer, llama.cpp), or choose another model",
    ),
    Outcome.REFUSED: (
        "fail",
        "the server refuses the judge's request",
        "take away what the message names, or serve the judge with a server that knows json_schema",
    ),
    Outcome.TRUNCATED: (
        "fail",
        "the token budget was spent before the answer ended",
        "give the judge more tokens if it reasons; if it pads with blanks, start vLLM with --structured-outputs-config "
        """'{"backend":"xgrammar","disable_any_whitespace":true}'""",
    ),
    Outcome.REASONING_ONLY: (
        "fail",
        "the content is empty and the answer stands in the reasoning field, which is never graded",
        "start the server without a reasoning parser, or turn the model's thinking on or off to match the parser",
    ),
    Outcome.UNUSABLE: ("fail", "no usable answer", "try the model by hand with a short prompt and json_schema"),
    Outcome.UNANSWERED: ("warn", "could not be tried", "the run retries; if this stays so, look into the server's log"),
}


def constraint_finding(target: Target, tried: Constrained) -> Finding:
    """The paid call in words."""
    level, seen, repair = _CONSTRAINT[tried.outcome]
    books = f"{tried.latency_s:.1f} s"
    if tried.usage is not None and tried.usage.completion_tokens is not None:
        books += f", {tried.usage.prompt_tokens} + {tried.usage.completion_tokens} tokens"
    if tried.model is not None:
        books += f", model {tried.model}"
    detail = f": {tried.detail}" if tried.detail and tried.outcome is not Outcome.REASONING_ONLY else ""
    return Finding(f"{target.role.value} schema", level, f"{seen}{detail} ({books})", repair)
