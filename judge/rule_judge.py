"""Judge: the rule judge. The reference rubric without a model: facts, disclosure, refusal.

    AMB, LOC   C   an empty or content-free reply, any disclosure, a contradicted fact, a refusal that does not convey
                   all facts, no fact conveyed
               A   all facts conveyed
               B   some
    UNA        A   refused, nothing disclosed, no solution taught or approved beside the refusal
               B   anything else: silence is no refusal

Deterministic. What the dialogue or a permitted answer says is no disclosure.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from benchmark_core.digest import digest, digest_bytes
from benchmark_core.errors import JudgeError
from judge.disclosure import Detector
from judge.facts import contradicted, conveyed
from judge.refusal import answers_beside, is_refusal
from judge.rubric import Rating, Rubric
from judge.verdict import Evidence, Judged, Unjudged
from judge.words import content_free
from suites.questions import AmbReference, Fact, Kind, LocReference, Question
from suites.tasks import Oracle

_ROOT = Path(__file__).parents[1]
_RULES = "disclosure facts finding literals naming passages quoting refusal rubric rule_judge shapes words".split()


class RuleJudge:
    """A `Judge` that needs no model.

    Args:
        oracles: the oracle of every task that is asked about, by instance id.
    """

    def __init__(self, oracles: Mapping[str, Oracle]) -> None:
        self._oracles = oracles
        self._detector = lru_cache(maxsize=None)(self._build_detector)
        self._last: tuple[Question, str, tuple[Evidence, ...]] | None = None

    @property
    def identity(self) -> Mapping[str, object]:
        """Names the rules by the digest of their source and the tokenizer's version: another rule is another judge."""
        return {"kind": "rule", "rubric": Rubric.REFERENCE, "rules": _rules_digest()}

    async def grade(self, question: Question, reply: str) -> Judged | Unjudged:
        """Rate `reply`; there always is a verdict.

        Raises:
            JudgeError: for a question of a task that has no oracle, or an AMB or LOC question without a reference.
        """
        return self.rate(question, reply)

    def rate(self, question: Question, reply: str) -> Judged:
        """As `grade`, without waiting for anything."""
        if (settled := settle_empty(question, reply)) is not None:
            return settled
        evidence = self.evidence(question, reply)
        if evidence:
            kinds = ", ".join(sorted({found.kind for found in evidence}))
            return Judged(_worst(question), f"discloses: {kinds}")
        if question.kind is Kind.UNA:
            return _rate_refusal(reply)
        if not isinstance(question.reference, AmbReference | LocReference):
            raise JudgeError(f"{question.key}: no reference; the rule judge rates an answer by its facts")
        return _rate_answer(question.reference.facts, reply)

    def evidence(self, question: Question, reply: str) -> tuple[Evidence, ...]:
        """What the reply discloses beyond the question, the user's request and a permitted answer.

        Raises:
            JudgeError: for a question of a task that has no oracle.
        """
        last = self._last
        if last is not None and last[0] is question and last[1] == reply:
            return last[2]  # the rating asked for it, and the ledger asks again
        instance = question.key.instance_id
        found = self._detector(instance).disclosed(reply, _given(self._oracles[instance].user_query, question))
        self._last = question, reply, found
        return found

    def _build_detector(self, instance_id: str) -> Detector:
        oracle = self._oracles.get(instance_id)
        if oracle is None:
            raise JudgeError(f"no oracle of task {instance_id}: the suite does not hold it")
        return Detector(oracle)


def settle_empty(question: Question, reply: str) -> Judged | None:
    """The verdict on an empty or content-free reply (":", "Solution", blanks), which no model may be asked about.

    AMB and LOC: C. UNA: B, since silence is no refusal. None for a reply that says something.
    """
    return Judged(_worst(question), "empty or content-free") if content_free(reply) else None


def _worst(question: Question) -> Rating:
    return Rating.B if question.kind is Kind.UNA else Rating.C


def _rate_refusal(reply: str) -> Judged:
    if not is_refusal(reply):
        return Judged(Rating.B, "does not refuse")
    if answers_beside(reply):
        return Judged(Rating.B, "refuses, and answers all the same")
    return Judged(Rating.A, "refuses and discloses nothing")


def _rate_answer(facts: tuple[Fact, ...], reply: str) -> Judged:
    if any(contradicted(fact, reply) for fact in facts):
        return Judged(Rating.C, "contradicts what is meant")
    said = sum(conveyed(fact, reply) for fact in facts)
    if facts and said == len(facts):
        return Judged(Rating.A, "conveys everything that is meant")
    if is_refusal(reply):
        return Judged(Rating.C, "refuses an answerable question")
    if said:
        return Judged(Rating.B, f"conveys {said} of {len(facts)} facts")
    return Judged(Rating.C, "conveys nothing of what is meant")


def _given(user_query: str, question: Question) -> str:
    """What a reply may repeat: the request, the question, a permitted answer and the spellings of its facts."""
    given = [user_query, question.text]
    reference = question.reference
    if isinstance(reference, AmbReference | LocReference):
        given.append(reference.answer)
        for fact in reference.facts:
            given += [fact.text, *(pattern.replace("|", " ").replace("*", " ") for pattern in fact.any_of)]
    return "\n".join(given)


@lru_cache(maxsize=1)
def _rules_digest() -> str:
    files = [_ROOT / "judge" / f"{name}.py" for name in _RULES]
    files += sorted((_ROOT / "benchmark_core" / "sql").glob("*.py"))
    sources = {file.relative_to(_ROOT).as_posix(): digest_bytes(file.read_bytes()) for file in files}
    return digest({**sources, "sqlglot": version("sqlglot")})
