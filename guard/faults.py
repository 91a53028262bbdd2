"""Guard: reads the suite's hand-written replies: faulty ones for the dose controls, right ones in other words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from simulators.controls import Fault, FaultyReply
from suites.errors import SuiteError
from suites.load import Suite, read_rows
from suites.questions import Kind, Question

FAULTS_FILE = Path("controls") / "faults.jsonl"
PARAPHRASES_FILE = Path("controls") / "paraphrases.jsonl"


class _ReplyRow(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    instance_id: str
    question_id: str
    label: Kind
    reply: Annotated[str, StringConstraints(min_length=1)]

    @property
    def point(self) -> tuple[str, str, Kind]:
        return self.instance_id, self.question_id, self.label


class _FaultRow(_ReplyRow):
    fault: Fault


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """A right answer in other words, written without a look at the reference facts."""

    question: Question
    reply: str


def read_faults(suite: Suite) -> tuple[FaultyReply, ...]:
    """The faulty replies of a suite.

    Raises:
        SuiteError: for a reply to a point that the suite does not hold.
    """
    path, points = suite.root / FAULTS_FILE, _points(suite)
    faults = []
    for line, row in read_rows(path, _FaultRow):
        _demand_point(path, line, row, points)
        faults.append(FaultyReply(row.instance_id, row.question_id, row.label, row.fault, row.reply))
    return tuple(faults)


def read_paraphrases(suite: Suite) -> tuple[Paraphrase, ...]:
    """The right answers in other words, each with one question of its point.

    Raises:
        SuiteError: for a reply to a point that the suite does not hold.
    """
    path, points = suite.root / PARAPHRASES_FILE, _points(suite)
    found = []
    for line, row in read_rows(path, _ReplyRow):
        _demand_point(path, line, row, points)
        found.append(Paraphrase(points[row.point], row.reply))
    return tuple(found)


def _points(suite: Suite) -> dict[tuple[str, str, Kind], Question]:
    return {(q.key.instance_id, q.key.question_id, q.kind): q for q in suite.questions}


def _demand_point(path: Path, line: int, row: _ReplyRow, points: dict[tuple[str, str, Kind], Question]) -> None:
    if row.point not in points:
        raise SuiteError(path, f"no question has the point {row.point}", line=line, field="question_id")
