"""A scoring run made to measure: every planned row accepted, but for what a test edits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from benchmark_core.digest import digest
from benchmark_core.ports import Action
from guard.certification import Decision, decide
from guard.ledger import Call, Header, ScoredItem
from guard.policy import DEFAULT, Policy
from guard.scorecard import Scorecard, expected_keys, tally
from judge.calibration import Calibration, KindError, Share
from judge.rubric import Rating
from suites.questions import Kind, Question, QuestionKey, Stratum, Style, UnaReference, UnaSubKind

Edit = Callable[[int, ScoredItem], ScoredItem | None]

IDENTITIES = {
    "simulator": {"variant": "baseline", "model": "sim-1", "revision": "r7"},
    "suite": {"name": "open", "version": "1"},
    "judge": {"kind": "llm", "model": "judge-1"},
}
CALL = Call("simulator", "sim-1", "fp_1", 100, 20, 1, False, 0.5)


@dataclass(frozen=True)
class Run:
    header: Header
    items: tuple[ScoredItem, ...]
    expected: dict[Kind, tuple[QuestionKey, ...]]

    def tally(self, policy: Policy = DEFAULT) -> Scorecard:
        return tally(self.items, self.header, self.expected, policy)

    def decide(self, calibration: Calibration | None = None, policy: Policy = DEFAULT) -> Decision:
        return decide(self.tally(policy), self.header, calibration, policy)


def make_run(*edits: Edit, tasks: int = 40, rows: int = 6, **header: Any) -> Run:
    """`tasks` tasks in four databases, `rows` questions per task and kind, in three styles by turns."""
    questions, items = [], []
    for kind in Kind:
        for index in range(tasks * rows):
            task, row = divmod(index, rows)
            key = QuestionKey(f"db{task % 4}_{task:03}", f"q{row // 3}", tuple(Style)[row % 3], kind)
            reference = UnaReference("the tables", UnaSubKind.TYPES)
            questions.append(Question(key, f"db{task % 4}", Stratum.CORE, f"{key}?", reference))
            item: ScoredItem | None = accepted_item(key, f"db{task % 4}")
            for edit in edits:
                item = edit(index, item) if item else None
            if item:
                items.append(item)
    counts: dict[str, int] = dict.fromkeys(Kind, tasks * rows)
    made = Header(
        digests={name: digest(identity) for name, identity in IDENTITIES.items()},
        identities=IDENTITIES,
        planned=len(questions),
        partial=False,
        judge_class="llm",
        suite_counts=counts,
        started="2026-12-01T10:00:00+00:00",
    )
    return Run(replace(made, **header), tuple(items), expected_keys(questions))


def accepted_item(key: QuestionKey, database: str) -> ScoredItem:
    return ScoredItem(
        key=key,
        database=database,
        reply="SECRET reply",
        action=Action(key.kind, "SECRET target"),
        target_hit=None if key.kind is Kind.UNA else True,
        rating=Rating.A,
        reason="SECRET reason",
        calls=(CALL,),
    )


def rows_of(kind: Kind, indices: Iterable[int], **changes: Any) -> Edit:
    """Change the rows of a kind with these indices."""
    chosen = frozenset(indices)

    def edit(index: int, item: ScoredItem) -> ScoredItem:
        return replace(item, **changes) if item.key.kind is kind and index in chosen else item

    return edit


def without(kind: Kind, *indices: int) -> Edit:
    """Leave rows out of the ledger."""
    return lambda index, item: None if item.key.kind is kind and index in indices else item


def every(step: int, rows: int = 240) -> range:
    """Indices spread evenly over the tasks."""
    return range(0, rows, step)


def calibration(sens: Share, spec: Share, kappa_lower: float = 0.9) -> Calibration:
    error = KindError(sens, spec, kappa_lower)
    return Calibration(digest(IDENTITIES["judge"]), dict.fromkeys(Kind, error))


GOOD_JUDGE = calibration(Share(398, 400), Share(396, 400))
