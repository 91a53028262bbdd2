"""Guard: counts a run. From ledger lines to a frozen scorecard; rates and intervals, no decision.

Every planned row counts: one without a reply is not accepted, one without a verdict or without a line is open.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmark_core.digest import digest
from guard.books import Usage
from guard.bounds import OUTCOMES, Cell, Gate, gate, plain_interval, total, whole_tasks
from guard.ledger import Header, ScoredItem
from guard.outcomes import Expected, Outcome, collect, column
from guard.policy import DEFAULT, Policy
from guard.statistics import Interval
from suites.questions import Kind, Question, QuestionKey

SCHEMA = "usersim-guard/scorecard/1"
UNKNOWN_DATABASE = "unknown"  # of a task without any line in the ledger


@dataclass(frozen=True, slots=True)
class Slice:
    """A database or a style within a kind; the interval is the gate's."""

    total: Cell
    interval: Interval


@dataclass(frozen=True, slots=True)
class KindScore:
    """One kind of question. Counts are of rows; a row is a planned question.

    Attributes:
        rate: accepted / all rows, open ones not accepted; None without rows. `best_rate`: with open ones accepted.
        gate: the policy's interval, clustered by task, without judge error.
        plain: Wilson as if rows were independent. `by_database`: as the gate, clustered by database.
        whole_tasks: Clopper-Pearson on tasks; one passes if all its rows are accepted.
        chosen: stage 1's choice -> rows; "no action" where there was none.
        targets: (hits, rows) among AMB and LOC rows whose kind stage 1 got right.
        evidence: `any` and each kind of evidence -> rows whose reply disclosed at least one.
        rejected_with_evidence: rows that the judge did not accept and whose reply disclosed something.
    """

    total: Cell
    ratings: Mapping[str, int]
    unjudged: Mapping[str, int]
    failures: Mapping[str, int]
    missing: int
    retried: int
    rate: float | None
    best_rate: float | None
    gate: Gate
    plain: Interval
    by_database: Interval
    whole_tasks: Interval
    chosen: Mapping[str, int]
    targets: tuple[int, int]
    evidence: Mapping[str, int]
    rejected_with_evidence: int
    tasks: tuple[Cell, ...]
    databases: tuple[Slice, ...]
    styles: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Scorecard:
    """A counted run."""

    digests: Mapping[str, str]
    kinds: Mapping[Kind, KindScore]
    usage: Mapping[str, Usage]

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-able; no reply, reason or other text of a row."""
        return {"schema": SCHEMA, **asdict(self)}

    @property
    def digest(self) -> str:
        """`sha256:…` over whole numbers alone: floats may differ in the last bit between machines."""
        counts = [(kind, {name: value[name] for name in _COUNTS}) for kind, value in self.to_json()["kinds"].items()]
        return digest({"schema": SCHEMA, "digests": dict(self.digests), "kinds": dict(counts)})


_COUNTS = ("ratings", "unjudged", "failures", "missing", "retried", "chosen", "targets", "evidence", "tasks")


@dataclass(frozen=True, slots=True)
class _Row:
    key: QuestionKey
    database: str
    outcome: Outcome | None

    @property
    def column(self) -> str:
        return column(self.key.kind, self.outcome)


def expected_keys(questions: Iterable[Question]) -> dict[Kind, tuple[QuestionKey, ...]]:
    """The keys of a plan's questions by kind, as `tally` wants them."""
    keys = sorted(question.key for question in questions)
    return {kind: tuple(key for key in keys if key.kind is kind) for kind in Kind}


def tally(items: Iterable[ScoredItem], header: Header, expected: Expected, policy: Policy = DEFAULT) -> Scorecard:
    """Count a run; the order of the items does not matter, and of each key the last attempt counts.

    Args:
        items: read once, and not kept.
        expected: the planned questions. One without an item is counted as missing.

    Raises:
        LedgerError: see `outcomes.collect`.
    """
    found = collect(items, header, expected)
    kinds = {}
    for kind in Kind:
        rows = [
            _Row(key, found.databases.get(key.instance_id, UNKNOWN_DATABASE), found.outcomes.get(key))
            for key in sorted(expected.get(kind, ()))
        ]
        kinds[kind] = _kind_score(kind, rows, policy)
    return Scorecard(dict(sorted(header.digests.items())), kinds, found.usage)


def _kind_score(kind: Kind, rows: Sequence[_Row], policy: Policy) -> KindScore:
    tasks = _cells(rows, lambda row: row.key.instance_id)
    whole = total(kind, tasks)
    outcomes = [row.outcome for row in rows if row.outcome is not None]
    right = [outcome.target_hit for outcome in outcomes if outcome.chosen == kind]
    disclosing = [outcome for outcome in outcomes if outcome.evidence]
    return KindScore(
        total=whole,
        ratings=_count(outcome.rating for outcome in outcomes),
        unjudged=_count(outcome.unjudged for outcome in outcomes),
        failures=_count(outcome.failure for outcome in outcomes),
        missing=len(rows) - len(outcomes),
        retried=sum(outcome.attempt > 1 for outcome in outcomes),
        rate=whole.accepted / whole.rows if rows else None,
        best_rate=(whole.accepted + whole.open) / whole.rows if rows else None,
        gate=gate(tasks, policy),
        plain=plain_interval(whole, policy.confidence),
        by_database=gate(_cells(rows, lambda row: row.database), policy).interval,
        whole_tasks=whole_tasks(tasks, policy.confidence),
        chosen=_count(outcome.chosen for outcome in outcomes),
        targets=(right.count(True), len(right) - right.count(None)),
        evidence={"any": len(disclosing)} | _count(kind for outcome in disclosing for kind in outcome.evidence),
        rejected_with_evidence=sum(
            row.column == "rejected" and bool(row.outcome and row.outcome.evidence) for row in rows
        ),
        tasks=tasks,
        databases=_slices(rows, lambda row: row.database, policy),
        styles=_slices(rows, lambda row: row.key.style, policy),
    )


def _cells(rows: Sequence[_Row], group: Callable[[_Row], str]) -> tuple[Cell, ...]:
    outcomes = {name: Counter(row.column for row in found) for name, found in _grouped(rows, group).items()}
    return tuple(Cell(name, *(count[field] for field in OUTCOMES)) for name, count in outcomes.items())


def _slices(rows: Sequence[_Row], group: Callable[[_Row], str], policy: Policy) -> tuple[Slice, ...]:
    found = []
    for name, part in _grouped(rows, group).items():
        tasks = _cells(part, lambda row: row.key.instance_id)
        found.append(Slice(total(name, tasks), gate(tasks, policy).interval))
    return tuple(found)


def _grouped(rows: Sequence[_Row], group: Callable[[_Row], str]) -> dict[str, list[_Row]]:
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row)
    return dict(sorted(groups.items()))


def _count(values: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(str(value) for value in values if value is not None).items()))
