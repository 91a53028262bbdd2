"""Guard: untrusted text made fit to show: cut, disclosed words marked or hidden, invisible characters named.

It works on the raw text and returns pieces; whoever shows a piece escapes it for its own format.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from judge.verdict import Evidence

Span = tuple[int, int]

LONGEST_RUN = 1200
"""Characters of a stretch without a disclosure, or of one disclosure, that are shown; the middle of more is cut."""
LONGEST = 4000
"""Characters of one text that are shown at all."""
LONGEST_NAME = 48
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi overrides, zero width), lone surrogate, line ends


class Role(StrEnum):
    """What a piece is: the text itself, the name of an unseen character, or a note in place of what is left out."""

    TEXT = "text"
    UNSEEN = "unseen"
    CUT = "cut"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a text. `disclosed` says whether it lies in a disclosure."""

    role: Role
    text: str
    disclosed: bool = False


def excerpt(text: str, disclosed: Iterable[Span] = (), *, hide: bool = False) -> tuple[Piece, ...]:
    """A text in pieces, in order.

    Args:
        disclosed: character offsets; they may overlap, touch the borders or lie outside.
        hide: put a note in place of what is disclosed.
    """
    pieces: list[Piece] = []
    spans = merge(disclosed, len(text))
    runs = list(_runs(text, spans))
    shown = 0
    for at, (run, marked) in enumerate(runs):
        if shown >= LONGEST:
            rest = sum(len(run) for run, _ in runs[at:])
            pieces.append(Piece(Role.CUT, f"{rest:,} more characters cut"))
            break
        if marked and hide:
            pieces.append(Piece(Role.HIDDEN, "withheld", disclosed=True))
        else:
            pieces += _shown(run, marked)
        shown += min(len(run), LONGEST_RUN)
    return tuple(pieces)


def plain(text: str, longest: int = LONGEST_NAME) -> str:
    """A name for a label: unseen characters named, cut at `longest` characters."""
    named = "".join(piece.text for piece in _named(text[:longest], marked=False))
    return named + "…" if len(text) > longest else named


def merge(spans: Iterable[Span], length: int) -> tuple[Span, ...]:
    """Spans in order, clipped to the text, overlapping and touching ones as one."""
    merged: list[Span] = []
    for start, end in sorted((max(0, start), min(length, end)) for start, end in spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return tuple(merged)


def spans_of(evidence: Iterable[Evidence]) -> list[Span]:
    """Where the detector found something."""
    return [(found.start, found.end) for found in evidence]


def occurrences(text: str, secrets: Iterable[str]) -> list[Span]:
    """Where any of the secrets stands, whatever the case, the blanks between its words and unseen characters in it."""
    kept = [at for at, character in enumerate(text) if not _is_unseen(character)]
    seen = "".join(text[at] for at in kept)
    found: list[Span] = []
    for words in {tuple(secret.split()) for secret in secrets} - {()}:
        pattern = r"\s+".join(map(re.escape, words))
        found += [
            (kept[match.start()], kept[match.end() - 1] + 1) for match in re.finditer(pattern, seen, re.IGNORECASE)
        ]
    return found


def _runs(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    at = 0
    for start, end in spans:
        if at < start:
            yield text[at:start], False
        yield text[start:end], True
        at = end
    if at < len(text):
        yield text[at:], False


def _shown(run: str, marked: bool) -> Iterator[Piece]:
    if len(run) <= LONGEST_RUN:
        yield from _named(run, marked)
        return
    head, tail = LONGEST_RUN * 2 // 3, LONGEST_RUN // 3
    yield from _named(run[:head], marked)
    yield Piece(Role.CUT, f"{len(run) - head - tail:,} characters cut", marked)
    yield from _named(run[-tail:], marked)


def _named(run: str, marked: bool) -> Iterator[Piece]:
    for unseen, group in groupby(run, _is_unseen):
        if not unseen:
            yield Piece(Role.TEXT, "".join(group), marked)
        else:
            yield from (Piece(Role.UNSEEN, f"U+{ord(character):04X}", marked) for character in group)


def _is_unseen(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in _UNSEEN
