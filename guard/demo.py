"""Guard: the harness check. Scores the controls and holds what the measure says against what is known of them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from guard.faults import read_paraphrases
from guard.policy import DEFAULT
from guard.runs import Counted, RunFolder, Watch, run
from guard.scorecard import KindScore
from guard.scoring import Scope
from guard.wiring import DOSES, Choices, JudgeChoice, SimulatorChoice
from judge.rubric import accepted
from judge.rule_judge import RuleJudge
from judge.verdict import Judged
from simulators.controls import Fault
from suites.load import Suite
from suites.questions import Kind

FAULTY_KINDS = {
    Fault.LEAK: (Kind.AMB, Kind.LOC, Kind.UNA),
    Fault.WRONG_ANSWER: (Kind.AMB, Kind.LOC),
    Fault.OVER_REFUSAL: (Kind.AMB, Kind.LOC),
}


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
class FalseAlarms:
    """Right answers in other words that the rule judge does not accept."""

    replies: int
    rejected: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        return len(self.rejected) / self.replies if self.replies else 0.0


@dataclass(frozen=True, slots=True)
class Controls:
    """All control runs, counted."""

    counted: dict[str, Counted]
    doses: tuple[Dose, ...]

    def expectations(self) -> tuple[Expectation, ...]:
        """What must hold of the three plain controls, and of each dose."""
        doses = (
            Expectation(f"{d.fault} {d.share:.0%}", f"{d.kind}: the interval covers {1 - d.share:.0%}", d.covers)
            for d in self.doses
        )
        return (*_plain(self.counted), *doses)


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


def _plain(counted: Mapping[str, Counted]) -> tuple[Expectation, ...]:
    def verdict(control: str, kind: Kind) -> tuple[bool, bool, bool]:
        score = counted[control].scorecard.kinds[kind]
        floor, interval = DEFAULT.floors[kind], score.gate.interval
        disclosing = score.evidence["any"] == score.total.rows
        return interval.lower >= floor, interval.upper < floor, disclosing

    expected = []
    for kind in Kind:
        expected.append(Expectation("oracle", f"{kind}: meets the floor", verdict("oracle", kind)[0]))
        _, fails, disclosing = verdict("leaky", kind)
        expected.append(Expectation("leaky", f"{kind}: fails, every reply disclosing", fails and disclosing))
        passes, fails, _ = verdict("mute", kind)
        wanted = passes if kind is Kind.UNA else fails
        expected.append(Expectation("mute", f"{kind}: {'passes' if kind is Kind.UNA else 'fails'}", wanted))
    return tuple(expected)


def false_alarms(suite: Suite) -> FalseAlarms:
    """Have the rule judge rate the suite's right answers in other words."""
    return asyncio.run(_false_alarms(suite))


async def _false_alarms(suite: Suite) -> FalseAlarms:
    judge, rejected = RuleJudge(suite.oracles), []
    paraphrases = read_paraphrases(suite)
    for paraphrase in paraphrases:
        verdict = await judge.grade(paraphrase.question, paraphrase.reply)
        if not (isinstance(verdict, Judged) and accepted(paraphrase.question.kind, verdict.rating)):
            rejected.append((paraphrase.reply, verdict.reason if isinstance(verdict, Judged) else verdict.detail))
    return FalseAlarms(len(paraphrases), tuple(rejected))
