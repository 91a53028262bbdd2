"""Judge: words of a text in one spelling: lower case, numbers as digits, no punctuation. Linear in the text."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen".split()
)
_UNITS = {word: value for value, word in enumerate(_SMALL)}
_TENS = {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_SHORT_SCALES = {"k": 1_000, "bn": 1_000_000_000}
_EMPTY = set(
    "solution solutions thought thoughts process answer answers reply response output result ok okay well hmm "
    "um so let lets me us think solve this problem step by the final reasoning explanation here is it question user "
    "assistant a an of to and i my your for about now begin start with alright".split()
)
_QUOTES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": " ", "′": "'"})
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:[,\u00a0\u202f\u2009']\d{3})+(?![\d,])")
_SHORT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(k|bn)\b")
_WORD = re.compile(r"\d+\.\d+|(?<![\w.])\.\d+|\d+|%|[^\W\d_]+(?:\d+[^\W_]*)?")
_CONTRACTIONS = re.compile(r"(?<=\w)'(s|d|ll|re|ve|m)\b")
_CANNOT = re.compile(r"\b(?:can ?not|can't)\b")


@lru_cache(maxsize=8192)
def normalise(text: str) -> tuple[str, ...]:
    """The words of a text in the spelling that patterns are matched in.

    Lower case; number words and "5k" become digits ("ninety", "two hundred and five" -> `90`, `205`); `%` and "per
    cent" become `percent`; thousands separators, trailing zeros after a point, apostrophes ("don't" -> `dont`) and
    "'s" go; every other mark separates words, a hyphen too. Fractions such as "half" stay words.
    """
    folded = unicodedata.normalize("NFKC", text.translate(_QUOTES)).casefold()
    folded = _CANNOT.sub("cant", folded)
    folded = _CONTRACTIONS.sub("", folded)
    folded = _THOUSANDS.sub(lambda m: re.sub(r"\D", "", m[0]), folded).replace("'", "")
    folded = _SHORT.sub(lambda m: _plain(Decimal(m[1]) * _SHORT_SCALES[m[2]]), folded)
    words = _WORD.findall(folded.replace("per cent", "percent"))
    return tuple(_spelled(["percent" if word in ("%", "pct") else word for word in words]))


_Reader = Callable[[Sequence[str], int], tuple[Decimal | None, int]]


def _spelled(words: Sequence[str]) -> Iterator[str]:
    """Numbers in digits, whatever way they were written."""
    i = 0
    while i < len(words):
        value, after = _number(words, i)
        if value is None:
            yield words[i]
            i += 1
        else:
            yield _plain(value)
            i = after


def _number(words: Sequence[str], i: int) -> tuple[Decimal | None, int]:
    """The number that starts at word `i`, and the index after it; None where none does.

    "two thousand five hundred and six" is 2506; "one thousand and two thousand" are two numbers.
    """
    group, i = _group(words, i)
    if group is None:
        return None, i
    total, limit = Decimal(0), 10**12
    while (scale := _SCALES.get(_at(words, i), limit)) < limit:
        total, limit, i = total + group * scale, scale, i + 1
        rest, after = _rest(words, i)
        group = rest if rest is not None and _SCALES.get(_at(words, after), 0) < limit else Decimal(0)
        i = after if group else i
    return _with_point(words, i, total + group)


def _group(words: Sequence[str], i: int) -> tuple[Decimal | None, int]:
    """A number below a thousand, or one in digits."""
    value, i = _below_hundred(words, i)
    if value is None or _at(words, i) != "hundred":
        return value, i
    rest, after = _continued(words, i + 1, _below_hundred)
    if rest is None or _at(words, after) == "hundred":
        return value * 100, i + 1
    return value * 100 + rest, after


def _rest(words: Sequence[str], i: int) -> tuple[Decimal | None, int]:
    """What follows "thousand" in a number."""
    rest, after = _continued(words, i, _group)
    return (None, i) if _at(words, i) == "and" and rest is not None and rest >= 100 else (rest, after)


def _continued(words: Sequence[str], i: int, read: _Reader) -> tuple[Decimal | None, int]:
    """The number words that go on after "hundred" or "thousand", perhaps with an "and"; digits do not."""
    start = i + 1 if _at(words, i) == "and" else i
    value, after = read(words, start) if _at(words, start)[:1].isalpha() else (None, i)
    return (value, after) if value is not None else (None, i)


def _below_hundred(words: Sequence[str], i: int) -> tuple[Decimal | None, int]:
    word, after = _at(words, i), _at(words, i + 1)
    if word[:1].isdecimal() or word[:1] == ".":
        return _decimal(word), i + 1
    if word in _TENS:
        unit = _UNITS.get(after, 0)
        return (Decimal(_TENS[word] + unit), i + 2) if 0 < unit < 10 else (Decimal(_TENS[word]), i + 1)
    if word == "a" and (after in _SCALES or after in ("hundred", "dozen")):
        word = "one"
    if word in _UNITS:
        return (Decimal(_UNITS[word] * 12), i + 2) if after == "dozen" else (Decimal(_UNITS[word]), i + 1)
    return (Decimal(12), i + 1) if word == "dozen" else (None, i)


def _at(words: Sequence[str], i: int) -> str:
    return words[i] if i < len(words) else ""


def _with_point(words: Sequence[str], i: int, whole: Decimal) -> tuple[Decimal, int]:
    """ "one point five" is 1.5."""
    digits = ""
    after = i + 1
    if i < len(words) and words[i] == "point":
        while after < len(words) and _UNITS.get(words[after], 10) < 10:
            digits += str(_UNITS[words[after]])
            after += 1
    return (Decimal(f"{whole:f}.{digits}"), after) if digits and whole == int(whole) else (whole, i)


def _decimal(word: str) -> Decimal:
    """Digits of any script to a number; very long ones are cut, they are no quantities."""
    ascii_digits = "".join(str(unicodedata.digit(c, 0)) if c.isdigit() else c for c in word[:40])
    return Decimal(ascii_digits)


def _plain(value: Decimal) -> str:
    """Without exponent and without trailing zeros after the point."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number_of(text: str) -> str | None:
    """A numeric literal in the spelling of `normalise`; None for anything else, and for infinities."""
    words = normalise(text) if re.fullmatch(r"\d*\.?\d+(?:e[+-]?\d{1,2})?", text, re.IGNORECASE) else ()
    return words[0] if len(words) == 1 else None


def content_free(text: str) -> bool:
    """Whether a text says nothing: blanks, marks, or only openers such as "Solution", "Thought process:"."""
    return all(word in _EMPTY for word in normalise(text))
