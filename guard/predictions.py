"""Guard: reads recorded predictions: episodes, result files of BIRD-Interact-ADK, submission rows.

A submission row is one JSON object a line: `instance_id`, `pred_sqls` (a statement or a list of them), and if need be
`sub_task` (1 or 2; 1 when absent) and `passed` (what was recorded). Rows of the public conversational programs, which
carry their whole task, fit as they are. An episode is one object a line too, with its `submissions` in order.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from benchmark_core.errors import InputError
from suites.errors import SuiteError
from suites.lines import Line, lines, parse

FORMAT = "usersim-guard/submissions/1"
EPISODE = "usersim-guard/episode/1"

_GRADED = re.compile(r"Phase (?P<passed>[12]) correct|failed Phase (?P<failed>[12])")
"""How BIRD-Interact-ADK words the answer to a submission (DB environment, at 451fe2c)."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One submission that was recorded.

    Attributes:
        number: which one of its sub-task it is, from 1.
        before: the statements that passed sub-task 1, for sub-task 2; empty when the record has none.
        recorded: whether it passed when it was made; None when the record does not say.
    """

    instance_id: str
    sub_task: int
    number: int
    statements: tuple[str, ...]
    before: tuple[str, ...] = ()
    recorded: bool | None = None


@dataclass(frozen=True, slots=True)
class _Submission:
    sub_task: int
    statements: tuple[str, ...]
    passed: bool | None


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class SubmissionPart(BaseModel):
    """A submission within an episode."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pred_sqls: Annotated[list[str], BeforeValidator(_list), Field(min_length=1)]
    sub_task: Literal[1, 2] = 1
    passed: bool | None = None

    def build(self) -> _Submission:
        return _Submission(self.sub_task, tuple(self.pred_sqls), self.passed)


class SubmissionRow(SubmissionPart):
    """A line of a file of submissions. Further fields are let pass where the row carries its whole task."""

    model_config = ConfigDict(extra="allow", strict=True)

    instance_id: str

    @model_validator(mode="after")
    def _known(self) -> "SubmissionRow":
        extra = self.model_extra or {}
        if extra and "selected_database" not in extra:
            raise ValueError(f"unknown field {next(iter(extra))!r}; expected instance_id, pred_sqls, sub_task, passed")
        return self


class EpisodeRow(BaseModel):
    """What grading reads of an episode."""

    model_config = ConfigDict(extra="allow", strict=True)

    format: Literal["usersim-guard/episode/1"]
    instance_id: str
    submissions: list[SubmissionPart]


class _Call(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    tool: str | None = None
    args: dict[str, Any] | None = None
    result: Any = None


class AdkTask(BaseModel):
    """What grading reads of a task in a result file of BIRD-Interact-ADK."""

    model_config = ConfigDict(extra="allow", strict=True)

    task_id: str
    tool_trajectory: list[_Call] = []

    def submissions(self) -> Iterator[_Submission]:
        """The answer says which sub-task was graded; where it does not, the one that was due."""
        due = 1
        for call in self.tool_trajectory:
            text = (call.args or {}).get("sql")
            if call.tool != "submit_sql" or not isinstance(text, str):
                continue
            said = _GRADED.search(str(call.result))
            passed = None if said is None else said["passed"] is not None
            sub_task = due if said is None else int(said["passed"] or said["failed"])
            due = 2 if sub_task == 1 and passed else due
            yield _Submission(sub_task, (text,), passed)


def read_predictions(path: Path) -> tuple[Prediction, ...]:
    """All submissions of a file, those of a task together and in the order in which they were made.

    Raises:
        InputError: with the line or task and the field at fault.
    """
    found: dict[str, list[_Submission]] = {}
    try:
        whole = _whole(path)
        for instance_id, submission in _adk(path, whole) if whole is not None else _rows(path):
            found.setdefault(instance_id, []).append(submission)
    except SuiteError as error:
        raise InputError(str(error)) from None
    if not found:
        raise InputError(f"{path}: holds no submission")
    return tuple(prediction for instance_id, made in found.items() for prediction in _numbered(instance_id, made))


def _numbered(instance_id: str, made: list[_Submission]) -> Iterator[Prediction]:
    firsts = [submission for submission in made if submission.sub_task == 1]
    passing = [submission for submission in firsts if submission.passed] or (firsts if len(firsts) == 1 else [])
    before = passing[0].statements if passing else ()
    count: Counter[int] = Counter()
    for one in sorted(made, key=lambda submission: submission.sub_task):
        count[one.sub_task] += 1
        left = before if one.sub_task == 2 else ()
        yield Prediction(instance_id, one.sub_task, count[one.sub_task], one.statements, left, one.passed)


def _whole(path: Path) -> Mapping[str, Any] | None:
    """The object that a file is as a whole; None where it has one a line."""
    first = next(iter(lines(path)), None)
    if first is None or (isinstance(first, Line) and not {"results", "samples"} & first.row.keys()):
        return None
    try:
        whole = parse(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: expected one JSON object a line, or a result file ({error})") from None
    return whole if isinstance(whole, dict) else None


def _adk(path: Path, whole: Mapping[str, Any]) -> Iterator[tuple[str, _Submission]]:
    tasks = whole.get("results", whole.get("samples"))
    if not isinstance(tasks, list):
        raise InputError(f"{path}: field 'results': expected a list of tasks")
    for number, row in enumerate(tasks, start=1):
        task = _model(AdkTask, row, f"{path}: task {number}")
        for submission in task.submissions():
            yield task.task_id, submission


def _rows(path: Path) -> Iterator[tuple[str, _Submission]]:
    for line in lines(path):
        if isinstance(line, SuiteError):
            raise line
        place = f"{path}:{line.number}"
        if "format" in line.row:
            episode = _model(EpisodeRow, line.row, place)
            for part in episode.submissions:
                yield episode.instance_id, part.build()
        else:
            row = _model(SubmissionRow, line.row, place)
            yield row.instance_id, row.build()


def _model(model: type[M], row: Any, place: str) -> M:
    try:
        return model.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        said = "missing" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
        raise InputError(f"{place}: {f'field {field!r}: ' if field else ''}{said}") from None
