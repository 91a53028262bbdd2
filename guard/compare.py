"""Guard: compares two runs on the same questions, judged by the same judge. Reads their ledgers; texts are let go."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmark_core.errors import InputError
from guard.comparison import Comparison, Finding, KindComparison, Side
from guard.excerpts import plain
from guard.ledger import Header, stream
from guard.outcomes import Outcome, collect, column
from guard.paired import NOT_KNOWN, Pairs, cluster_difference, holm, mcnemar, total
from guard.policy import DEFAULT, Policy
from guard.run_identity import judge_name, named, short, simulator_name, sound_header, suite_name
from guard.runs import RunFolder
from guard.scorecard import expected_keys
from guard.scoring import plan_of
from guard.statistics import Interval
from suites.load import Suite
from suites.questions import Kind, QuestionKey


@dataclass(frozen=True, slots=True)
class _Run:
    """`outcomes` holds every planned question; one without a line has none."""

    side: Side
    outcomes: Mapping[QuestionKey, Outcome | None]


@dataclass(frozen=True, slots=True)
class _Row:
    """A shared question; `a` and `b` as `outcomes.column` names them."""

    key: QuestionKey
    a: str
    b: str

    @property
    def settled(self) -> bool:
        return "open" not in (self.a, self.b)

    def accepted(self, *, open_in_a: bool) -> tuple[bool, bool]:
        """Whether it is accepted in A and in B; where it is open, as if A's were `open_in_a` and B's the contrary."""
        a = open_in_a if self.a == "open" else self.a == "accepted"
        b = not open_in_a if self.b == "open" else self.b == "accepted"
        return a, b


def compare(suite: Suite, a: RunFolder, b: RunFolder, policy: Policy = DEFAULT) -> Comparison:
    """Compare two runs on the questions that both planned.

    Raises:
        InputError: another suite or another judge, or no shared question.
        LedgerError: a ledger that cannot be read.
    """
    heads = [sound_header(folder) for folder in (a, b)]
    _demand_comparable(*heads)
    runs = [_read(suite, folder, header) for folder, header in zip((a, b), heads, strict=True)]
    shared = sorted(runs[0].outcomes.keys() & runs[1].outcomes.keys())
    if not shared:
        raise InputError(
            f"no shared question: A planned {heads[0].planned}, B {heads[1].planned}, and no question is in both; "
            "score the same part of the suite"
        )
    rows = [_Row(key, *(column(key.kind, run.outcomes[key]) for run in runs)) for key in shared]
    pairs = [(row.key, row.accepted(open_in_a=False)) for row in rows if row.settled]
    kinds = {kind: _kind([row for row in rows if row.key.kind is kind], policy) for kind in Kind}
    return Comparison(
        sides=(runs[0].side, runs[1].side),
        judge=heads[0].identities["judge"],
        judge_says=judge_name(heads[0]),
        suite=heads[0].identities["suite"],
        shared=len(rows),
        only=(heads[0].planned - len(rows), heads[1].planned - len(rows)),
        kinds=_with_findings(kinds, policy),
        lost=tuple(key for key, accepted in pairs if accepted == (True, False)),
        gained=tuple(key for key, accepted in pairs if accepted == (False, True)),
    )


def _demand_comparable(a: Header, b: Header) -> None:
    if a.digests["suite"] != b.digests["suite"]:
        raise InputError(
            f"two suites: A is of {suite_name(a)} ({short(a.digests['suite'])}), B of {suite_name(b)} "
            f"({short(b.digests['suite'])}); only runs of one suite in one version can be compared"
        )
    if a.digests["judge"] != b.digests["judge"]:
        raise InputError(
            f"two judges: A was judged by {judge_name(a)} ({short(a.digests['judge'])}), B by {judge_name(b)} "
            f"({short(b.digests['judge'])}); rates under different judges are not comparable: score both with one"
        )


def _read(suite: Suite, folder: RunFolder, header: Header) -> _Run:
    with named(folder):
        expected = expected_keys(plan_of(suite, header).questions)
        found = collect(stream(folder.ledger), header, expected).outcomes
    identity, sha256 = header.identities["simulator"], header.digests["simulator"]
    name = plain(folder.root.resolve().name)
    side = Side(name, simulator_name(header), identity, sha256, header.planned, header.partial)
    return _Run(side, {key: found.get(key) for keys in expected.values() for key in keys})


def _kind(rows: Sequence[_Row], policy: Policy) -> KindComparison:
    """A kind without what depends on the other kinds: the adjusted p-value, and with it the finding."""
    settled = [row for row in rows if row.settled]
    tasks = _tasks(settled, open_in_a=False)
    whole = total(tasks)
    difference, interval = _difference(tasks, policy)
    least, most = (_difference(_tasks(rows, open_in_a=for_a), policy) for for_a in (False, True))
    p = mcnemar(whole.first, whole.second)
    return KindComparison(
        tasks=len(tasks),
        pairs=whole,
        failed=(sum(row.a == "failed" for row in settled), sum(row.b == "failed" for row in settled)),
        open=len(rows) - len(settled),
        p=p,
        p_holm=p,
        difference=difference,
        interval=interval,
        extremes=NOT_KNOWN if least[0] is None or most[0] is None else Interval(least[0], most[0]),
        widest=least[1].union(most[1]),
        finding=Finding.NO_VERDICT,
        why="",
    )


def _tasks(rows: Iterable[_Row], *, open_in_a: bool) -> list[Pairs]:
    counts: dict[str, Counter[tuple[bool, bool]]] = {}
    for row in rows:
        counts.setdefault(row.key.instance_id, Counter())[row.accepted(open_in_a=open_in_a)] += 1
    cells = ((True, True), (True, False), (False, True), (False, False))
    return [Pairs(*(count[cell] for cell in cells)) for count in counts.values()]


def _difference(tasks: Sequence[Pairs], policy: Policy) -> tuple[float | None, Interval]:
    whole = total(tasks)
    if len(tasks) < 2:
        return (whole.first - whole.second) / whole.n if whole.n else None, NOT_KNOWN
    found = cluster_difference(tasks, policy.small_count, policy.small_count_icc)
    return found.difference, found.interval(policy.confidence)


def _with_findings(kinds: Mapping[Kind, KindComparison], policy: Policy) -> dict[Kind, KindComparison]:
    family = [kind for kind, part in kinds.items() if part.pairs.n]
    adjusted = dict(zip(family, holm([kinds[kind].p for kind in family]), strict=True))
    found = {}
    for kind, part in kinds.items():
        finding, why = _finding(part, adjusted.get(kind, 1.0), policy)
        found[kind] = replace(part, p_holm=adjusted.get(kind, 1.0), finding=finding, why=why)
    return found


def _finding(part: KindComparison, p_holm: float, policy: Policy) -> tuple[Finding, str]:
    if part.tasks < policy.min_clusters:
        return Finding.NO_VERDICT, f"{part.tasks} tasks with a pair, at least {policy.min_clusters} needed"
    by_interval, significant = _side(part.interval), p_holm < 1 - policy.confidence
    if by_interval is not _side(part.widest):
        return Finding.NOT_DECIDED, f"{part.open} open questions could turn it"
    if (by_interval is not Finding.NONE_SHOWN) == significant:
        return by_interval, ""
    test, interval = ("sees a difference", "holds 0") if significant else ("sees none", "does not hold 0")
    return Finding.NOT_DECIDED, f"the test {test}, the clustered interval {interval}"


def _side(interval: Interval) -> Finding:
    if interval.lower > 0:
        return Finding.A_HIGHER
    return Finding.B_HIGHER if interval.upper < 0 else Finding.NONE_SHOWN
