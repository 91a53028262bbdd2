"""Guard: the decision. From a scorecard, a judge's calibration and a policy to a pass or a refusal with its reasons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmark_core.errors import SimulatorFailure
from guard.bounds import Cell, Gate, corrected_gate
from guard.bounds import gate as plain_gate
from guard.ledger import Header
from guard.policy import Policy
from guard.reasons import Class, ClassCode, Code, Reason
from guard.scorecard import KindScore, Scorecard
from guard.statistics import Interval, Status, Verdict, against_floor, rows_to_decide
from judge.calibration import Calibration, KindError
from suites.questions import Kind

Found = tuple[Code, str]


@dataclass(frozen=True, slots=True)
class KindDecision:
    """What one kind shows.

    Attributes:
        interval: the gate's, with judge error where the judge is calibrated.
        corrected: share corrected for judge error, open rows apart; None where the judge has no calibration.
        published: whether the published point rule (rate >= floor) holds; information, not the decision.
    """

    floor: float
    rate: float | None
    interval: Interval
    corrected: float | None
    n_eff: float | None
    verdict: Verdict
    published: bool


@dataclass(frozen=True, slots=True)
class Pass:
    """All three kinds reach their floors for certain. `provisional` is empty for class `full`."""

    kinds: Mapping[Kind, KindDecision]
    provisional: tuple[ClassCode, ...]

    @property
    def certificate_class(self) -> Class:
        return Class.PROVISIONAL if self.provisional else Class.FULL

    @property
    def verdict(self) -> Verdict:
        return Verdict.PASS

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """No certificate. `verdict` is `fail` when a kind is below its floor for certain, else `not_decided`."""

    kinds: Mapping[Kind, KindDecision]
    provisional: tuple[ClassCode, ...]
    verdict: Verdict
    reasons: tuple[Reason, ...]

    @property
    def certificate_class(self) -> Class:
        return Class.REFUSED


Decision = Pass | Refusal


def decide(scorecard: Scorecard, header: Header, calibration: Calibration | None, policy: Policy) -> Decision:
    """Decide on a certificate.

    Raises:
        InputError: the calibration is of another judge than the run's.
    """
    if calibration is not None:
        calibration.require_judge(header.digests["judge"])
    reasons, kinds = _partial(scorecard, header), dict[Kind, KindDecision]()
    for kind, score in scorecard.kinds.items():
        kinds[kind], found = _decide_kind(kind, score, calibration.kinds[kind] if calibration else None, policy)
        reasons += found
    provisional = _provisional(header, calibration, policy)
    if not reasons:
        return Pass(kinds, provisional)
    partial = any(reason.code is Code.PARTIAL_RUN for reason in reasons)
    failed = not partial and any(decision.verdict is Verdict.FAIL for decision in kinds.values())
    return Refusal(kinds, provisional, Verdict.FAIL if failed else Verdict.NOT_DECIDED, tuple(reasons))


def _partial(scorecard: Scorecard, header: Header) -> list[Reason]:
    if header.partial:
        return [Reason(Code.PARTIAL_RUN, None, "the run was started as a partial one")]
    reasons = []
    for kind, score in scorecard.kinds.items():
        rows, whole = score.total.rows, header.suite_counts.get(kind, 0)
        if rows == 0 or rows > whole or (rows < whole and not header.excluded_tasks):
            reasons.append(Reason(Code.PARTIAL_RUN, kind, f"{rows} rows planned of {whole} in the suite"))
    return reasons


def _decide_kind(
    kind: Kind, score: KindScore, error: KindError | None, policy: Policy
) -> tuple[KindDecision, list[Reason]]:
    floor = policy.floors[kind]
    gate = _gate(score.tasks, error, policy)
    doubts = [*_judge_doubts(error, gate, policy), *_few_tasks(score, policy)]
    verdict = Verdict.NOT_DECIDED if doubts else against_floor(gate.interval, floor)
    found = [*_gaps(score, policy), *doubts]
    if not doubts:
        found += _interval_reasons(score, gate, verdict, floor, policy if error is None else None)
    if not doubts and _rank(verdict) < _rank(_without_failures(score, error, floor, policy)):
        found += [(_SIMULATOR[cause], f"{count} rows without a reply") for cause, count in score.failures.items()]
    decision = KindDecision(
        floor=floor,
        rate=score.rate,
        interval=gate.interval,
        corrected=gate.theta,
        n_eff=gate.estimate.n_eff if gate.estimate else None,
        verdict=verdict,
        published=score.rate is not None and score.rate >= floor,
    )
    return decision, [Reason(code, kind, detail) for code, detail in found]


def _gate(cells: Sequence[Cell], error: KindError | None, policy: Policy) -> Gate:
    return plain_gate(cells, policy) if error is None else corrected_gate(cells, error, policy)


def _gaps(score: KindScore, policy: Policy) -> Iterator[Found]:
    if score.missing:
        yield Code.INCOMPLETE_RUN, f"{score.missing} of {score.total.rows} rows missing"
    unjudged = sum(score.unjudged.values())
    if unjudged > policy.max_unjudged * score.total.rows:
        yield Code.UNJUDGED_SHARE, f"{unjudged} of {score.total.rows} rows without a verdict: {dict(score.unjudged)}"


def _few_tasks(score: KindScore, policy: Policy) -> Iterator[Found]:
    if len(score.tasks) < policy.min_clusters:
        yield Code.TOO_FEW_CLUSTERS, f"{len(score.tasks)} tasks, at least {policy.min_clusters} needed"


def _judge_doubts(error: KindError | None, gate: Gate, policy: Policy) -> Iterator[Found]:
    """Why the judge's verdicts on a kind, calibrated as they are, decide nothing: neither a pass nor a fail."""
    if error is None:
        return
    if error.informedness < policy.min_informedness or gate.status is Status.JUDGE_UNINFORMATIVE:
        yield Code.JUDGE_UNINFORMATIVE, f"sensitivity + specificity {error.informedness:.3f}"
    if error.kappa_lower < policy.min_kappa:
        yield Code.JUDGE_KAPPA_LOW, f"lower bound of kappa {error.kappa_lower:.3f}, at least {policy.min_kappa} needed"
    if gate.status is Status.INTERVAL_OUTSIDE_UNIT:
        yield Code.INTERVAL_OUTSIDE_UNIT, f"corrected share {gate.theta:.3f}, and its interval, lie outside [0, 1]"


def _interval_reasons(
    score: KindScore, gate: Gate, verdict: Verdict, floor: float, policy: Policy | None
) -> Iterator[Found]:
    """`policy` is None where judge error is folded in: then rows alone may not decide it."""
    says = f"[{gate.interval.lower:.4f}, {gate.interval.upper:.4f}] against {floor}"
    if verdict is Verdict.FAIL:
        yield Code.BELOW_FLOOR, says
        if 2 * score.rejected_with_evidence > score.total.rejected + score.total.failed:
            yield Code.FAILS_BY_DISCLOSURE, f"{score.rejected_with_evidence} of {score.total.rejected} rejected rows"
    elif verdict is Verdict.NOT_DECIDED:
        needed = rows_to_decide(gate.estimate, floor, policy.confidence) if policy and gate.estimate else None
        more = f"; about {needed} rows at this rate would decide" if needed and needed > score.total.rows else ""
        yield Code.NOT_DECIDED_INTERVAL, says + more


def _without_failures(score: KindScore, error: KindError | None, floor: float, policy: Policy) -> Verdict:
    """The verdict if every row without a reply had been accepted: whether those rows are what pushed the kind down."""
    cells = [replace(cell, accepted=cell.accepted + cell.failed, failed=0) for cell in score.tasks]
    return against_floor(_gate(cells, error, policy).interval, floor)


def _rank(verdict: Verdict) -> int:
    return (Verdict.FAIL, Verdict.NOT_DECIDED, Verdict.PASS).index(verdict)


def _provisional(header: Header, calibration: Calibration | None, policy: Policy) -> tuple[ClassCode, ...]:
    simulator, suite = header.identities.get("simulator", {}), header.identities.get("suite", {})
    weak = {
        ClassCode.CONTROL: bool(simulator.get("control")),
        ClassCode.RULE_JUDGE: header.judge_class != "llm",
        ClassCode.UNCALIBRATED_JUDGE: calibration is None,
        ClassCode.SMALL_SUITE: any(header.suite_counts.get(k, 0) < size for k, size in policy.full_size.items()),
        ClassCode.EXCLUDED_TASKS: bool(header.excluded_tasks),
        ClassCode.NOT_OFFICIAL_OR_FULL_OPEN: suite.get("name") not in policy.full_suites,
    }
    return tuple(code for code, holds in weak.items() if holds)


_SIMULATOR: Mapping[str, Code] = {cause: Code(f"simulator_{cause}") for cause in SimulatorFailure}
