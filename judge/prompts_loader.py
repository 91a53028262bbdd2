"""Judge: the prompts of the LLM judge. Rendered once; untrusted text stands behind a fence that it cannot close."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmark_core.digest import digest_tree
from benchmark_core.errors import JudgeError
from judge.rubric import MENU, Rubric
from suites.questions import Question, UnaReference

_FOLDER = Path(__file__).parent / "prompts"
_CONTROL = re.compile(r"<\|")
_SIGNS = re.compile(
    r"<\||</?(?:s|t|think|thinking|system|assistant|question|reply|answer)\b[^<>]{0,40}>"
    r"|\bend\s(?:of\s(?:the\s)?)?(?:answer|question|reply)\b[^\n]{0,40}[\]>|]"
    r"|[\"']?\brating[\"']?\s*[:=]\s*[\"']?[abc](?=[\"'* ]*(?:$|[.,;}<\n]))"
    r"|\byou(?:r rating)? (?:must|should) (?:be|rate|grade|answer with)\b"
    r"|\bignore (?:all |any )?(?:the )?(?:previous|above|other) (?:instructions|rules)\b",
    re.IGNORECASE,
)


def system_prompt(rubric: Rubric, question: Question) -> str:
    """What the ratings mean; the same for all questions of a kind, so that a serving engine can keep it."""
    context = {"kind": question.kind.value, "menu": {r.value: label for r, label in MENU[question.kind].items()}}
    return _environment().get_template(f"system_{rubric.value}.j2").render(context)


def user_prompt(rubric: Rubric, question: Question, reply: str) -> str:
    """What is to be judged, question and reply last."""
    texts: dict[str, str] = {"question": question.text, "reply": reply}
    facts: tuple[str, ...] = ()
    if rubric is Rubric.REFERENCE:
        reference, facts = _reference(question)
        texts |= reference
    mark = fence_mark(*texts.values(), *facts)
    disarmed = {name: _disarmed(text) for name, text in texts.items()}
    template = _environment().get_template(f"user_{rubric.value}.j2")
    return template.render(mark=mark, facts=[_disarmed(fact) for fact in facts], **disarmed)


def fence_mark(*texts: str) -> str:
    """A mark that none of the texts contains, made from the texts: the same request has the same prompt."""
    return without_occurrence(hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16], texts)


def without_occurrence(mark: str, texts: Sequence[str]) -> str:
    """The mark, or the first of those derived from it that none of the texts contains."""
    while any(mark in text for text in texts):
        mark = hashlib.sha256(mark.encode()).hexdigest()[:16]
    return mark


def shows_injection(text: str) -> bool:
    """Whether a text looks as if it spoke to the judge: end marks, tags, verdicts, orders."""
    return bool(_SIGNS.search(text))


def prompts_digest() -> str:
    """`sha256:…` over all prompts of the judge."""
    return digest_tree(_FOLDER, "*.j2")


def _reference(question: Question) -> tuple[dict[str, str], tuple[str, ...]]:
    reference = question.reference
    if isinstance(reference, UnaReference):
        return {"asks_for": reference.asks_for, "sub_kind": reference.sub_kind.replace("_", " ")}, ()
    if reference is None:
        raise JudgeError(f"{question.key}: no reference; judge it under the published rubric")
    return {"answer": reference.answer}, tuple(fact.text for fact in reference.facts)


def _disarmed(text: str) -> str:
    """Chat-template tokens such as `<|im_end|>` are read as such by some servers even inside a message."""
    return _CONTROL.sub("< |", text)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
