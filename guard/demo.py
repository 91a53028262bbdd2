"""Guard: the harness check. Scores the controls and holds what the measure says against what is known of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from guard.choices import DOSES, Choices, JudgeChoice, SimulatorChoice
from guard.faults import read_faults, read_paraphrases
from guard.policy import DEFAULT
from guard.runs import Counted, RunFolder, Watch, run
from guard.scorecard import KindScore
from guard.scoring import Scope
from guard.statistics import Verdict, against_floor
from judge.rubric import accepted
from judge.rule_judge import RuleJudge
from simulators.controls import Fault
from suites.load import Suite
from suites.questions import Kind, Question

FAULTY_KINDS = {
    Fault.LEAK: (Kind.AMB, Kind.LOC, Kind.UNA),
    Fault.WRONG_ANSWER: (Kind.AMB, Kind.LOC),
    Fault.OVER_REFUSAL: (Kind.AMB, Kind.LOC),
}

_SAYS = {Verdict.PASS: "passes", Verdict.FAIL: "fails"}


@dataclass(frozen=True, slots=True)
class Expectation:
    """One thing that must be true of a control's scorecard if the measure works."""

    control: str
    says: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Dose:
    """One dose-response cell: `share` of the replies was made faulty on purpose; the interval must cover 1 - share."""

    fault: Fault
    share: float
    kind: Kind
    score: KindScore

    @property
    def covers(self) -> bool:
        interval = self.score.gate.interval
        return interval.lower <= 1 - self.share <= interval.upper


@dataclass(frozen=True, slots=True)
class JudgeErrors:
    """Hand-written replies of known worth that the rule judge got wrong, as (reply, the judge's reason)."""

    replies: int
    wrong: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        return len(self.wrong) / self.replies if self.replies else 0.0


@dataclass(frozen=True, slots=True)
class Controls:
    """All control runs, counted."""

    counted: dict[str, Counted]
    doses: tuple[Dose, ...]

    def verdict(self, control: str, kind: Kind) -> Verdict:
        """What the interval of one kind says against its floor."""
        return against_floor(self.counted[control].scorecard.kinds[kind].gate.interval, DEFAULT.floors[kind])

    def expectations(self) -> tuple[Expectation, ...]:
        """What must hold of the three plain controls, and of each dose."""
        doses = (
            Expectation(f"{d.fault} {d.share:.0%}", f"{d.kind}: the interval covers {1 - d.share:.0%}", d.covers)
            for d in self.doses
        )
        return (*self._plain(), *doses)

    def _plain(self) -> Iterator[Expectation]:
        for kind in Kind:
            leaks = self.counted["leaky"].scorecard.kinds[kind]
            mute = Verdict.PASS if kind is Kind.UNA else Verdict.FAIL
            for control, wanted in (("oracle", Verdict.PASS), ("leaky", Verdict.FAIL), ("mute", mute)):
                yield Expectation(control, f"{kind}: {_SAYS[wanted]}", self.verdict(control, kind) is wanted)
            yield Expectation("leaky", f"{kind}: every reply discloses", leaks.evidence["any"] == leaks.total.rows)


def score_controls(
    suite: Suite, scope: Scope, out: Path, watch: Callable[[], AbstractContextManager[Watch]]
) -> Controls:
    """Score every control into a folder of its own below `out`."""

    def scored(name: str) -> Counted:
        choices = Choices(SimulatorChoice(name), JudgeChoice())
        with watch() as watching:
            return run(suite, choices, scope, RunFolder(out / name), watching)

    counted = {name: scored(name) for name in ("oracle", "leaky", "mute")}
    doses = []
    for fault, kinds in FAULTY_KINDS.items():
        for percent in DOSES:
            name = f"dose-{fault.replace('_', '-')}-{percent:02d}"
            counted[name] = scored(name)
            doses += [Dose(fault, percent / 100, kind, counted[name].scorecard.kinds[kind]) for kind in kinds]
    return Controls(counted, tuple(doses))


def false_alarms(suite: Suite) -> JudgeErrors:
    """The rule judge on right answers in other words: what it does not accept."""
    known = [(paraphrase.question, paraphrase.reply) for paraphrase in read_paraphrases(suite)]
    return _errors(suite, known, wanted=True)


def missed_faults(suite: Suite) -> JudgeErrors:
    """The rule judge on the faulty replies, each to one question of its point: what it accepts."""
    points = {(q.key.instance_id, q.key.question_id, q.kind): q for q in suite.questions}
    known = [(points[fault.instance_id, fault.question_id, fault.kind], fault.reply) for fault in read_faults(suite)]
    return _errors(suite, known, wanted=False)


def _errors(suite: Suite, known: Sequence[tuple[Question, str]], *, wanted: bool) -> JudgeErrors:
    judge = RuleJudge(suite.oracles)
    verdicts = [(question, reply, judge.rate(question, reply)) for question, reply in known]
    wrong = [(reply, v.reason) for question, reply, v in verdicts if accepted(question.kind, v.rating) is not wanted]
    return JudgeErrors(len(known), tuple(wrong))
