"""Judge: finds runs of the reference SQL in a text, token by token, whatever the spacing and quoting."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from judge.passages import KEYWORDS, Passage

N = 4  # tokens of a run that is evidence; shorter only when it is a whole clause or snippet
_TOKEN = re.compile(r"\d+\.\d+|\w+|::|<>|!=|>=|<=|\|\||[=<>()*+/%,.-]")
_PLURAL = re.compile(r"(?:s|es)\)")
_OPERATORS = {"=", "<", ">", "<=", ">=", "<>", "!=", "::", "||", "*"}
Grams = frozenset[tuple[str, ...]]
_CODE_WORDS = {"desc", "asc", "coalesce", "nullif", "ilike", "varchar", "lateral"}


@dataclass(frozen=True, slots=True)
class _Piece:
    """A token of a text, lower case; `strong` if it can only be code where it stands."""

    folded: str
    start: int
    end: int
    strong: bool


class Runs:
    """The runs of tokens of the reference SQL.

    Args:
        statements: reference SQL, whole.
        short: snippets and clauses, each evidence as a whole even if it is shorter than `N` tokens.
    """

    def __init__(self, statements: Iterable[str], short: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        for sql in statements:
            self._runs.update(_ngrams([m[0].casefold() for m in _TOKEN.finditer(sql)], N))
        for sql in short:
            tokens = tuple(m[0].casefold() for m in _TOKEN.finditer(sql))
            if 2 <= len(tokens) < N:
                self._runs.add(tokens)

    def find(self, passage: Passage, given: Callable[[], Grams]) -> Iterator[tuple[int, int]]:
        """Places of the longest runs that only code can be, without what was given (asked for if there are any)."""
        pieces = _pieces(passage)
        covered = 0
        for start, end in self._stretches(pieces, given):
            run = pieces[max(start, covered) : end]
            words = sum(piece.folded[:1].isalpha() for piece in run)
            if words and len(run) > 1 and any(piece.strong for piece in run) and (words > 1 or len(run) < N):
                covered = end
                yield run[0].start, run[-1].end

    def _stretches(self, pieces: Sequence[_Piece], given: Callable[[], Grams]) -> Iterator[tuple[int, int]]:
        """Overlapping runs joined to stretches of token indexes."""
        words = [piece.folded for piece in pieces]
        open_start, open_end = 0, 0
        for i in range(len(words)):
            for n in (N, 3, 2):
                gram = tuple(words[i : i + n])
                if len(gram) == n and gram in self._runs and gram not in given():
                    break
            else:
                continue
            if i >= open_end:
                if open_end:
                    yield open_start, open_end
                open_start = i
            open_end = max(open_end, i + n)
        if open_end:
            yield open_start, open_end

    def given(self, passage: Passage) -> Grams:
        """The runs that a text has."""
        words = [piece.folded for piece in _pieces(passage)]
        return frozenset(gram for n in (2, 3, N) for gram in _ngrams(words, n) if gram in self._runs)


def _ngrams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _pieces(passage: Passage) -> list[_Piece]:
    text = passage.text
    found = []
    for match in _TOKEN.finditer(text):
        token, before, after = match[0], text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        strong = (
            token in _OPERATORS
            or "_" in token.strip("_")
            or (token == "(" and before.isalnum() and not _PLURAL.match(text, match.end()))
            or (token == "." and before.isalnum() and after.isalpha())
            or token.casefold() in _CODE_WORDS
            or (token in KEYWORDS and not passage.shouts)
        )
        found.append(_Piece(token.casefold(), match.start(), match.end(), strong))
    return found
