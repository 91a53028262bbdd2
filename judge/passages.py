"""Judge: a reply made readable for detectors, with every character's place in the original kept."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

_WORD = re.compile(r"[^\W_]+")
KEYWORDS = set(  # those that people write in capitals for stress (NOT, AND, ALL) are left out
    "SELECT FROM WHERE JOIN LEFT RIGHT FULL INNER OUTER NULL LIKE BETWEEN GROUP ORDER HAVING LIMIT OFFSET DISTINCT "
    "CASE WHEN THEN ELSE UNION INTERVAL COUNT SUM AVG MIN MAX ROUND CAST EXTRACT UPDATE INSERT INTO VALUES DELETE "
    "CREATE OVER PARTITION DESC ASC TIMESTAMP".split()
)


@dataclass(frozen=True, slots=True)
class Word:
    """A run of letters and digits at `text[start:end]` of its passage; `folded` is its case-folded spelling."""

    folded: str
    start: int
    end: int


class Passage:
    """A text without invisible characters and in plain letters (NFKC), so that "fare\\u200b_amount" hides nothing.

    Attributes:
        text: the readable text.
    """

    def __init__(self, original: str) -> None:
        self.original = original
        if original.isascii():
            self.text, self._origin = original, None
            return
        pieces: list[str] = []
        origin: list[int] = []
        for i, char in enumerate(original):
            plain = "" if unicodedata.category(char) == "Cf" else unicodedata.normalize("NFKC", char)
            pieces.append(plain)
            origin += [i] * len(plain)
        self.text, self._origin = "".join(pieces), origin

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The place in the original of `text[start:end]`, which is not empty."""
        if self._origin is None:
            return start, end
        return self._origin[start], self._origin[end - 1] + 1

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """All words, in order; the separators "_" and "underscore" belong to none."""
        found = (Word(m[0].casefold(), m.start(), m.end()) for m in _WORD.finditer(self.text))
        return tuple(word for word in found if word.folded != "underscore")

    @cached_property
    def shouts(self) -> bool:
        """Whether the text is written in capitals, so that they mean nothing, and is not mostly keywords of SQL."""
        if sum(c.islower() for c in self.text) >= sum(c.isupper() for c in self.text) // 2:
            return False
        words = [word for word in self.words if word.folded.isalpha()]
        return 2 * sum(word.folded.upper() in KEYWORDS for word in words) < len(words)
