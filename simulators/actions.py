"""Simulators: the action grammar of stage 1, and how fields are read from what a model wrote (BIRD-Interact's grammar).

    labeled("term")          the question is about this annotated ambiguity
    unlabeled("fragment")    … about this fragment of the reference SQL, by its number in the list or by its text
    unanswerable()           … to be refused

The grammar is closed: exactly these names, one quoted argument (for `unlabeled` a bare number will do), a target that
exists.
"""

import re
from collections.abc import Iterable, Sequence

from benchmark_core.ports import Action
from benchmark_core.sql.fragments import Fragment
from suites.questions import Kind

_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THINK_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_UNANSWERABLE = re.compile(r"unanswerable\(\s*\)")
_TARGETED = re.compile(r"""(labeled|unlabeled)\(\s*(?:(["'])(?P<quoted>.*)\2|(?P<number>\d+))\s*\)""", re.DOTALL)

_ANY_ACTION = (  # possessive quantifiers, so that no text makes it slow
    r"(?:labeled|unlabeled|unanswerable)\s*+\(\s*+"
    r"""(?:"(?:(?!"\s*+\)).)*+"\s*+|'(?:(?!'\s*+\)).)*+'\s*+|(?:[^()"']|\([^()]*+\))*+)\)"""
)
_ONLY_ACTIONS = re.compile(
    rf"[\W_]*(?:(?:chosen\s+)?action[\W_]*)?(?:{_ANY_ACTION}[\W_]*+)+", re.DOTALL | re.IGNORECASE
)


def parse_action(text: str, terms: Iterable[str], fragments: Sequence[Fragment]) -> Action | None:
    """The action that stage 1 chose; None where the text names none, or several different ones.

    It stands in the last well-formed `<s>…</s>` after any thinking; other fields count only if they hold another valid
    action, and then nothing is chosen. A text that is an action and nothing else counts too: to some tokenizers `<s>`
    and `</s>` are special and vanish. An opening tag without its end is a cut text, and no choice.
    """
    shown = visible(text)
    fields = re.findall(r"<s>((?:(?!</?s>).)*)</s>", shown, re.DOTALL)
    if not fields:
        return _action(shown.strip().removeprefix("<s>").removesuffix("</s>"), tuple(terms), fragments)
    if "<s>" in shown[shown.rindex("</s>") :]:
        return None
    known = tuple(terms)
    last = _action(fields[-1], known, fragments)
    others = {_action(field, known, fragments) for field in fields} - {None}
    return last if others == {last} else None


def _action(text: str, terms: tuple[str, ...], fragments: Sequence[Fragment]) -> Action | None:
    bare = text.strip().strip("`").strip()
    if _UNANSWERABLE.fullmatch(bare):
        return Action(Kind.UNA)
    found = _TARGETED.fullmatch(bare)
    if not found:
        return None
    quoted, number = found["quoted"], found["number"]
    if found[1] == "labeled":
        term = None if quoted is None else _member(quoted, terms)
        return None if term is None else Action(Kind.AMB, term)
    target = (quoted if number is None else number).strip()
    by_number = {str(fragment.number): fragment.text for fragment in fragments}
    fragment = by_number.get(target) or _member(target, [fragment.text for fragment in fragments])
    return None if fragment is None else Action(Kind.LOC, fragment)


def _member(text: str, known: Iterable[str]) -> str | None:
    """The known text that this is, blanks and case aside; an exact match goes first, two candidates are none."""
    known = tuple(dict.fromkeys(known))
    if text in known:
        return text
    alike = [candidate for candidate in known if _folded(candidate) == _folded(text)]
    return alike[0] if len(alike) == 1 else None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def is_only_action(text: str) -> bool:
    """Whether a reply is nothing but actions, of whatever target, tags and punctuation aside."""
    bare = re.sub(r"</?\w+>", " ", visible(text)).strip()
    return bool(_ONLY_ACTIONS.fullmatch(bare) or _TARGETED.fullmatch(bare))


def read_reply(text: str) -> str | None:
    """The reply in what a model wrote; None when there is none.

    It is the last `<reply>…</reply>` after any thinking (a lost closing tag is forgiven: the text is known to be
    complete); without such a field it is the whole text. Nothing is cut off: no stop mark has a meaning here.
    """
    shown = visible(text)
    fields: list[str] = re.findall(r"<reply>((?:(?!</?reply>).)*)</reply>", shown, re.DOTALL)
    reply = fields[-1] if fields else shown.rpartition("<reply>")[2].removesuffix("</reply>")
    return reply.strip() or None


def visible(text: str) -> str:
    """What a model wrote after thinking; nothing of a thought that does not end."""
    said = _THINK_END.split(text)[-1]
    return _THINK_START.split(said)[0]
