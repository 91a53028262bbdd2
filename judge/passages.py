"""Judge: a reply made readable for detectors, with every character's place in the original kept."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

_WORD = re.compile(r"[^\W_]+")


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
        """Whether upper case means nothing here, because there is hardly anything else."""
        return sum(c.islower() for c in self.text) < sum(c.isupper() for c in self.text) // 2
