"""Guard: counts a run. From ledger lines to a frozen scorecard; rates and intervals, no decision.

Every planned row counts: one without a reply is not accepted, one without a verdict or without a line is open.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmark_core.digest import digest
from benchmark_core.errors import LedgerError
from guard.bounds import OUTCOMES, Cell, Gate, gate, plain_interval, total, whole_tasks
from guard.ledger import Call, Header, ScoredItem, latest
from guard.policy import DEFAULT, Policy
from guard.statistics import Interval
from judge.rubric import accepted
from suites.questions import Kind, Question, QuestionKey

SCHEMA = "usersim-guard/scorecard/1"
NO_ACTION = "no action"
UNKNOWN_DATABASE = "unknown"  # of a task without any line in the ledger
Expected = Mapping[Kind, Sequence[QuestionKey]]


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
class Usage:
    """Model calls of one role, over all attempts.

    Attributes:
        requests: HTTP requests sent. `uncounted`: calls whose tokens the server did not count.
        models: "model" or "model @ fingerprint", as the server named them -> calls.
    """

    calls: int
    cached: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    uncounted: int
    models: Mapping[str, int]


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
    item: ScoredItem | None

    @property
    def outcome(self) -> str:
        """The field of `Cell` that counts this row."""
        if self.item is None or self.item.unjudged is not None:
            return "open"
        if self.item.rating is None:
            return "failed"
        return "accepted" if accepted(self.key.kind, self.item.rating) else "rejected"


def expected_keys(questions: Iterable[Question]) -> dict[Kind, tuple[QuestionKey, ...]]:
    """The keys of a plan's questions by kind, as `tally` wants them."""
    keys = sorted(question.key for question in questions)
    return {kind: tuple(key for key in keys if key.kind is kind) for kind in Kind}


def tally(items: Iterable[ScoredItem], header: Header, expected: Expected, policy: Policy = DEFAULT) -> Scorecard:
    """Count a run; the order of the items does not matter, and of each key the last attempt counts.

    Args:
        expected: the planned questions. One without an item is counted as missing.

    Raises:
        LedgerError: the same attempt twice, an item that was not planned, a rating that is not on its kind's menu, a
            task in two databases, or a plan that is not the header's.
    """
    lines = tuple(items)
    _refuse(lines, header, expected)
    last = latest(lines)
    databases = {item.key.instance_id: item.database for item in lines}
    kinds = {}
    for kind in Kind:
        keys = sorted(expected.get(kind, ()))
        rows = [_Row(key, databases.get(key.instance_id, UNKNOWN_DATABASE), last.get(key)) for key in keys]
        kinds[kind] = _kind_score(kind, rows, policy)
    calls = [call for item in lines for call in item.calls]
    roles = sorted({call.role for call in calls})
    usage = {role: _usage([call for call in calls if call.role == role]) for role in roles}
    return Scorecard(dict(sorted(header.digests.items())), kinds, usage)


def _refuse(lines: Sequence[ScoredItem], header: Header, expected: Expected) -> None:
    planned = [key for keys in expected.values() for key in keys]
    if len(planned) != header.planned or len(set(planned)) != len(planned):
        raise LedgerError(f"the run planned {header.planned} questions, {len(set(planned))} are given: another plan")
    if misplaced := [key for kind, keys in expected.items() for key in keys if key.kind is not kind]:
        raise LedgerError(f"expected under {misplaced[0].kind}: {misplaced[0]}")
    repeats = [line for line, count in Counter((item.key, item.attempt) for item in lines).items() if count > 1]
    if repeats:
        raise LedgerError(f"attempt {min(repeats)[1]} of {min(repeats)[0]} stands twice")
    known, databases = set(planned), dict[str, str]()
    for item in lines:
        if item.key not in known:
            raise LedgerError(f"not planned: {item.key}")
        if databases.setdefault(item.key.instance_id, item.database) != item.database:
            raise LedgerError(f"task {item.key.instance_id} stands in two databases")
        if item.rating is not None:
            try:
                accepted(item.key.kind, item.rating)
            except ValueError as error:
                raise LedgerError(f"{item.key}: {error}") from None


def _kind_score(kind: Kind, rows: Sequence[_Row], policy: Policy) -> KindScore:
    tasks = _cells(rows, lambda row: row.key.instance_id)
    whole = total(kind, tasks)
    items = [row.item for row in rows if row.item is not None]
    right = [item.target_hit for item in items if item.action and item.action.kind is kind]
    disclosing = [item for item in items if item.evidence]
    return KindScore(
        total=whole,
        ratings=_count(item.rating for item in items),
        unjudged=_count(item.unjudged for item in items),
        failures=_count(item.failure for item in items),
        missing=len(rows) - len(items),
        retried=sum(item.attempt > 1 for item in items),
        rate=whole.accepted / whole.rows if rows else None,
        best_rate=(whole.accepted + whole.open) / whole.rows if rows else None,
        gate=gate(tasks, policy),
        plain=plain_interval(whole, policy.confidence),
        by_database=gate(_cells(rows, lambda row: row.database), policy).interval,
        whole_tasks=whole_tasks(tasks, policy.confidence),
        chosen=_count(item.action.kind if item.action else NO_ACTION for item in items),
        targets=(right.count(True), len(right) - right.count(None)),
        evidence={"any": len(disclosing)} | _count(found for i in disclosing for found in {e.kind for e in i.evidence}),
        rejected_with_evidence=sum(row.outcome == "rejected" and bool(row.item and row.item.evidence) for row in rows),
        tasks=tasks,
        databases=_slices(rows, lambda row: row.database, policy),
        styles=_slices(rows, lambda row: row.key.style, policy),
    )


def _cells(rows: Sequence[_Row], group: Callable[[_Row], str]) -> tuple[Cell, ...]:
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row)
    outcomes = {name: Counter(row.outcome for row in groups[name]) for name in sorted(groups)}
    return tuple(Cell(name, *(count[field] for field in OUTCOMES)) for name, count in outcomes.items())


def _slices(rows: Sequence[_Row], group: Callable[[_Row], str], policy: Policy) -> tuple[Slice, ...]:
    found = []
    for name in sorted({group(row) for row in rows}):
        tasks = _cells([row for row in rows if group(row) == name], lambda row: row.key.instance_id)
        found.append(Slice(total(name, tasks), gate(tasks, policy).interval))
    return tuple(found)


def _count(values: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(str(value) for value in values if value is not None).items()))


def _usage(calls: Sequence[Call]) -> Usage:
    named = (_printable(f"{c.model} @ {c.system_fingerprint}" if c.system_fingerprint else c.model) for c in calls)
    return Usage(
        calls=len(calls),
        cached=sum(call.cached for call in calls),
        requests=sum(call.attempts for call in calls),
        prompt_tokens=sum(call.prompt_tokens or 0 for call in calls),
        completion_tokens=sum(call.completion_tokens or 0 for call in calls),
        uncounted=sum(call.prompt_tokens is None or call.completion_tokens is None for call in calls),
        models=_count(named),
    )


def _printable(name: str) -> str:
    """A server chose it: no control characters, and too short to carry a reply."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:160])
