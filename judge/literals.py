"""Judge: finds distinctive constants of the reference SQL in a text: codes, odd numbers, dates in several spellings.

Ordinary words ("cancelled") and round numbers (10, 90, 1000) are what a user would say, and disclose nothing.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from benchmark_core.sql.identifiers import Constants
from judge.finding import Finding
from judge.passages import Passage
from judge.verdict import EvidenceKind
from judge.words import normalise, number_of

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = (
    {name: n for n, name in enumerate(_MONTHS, 1)} | {name[:3]: n for n, name in enumerate(_MONTHS, 1)} | {"sept": 9}
)
_NAME = "|".join(sorted(_MONTH, key=len, reverse=True))
_ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_SLASHED = re.compile(r"(?<!\d)(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?!\d)")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_NAME})\.?,?\s+(\d{{4}})\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b({_NAME})\.?\s+(?:the\s+)?(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*+(?:\.\d++)?(?!\w)|(?<![\w.,])\.\d++")
_PERCENT = re.compile(r"\s*(?:%|per\s?cent\b)", re.IGNORECASE)
_CODE_WORD = re.compile(r"[^\W_]+(?:[_\-:/.][^\W_]+)*")
_ACRONYMS = set(
    "USD EUR GBP CHF JPY CAD AUD UK US USA EU UAE VIP ID OK UTC GMT AM PM GPS PDF CEO CFO HR IT TV PC URL VAT ISO API "
    "FAQ RSVP ETA ATM SMS DNA KPI SUV AC DC NYC LA DC Q1 Q2 Q3 Q4 B2B B2C CO2 HIV ICU ER MRI KM KG MPH".split()
)
_QUOTES = "'\"`‘’“”"


class Literals:
    """The distinctive constants of one oracle, ready to be looked for."""

    def __init__(self, constants: Constants) -> None:
        self._dates = {date for text in constants.strings for date, _, _ in _dates(text)}
        self._numbers = {n for text in constants.numbers if (n := number_of(text)) and _is_distinctive(n)}
        self._codes = {text.strip("%"): len(text) == 1 for text in constants.strings if _is_code(text.strip("%"))}
        self._folded = {code.casefold() for code in self._codes if not code.isalpha()}

    def find(self, passage: Passage) -> Iterator[Finding]:
        """Every mention."""
        text = passage.text
        taken: list[tuple[int, int]] = []
        for date, start, end in _dates(text):
            taken.append((start, end))
            if date in self._dates:
                yield Finding(EvidenceKind.CONSTANT, f"date {date}", start, end)
        for value, start, end in _numbers(text):
            if value in self._numbers and not any(a <= start < b for a, b in taken):
                yield Finding(EvidenceKind.CONSTANT, f"number {value}", start, end)
        yield from self._find_codes(text)

    def _find_codes(self, text: str) -> Iterator[Finding]:
        if not self._codes:
            return
        for match in _CODE_WORD.finditer(text):
            found = match[0]
            needs_quotes = self._codes.get(found, False)
            quoted = (
                text[match.start() - 1 : match.start()] in _QUOTES and text[match.end() : match.end() + 1] in _QUOTES
            )
            is_quoted = quoted and match.start() > 0 and match.end() < len(text)
            if (found in self._codes and (is_quoted or not needs_quotes)) or found.casefold() in self._folded:
                yield Finding(EvidenceKind.CONSTANT, f"code {found.casefold()}", match.start(), match.end())


def _is_distinctive(number: str) -> bool:
    """A fraction, or at least three digits before the trailing zeros."""
    return "." in number or len(number.rstrip("0").lstrip("0")) >= 3


def _is_code(text: str) -> bool:
    """One token that nobody would say: digits or underscores inside, capitals throughout, or a single letter."""
    if not _CODE_WORD.fullmatch(text) or text.upper() in _ACRONYMS or _ISO.match(text) or text.isdigit():
        return False
    has_digit = any(c.isdigit() for c in text) and any(c.isalpha() for c in text)
    return has_digit or "_" in text or (text.isalpha() and text.isupper())


def _numbers(text: str) -> Iterator[tuple[str, int, int]]:
    """Values with their places; "12.5 %" is 12.5 and 0.125, "15 %" is what anybody says."""
    for match in _NUMBER.finditer(text):
        end = match.end() - (match[0].endswith(","))
        value = number_of(text[match.start() : end].replace(",", ""))
        if value is None:
            continue
        yield value, match.start(), end
        percent = _PERCENT.match(text, end)
        if percent and _is_distinctive(value):
            yield _hundredth(value), match.start(), percent.end()


def _hundredth(value: str) -> str:
    whole, _, fraction = value.partition(".")
    padded = whole.rjust(3, "0")
    return normalise(f"{padded[:-2]}.{padded[-2:]}{fraction}")[0]


Date = tuple[int, int, int]


def _dates(text: str) -> Iterator[tuple[Date, int, int]]:
    """Dates as (year, month, day); of "03/04/2024" both readings."""
    for m in _ISO.finditer(text):
        yield (int(m[1]), int(m[2]), int(m[3])), m.start(), m.end()
    for m in _SLASHED.finditer(text):
        yield (int(m[3]), int(m[1]), int(m[2])), m.start(), m.end()
        yield (int(m[3]), int(m[2]), int(m[1])), m.start(), m.end()
    for m in _DAY_FIRST.finditer(text):
        yield (int(m[3]), _MONTH[m[2].lower()], int(m[1])), m.start(), m.end()
    for m in _MONTH_FIRST.finditer(text):
        yield (int(m[3]), _MONTH[m[1].lower()], int(m[2])), m.start(), m.end()


def said_numbers(text: str) -> frozenset[str]:
    """Keys of the numbers that a text says, in digits or in words."""
    words = normalise(text)
    said = {word for word in words if word[:1].isdigit()}
    said |= {_hundredth(a) for a, b in pairwise(words) if a[:1].isdigit() and b == "percent"}
    return frozenset(f"number {number}" for number in said)
