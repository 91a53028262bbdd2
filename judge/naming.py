"""Judge: finds identifiers of an oracle in a text, in the spellings that people and models use.

    fare_amount, FARE_AMOUNT, fare\\_amount, "fare underscore amount", bookings.fare_amount, fareAmount, fare-amount
    the fare amount column, the column `status`, the field called status       only beside such a noun, or in back-ticks

A single plain word such as "status" is ordinary speech, and so is "fare amount": alone they disclose nothing.
"""

import re
from collections.abc import Iterable, Iterator

from benchmark_core.sql.identifiers import Identifiers
from judge.finding import Finding
from judge.passages import Passage, Word
from judge.verdict import EvidenceKind

_NOUNS = {"column", "columns", "field", "fields", "table", "tables", "attribute", "attributes", "col", "tbl"}
_NAMING = {"called", "named", "labelled", "labeled", "titled"}
_NOUN_COMPOUNDS = {"name", "names", "type", "types", "value", "values", "key", "keys", "id", "ids", "header", "format"}
_NOUN_COMPOUNDS |= {"and", "or", "is", "are", "that", "with", "for", "data", "count", "order", "list", "in", "of"}
_PARTICLES = {
    "in",
    "out",
    "up",
    "off",
    "on",
    "down",
    "over",
    "by",
    "time",
    "level",
    "end",
    "term",
    "day",
    "week",
    "month",
}
_PARTICLES |= {"year", "hour", "free", "only", "show", "go", "class", "wide", "based", "rate", "to", "date", "run"}
_PREFIXES = {"no", "non", "re", "pre", "post", "co", "per", "multi", "mid", "self", "ex", "e", "sub", "semi", "follow"}
_CAMEL = re.compile(r"[a-z0-9]+[A-Z]|[A-Z]{2,}[a-z]{2,}|[A-Z][a-z]+[A-Z]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|[^\W_]+")


class Names:
    """The identifiers of one oracle, ready to be looked for."""

    def __init__(self, names: Identifiers) -> None:
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        self._joined: dict[str, tuple[str, ...]] = {}
        self._owners = {_folded(name) for name in names.tables | names.aliases | names.ctes}
        for name in sorted(names.all):
            self._add(name, is_alias=name in names.aliases)

    def _add(self, name: str, *, is_alias: bool) -> None:
        written = tuple(part.casefold() for part in re.findall(r"[^\W_]+", name))
        cased = tuple(part.casefold() for part in _PARTS.findall(name))
        if len("".join(written)) < 2 or (is_alias and len(cased) < 2):
            return  # a result column named "total" is how anybody would call it
        for parts in {written, cased}:
            if len(parts) > 1:
                self._by_first.setdefault(parts[0], []).append(parts)
        self._joined["".join(written)] = written

    def find(self, passage: Passage) -> Iterator[Finding]:
        """Every mention, in order of place."""
        words, text = passage.words, passage.text
        for i, word in enumerate(words):
            for parts in self._by_first.get(word.folded, ()):
                run = words[i : i + len(parts)]
                if tuple(w.folded for w in run) == parts and self._is_compound_name(text, words, i, len(parts)):
                    yield _finding(parts, run[0].start, run[-1].end)
            whole = self._joined.get(word.folded)
            if whole is not None and self._is_single_name(text, words, i, whole):
                yield _finding(whole, word.start, word.end)

    def _is_compound_name(self, text: str, words: tuple[Word, ...], i: int, n: int) -> bool:
        gaps = [text[a.end : b.start] for a, b in zip(words[i : i + n - 1], words[i + 1 : i + n], strict=True)]
        start, end = words[i].start, words[i + n - 1].end
        if text[start - 1 : start] == "_" and text[start - 2 : start - 1].isalnum():
            return False  # the end of a longer name
        if text[end : end + 1] == "_" and text[end + 1 : end + 2].isalnum():
            return False
        if all(_is_underscore(gap) for gap in gaps):
            return True
        if all(gap in ("-", "_", "‐", "‑", ".") for gap in gaps):
            parts = [word.folded for word in words[i : i + n]]
            ordinary = n == 2 and (parts[1] in _PARTICLES or parts[0] in _PREFIXES)
            return "." not in gaps and (not ordinary or _beside_noun(text, words, i, i + n - 1))
        if all(gap.isspace() for gap in gaps):
            return _in_code_marks(text, start, end) or _beside_noun(text, words, i, i + n - 1)
        return False

    def _is_single_name(self, text: str, words: tuple[Word, ...], i: int, whole: tuple[str, ...]) -> bool:
        word = words[i]
        spelled = text[word.start : word.end]
        if "_" in (text[word.start - 1 : word.start], text[word.end : word.end + 1]):
            return False  # a part of a longer name
        if len(word.folded) > 3 and _CAMEL.match(spelled):
            return True
        if _in_code_marks(text, word.start, word.end):
            return True
        if text[word.start - 1 : word.start] == "." and i and words[i - 1].end == word.start - 1:
            return words[i - 1].folded in self._owners and len(whole[0]) > 1
        return _beside_noun(text, words, i, i)


def _finding(parts: Iterable[str], start: int, end: int) -> Finding:
    return Finding(EvidenceKind.IDENTIFIER, "".join(parts), start, end)


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")


def _is_underscore(gap: str) -> bool:
    """ "_", "\\_", " _ ", and the word "underscore", which is part of no word list."""
    return gap.replace("\\", "").strip() == "_" or gap.strip().casefold() == "underscore"


def _in_code_marks(text: str, start: int, end: int) -> bool:
    """Whether back-ticks enclose exactly this, or a dotted name that ends here."""
    if text[end : end + 1] != "`":
        return False
    opening = text.rfind("`", 0, start)
    inside = text[opening + 1 : start] if opening >= 0 and start - opening < 80 else " "
    return not inside or (inside.endswith(".") and inside[:-1].replace("_", "").isalnum())


def _beside_noun(text: str, words: tuple[Word, ...], first: int, last: int) -> bool:
    """Whether the words stand next to "column", "table", "field": "the x column", "column x", "the field called x"."""
    if last + 1 < len(words) and words[last + 1].folded in _NOUNS and _close(text, words[last], words[last + 1]):
        return True
    before = first - 1
    if before > 0 and words[before].folded in _NAMING and _close(text, words[before], words[first]):
        return words[before - 1].folded in _NOUNS
    if before < 0 or words[before].folded not in _NOUNS or words[first].folded in _NOUN_COMPOUNDS:
        return False
    return _close(text, words[before], words[first])


def _close(text: str, a: Word, b: Word) -> bool:
    """Nothing but a blank and quotes stands between."""
    gap = text[a.end : b.start]
    return len(gap) < 5 and not gap.strip(" \"'`*“”‘’")
