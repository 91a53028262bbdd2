"""Judge: reads the verdict in what a judge model wrote, or says why there is none. Never guesses.

A verdict stands in a declared field: `{"reason": …, "rating": "A"}` (bare, fenced, in prose, with a trailing comma),
`<s>A</s>` (its closing tag may be lost at the end, since the text is known to be complete), or a line `rating: A`.
A field holds one rating of the kind's menu and nothing else but its published label: "C", "A. perfect", "C (bad)".
What is no such field is passed over: "A?", "perfect", "AB", an error message.

Fields in reasoning (before `</think>`, in `<t>…</t>`, in the strings of a JSON object) do not count. If those that
count disagree, the verdict is ambiguous.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from judge.rubric import MENU, Rating
from judge.verdict import UnjudgedCause
from suites.questions import Kind

_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THINK_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_TAGGED = re.compile(r"<s>((?:(?!</?s>).)*)(?:</s>|\Z)", re.DOTALL)
_LINE = re.compile(r"^[ \t*_#>\"'`{-]*rating[\"'*_` \t]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_NAMED = re.compile(r"(?:the\s+)?rating\s*(?::|=|is\b)", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_CORRECTED = re.compile(r"not\s+[ABC]\s*[,;]?\s*(?:but|it\s+is|it's)\s+([ABC])")
_RATED = re.compile(r"([ABC])\b[\s.:,()*–—-]*([a-z]*)[\s.)*]*", re.IGNORECASE)
_MARKS = " \t\r\n\"'`*_,;.}]"
_OBJECT = "\0"  # stands for every character of a verdict object
_MAX_BRACES = 200  # that are tried as the start of an object
_MAX_FIELD = 200  # characters


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object that names a rating, at `text[start:end]`. `ratings`: all values that it gives it."""

    start: int
    end: int
    ratings: tuple[Any, ...]


def parse_verdict(text: str, kind: Kind) -> Rating | UnjudgedCause:
    """The rating of a judge's text: UNPARSED without a well-formed field, AMBIGUOUS if well-formed fields disagree.

    Raises:
        ValueError: for a kind that there is not.
    """
    menu = MENU[Kind(kind)]
    text = text.replace(_OBJECT, " ")
    objects = list(_objects(text))
    prose = text
    for found in objects:
        prose = _blank(prose, found.start, found.end, _OBJECT)
    prose = _without_reasoning(prose)
    contents = [rating for found in objects if prose[found.start] == _OBJECT for rating in found.ratings]
    contents += _TAGGED.findall(prose)
    contents += _LINE.findall(_TAGGED.sub("", prose))
    ratings = {rating for content in contents if (rating := _rating(content, menu)) is not None}
    if len(ratings) > 1:
        return UnjudgedCause.AMBIGUOUS
    return ratings.pop() if ratings else UnjudgedCause.UNPARSED


def _rating(content: Any, menu: dict[Rating, str]) -> Rating | None:
    """The rating that a field holds; None unless it holds exactly one of the menu, perhaps with its label."""
    if not isinstance(content, str) or len(content) > _MAX_FIELD:
        return None
    bare = _BOXED.sub(r"\1", content).strip(_MARKS)
    bare = _NAMED.sub("", bare, count=1).strip(_MARKS) if _NAMED.match(bare) else bare
    corrected = _CORRECTED.fullmatch(bare)
    found = _RATED.fullmatch(corrected[1] if corrected else bare)
    if not found:
        return None
    rating = Rating(found[1].upper())
    return rating if rating in menu and found[2].casefold() in ("", menu[rating]) else None


def _without_reasoning(prose: str) -> str:
    """The text with blanks for all reasoning; a thought that does not end goes on to the end of the text."""
    start = max((match.end() for match in _THINK_END.finditer(prose)), default=0)
    unfinished = _THINK_START.search(prose, start)
    end = unfinished.start() if unfinished else len(prose)
    prose = _blank(_blank(prose, 0, start), end, len(prose))
    opening = prose.find("<t>")
    while opening >= 0:
        closing = prose.find("</t>", opening)
        prose = _blank(prose, opening, closing + len("</t>") if closing >= 0 else len(prose))
        opening = prose.find("<t>", opening)
    stray = prose.rfind("</t>")  # its opening tag was part of the prompt, or a quotation closed it early
    return _blank(prose, 0, stray + len("</t>")) if stray >= 0 else prose


def _blank(text: str, start: int, end: int, filler: str = " ") -> str:
    return text[:start] + filler * (end - start) + text[end:]


def _objects(text: str) -> Iterator[_Object]:
    """The outermost JSON objects that name a rating."""
    start = text.find("{")
    for _ in range(_MAX_BRACES):
        if start < 0:
            return
        end, source = _braces(text, start)
        pairs = _pairs(source)
        if pairs is None:
            start = text.find("{", start + 1)
            continue
        ratings = tuple(value for key, value in pairs if key == "rating")
        if ratings:
            yield _Object(start, end, ratings)
        start = text.find("{", end)


def _braces(text: str, start: int) -> tuple[int, str]:
    """End and text of what the brace at `start` encloses, without trailing commas; "" if nothing closes it."""
    kept: list[str] = []
    depth, in_string, escaped = 0, False, False
    for i in range(start, len(text)):
        char = text[i]
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char in "}]":
            while kept and (kept[-1].isspace() or kept[-1] == ","):
                kept.pop()
            depth -= char == "}"
        else:
            in_string = char == '"'
            depth += char == "{"
        kept.append(char)
        if not depth:
            return i + 1, "".join(kept)
    return len(text), ""


def _pairs(source: str) -> list[tuple[str, Any]] | None:
    """Keys and values of a JSON object, in order and with repetitions; None for anything else."""
    try:
        pairs: list[tuple[str, Any]] = json.loads(source, object_pairs_hook=lambda pairs: pairs, strict=False)
    except (ValueError, RecursionError):
        return None
    return pairs
