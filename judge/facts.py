"""Judge: whether a reply conveys a fact. The pattern language of datasets/README.md, over normalised words.

Nothing of the data becomes a regular expression, so no pattern can make matching slow: each term costs time linear in
the reply. Reply and patterns pass through the same normalisation, so that "sign-up" or "1,000" in a pattern means what
it means in a reply.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from judge.words import normalise
from suites.questions import Fact

_DENIALS = {"not", "isnt", "arent", "wasnt", "dont", "doesnt", "didnt", "never", "without", "no", "nor"}
_DENIAL_PHRASES = (("rather", "than"), ("instead", "of"), ("opposed", "to"))
_FILLERS = {"the", "a", "an", "any", "my", "our", "their", "its", "by", "in", "of", "per", "on", "for", "from", "as"}
_FILLERS |= {"mean", "want", "use", "be", "it", "within", "with", "about"}


@dataclass(frozen=True, slots=True)
class _Form:
    """One spelling of a term: consecutive words, the last of them perhaps only the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool

    def places(self, words: Sequence[str]) -> Iterable[int]:
        *first, last = self.words
        n = len(first)
        for i in range(n, len(words)):
            ends = words[i].startswith(last) if self.prefix else words[i] == last
            if ends and list(words[i - n : i]) == first:
                yield i - n


@dataclass(frozen=True, slots=True)
class _Term:
    forms: tuple[_Form, ...]
    negative: bool


def conveyed(fact: Fact, text: str) -> bool:
    """Whether `text` conveys the fact: all terms of at least one of its patterns occur."""
    words = normalise(text)
    return any(_matches(pattern, words, denied=frozenset()) for pattern in fact.any_of)


def contradicted(fact: Fact, text: str) -> bool:
    """Whether `text` says what contradicts the fact.

    What a reply turns down does not contradict: in "net, not gross" and "90 days rather than 30" the word that directly
    follows the denial does not count. A pattern that speaks of denial itself ("not net") is taken literally.
    """
    words = normalise(text)
    denied = _denied(words)
    return any(_matches(p, words, frozenset() if _speaks_of_denial(p) else denied) for p in fact.none_of)


def _matches(pattern: str, words: Sequence[str], denied: frozenset[int]) -> bool:
    """Whether every term occurs (or does not, after `!`) at a place that is not denied."""
    terms = _terms(pattern)
    return bool(terms) and all(
        term.negative != any(i not in denied for form in term.forms for i in form.places(words)) for term in terms
    )


@lru_cache(maxsize=65536)
def _terms(pattern: str) -> tuple[_Term, ...]:
    return tuple(term for written in pattern.split() if (term := _term(written)).forms)


def _term(written: str) -> _Term:
    negative = written.startswith("!")
    forms = []
    for word in written.removeprefix("!").split("|"):
        words = normalise(word.removesuffix("*"))
        if words:
            forms.append(_Form(words, word.endswith("*")))
    return _Term(tuple(forms), negative)


def _speaks_of_denial(pattern: str) -> bool:
    return any(
        word in _DENIALS for term in _terms(pattern) if not term.negative for form in term.forms for word in form.words
    )


def _denied(words: Sequence[str]) -> frozenset[int]:
    """Places of the words that a denial directly turns down, articles and prepositions aside."""
    found = []
    for i, word in enumerate(words):
        after = i + 2 if tuple(words[i : i + 2]) in _DENIAL_PHRASES else i + 1 if word in _DENIALS else None
        if after is None:
            continue
        while after < len(words) and words[after] in _FILLERS:
            after += 1
        found.append(after)
    return frozenset(found)
