"""Simulators: reads recorded replies, as the public USERSIM-GUARD scripts write them, and joins them by key."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from benchmark_core.chat_wire import clean
from benchmark_core.digest import digest
from benchmark_core.errors import InputError, SimulatorFailure
from suites.questions import Kind, Question, QuestionKey, Style

MAX_LINE_BYTES = 1 << 22
NAMED = 20  # faults of one sort that a message names; all are counted

KIND_NAMES: Mapping[str, Kind] = MappingProxyType(
    {
        "amb": Kind.AMB,
        "labeled": Kind.AMB,
        "labelled": Kind.AMB,
        "loc": Kind.LOC,
        "unlabeled": Kind.LOC,
        "unlabelled": Kind.LOC,
        "una": Kind.UNA,
        "unanswerable": Kind.UNA,
    }
)


def _kind(value: object) -> Kind | None:
    if value is None:
        return None
    kind = KIND_NAMES.get(value.casefold()) if isinstance(value, str) else None
    if kind is None:
        raise ValueError(f"expected one of {', '.join(KIND_NAMES)} (any case)")
    return kind


KindField = Annotated[Kind | None, BeforeValidator(_kind, json_schema_input_type=str | None)]


class ReplyRow(BaseModel):
    """One line of a replies file.

    The public scripts write more fields (selected_database, prompt, model, …): they are ignored. `response` is null
    where a provider sent no text. The four names of the kind are those in use; at most one is needed.
    """

    model_config = ConfigDict(strict=True, extra="ignore")

    instance_id: str
    question_id: str | int
    question_type: Style
    clarification_question: str
    response: str | None
    label: KindField = None
    kind: KindField = None
    data_type: KindField = None
    class_: KindField = Field(default=None, alias="class")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if len(self._kinds) > 1:
            raise ValueError(f"label, kind, data_type and class name several kinds: {', '.join(sorted(self._kinds))}")
        return self

    @property
    def _kinds(self) -> set[Kind]:
        return {kind for kind in (self.label, self.kind, self.data_type, self.class_) if kind is not None}

    @property
    def stated_kind(self) -> Kind | None:
        """The kind as the row states it; None where it does not."""
        return next(iter(self._kinds), None)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a file says about one question: a reply, or why there is none.

    Attributes:
        text: the reply; "" where there is none.
        detail: for people; never the recorded error text, which can hold addresses with keys.
    """

    text: str
    failure: SimulatorFailure | None = None
    detail: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Replies:
    """The replies to the planned questions.

    Attributes:
        by_text: by instance id and text of the question: an `Ask` carries no more.
        digest: `sha256:…` over the keys and replies of every row that answers a question of the suite: the order of
            rows and files and the ignored fields make no other simulator.
    """

    by_text: Mapping[tuple[str, str], Recorded]
    digest: str


def read_replies(paths: Sequence[Path], questions: Sequence[Question], planned: Sequence[Question]) -> Replies:
    """Read the files and join their rows to questions by key, never by position.

    Args:
        questions: all of the suite.
        planned: those that will be asked, a part of `questions`.

    Raises:
        InputError: for the first line that is no row (file, line, field); else once for everything that does not join:
            duplicate rows, rows of no question, rows with another text, an unclear kind, planned questions without a
            row, and planned questions that an `Ask` cannot tell apart.
    """
    join = _Join(questions)
    for path in paths:
        for line, row in _rows(path):
            join.add(f"{path}:{line}", row)
    by_text: dict[tuple[str, str], Recorded] = {}
    for question in planned:
        found = join.found.get(question.key)
        if found is None:
            join.fault(_MISSING, _name(question.key))
        elif by_text.setdefault((question.key.instance_id, question.text), found[1]) != found[1]:
            join.fault(_SAME_TEXT, f"{found[0]}: {_name(question.key)}")
    if join.faults:
        raise InputError("\n".join(_told(join.faults)))
    contents = sorted(
        [*_parts(key), recorded.text, recorded.failure or ""] for key, (_, recorded) in join.found.items()
    )
    return Replies(MappingProxyType(by_text), digest(contents))


_DUPLICATE = "stand twice; keep one row a question"
_EXTRA = "are of no question of the suite; is this the suite that the replies were made for?"
_OTHER_TEXT = "have another clarification_question than the suite; was the file shuffled, or made for another version?"
_UNCLEAR = "could be of several kinds; add a field `kind` with AMB, LOC or UNA"
_MISSING = "have no reply; add a row for each"
_SAME_TEXT = (
    "have the same text as another question of their task, and another reply: a simulator cannot tell them apart"
)


class _Join:
    """Joins rows to questions; collects what does not fit."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self.found: dict[QuestionKey, tuple[str, Recorded]] = {}
        self.faults: dict[str, list[str]] = {}
        self._by_point: dict[tuple[str, str, Style], list[Question]] = {}
        for question in questions:
            key = question.key
            self._by_point.setdefault((key.instance_id, key.question_id, key.style), []).append(question)

    def add(self, place: str, row: ReplyRow) -> None:
        """Join one row."""
        point = (row.instance_id, str(row.question_id), row.question_type)
        kind = row.stated_kind
        named = f"{place}: {_name((*point, *([kind] if kind else [])))}"
        of_point = [q for q in self._by_point.get(point, []) if kind is None or q.kind is kind]
        of_text = [q for q in of_point if q.text.strip() == row.clarification_question.strip()]
        if not of_point:
            self.fault(_EXTRA, named)
        elif not of_text:
            self.fault(_OTHER_TEXT, named)
        elif len(of_text) > 1:
            self.fault(_UNCLEAR, named)
        elif of_text[0].key in self.found:
            self.fault(_DUPLICATE, f"{named} (first at {self.found[of_text[0].key][0]})")
        else:
            # the detail goes into the ledger: the file's name, not where somebody keeps it
            self.found[of_text[0].key] = place, _recorded(Path(place).name, row.response)

    def fault(self, sort: str, named: str) -> None:
        """Note something that does not fit."""
        self.faults.setdefault(sort, []).append(named)


def _recorded(place: str, response: str | None) -> Recorded:
    text = (response or "").strip()
    if not text:
        return Recorded("", SimulatorFailure.EMPTY, f"{place}: an empty response")
    if text == "[SKIPPED]" or (text.startswith("[ERROR:") and text.endswith("]")):
        # The public scripts write a failed call as if it were a reply. CRASHED and not UNAVAILABLE: that one is taken
        # for an endpoint that is down now, is tried again without end, and stops a run; a record stays as it is.
        return Recorded("", SimulatorFailure.CRASHED, f"{place}: the record of a failed call, no reply")
    return Recorded(response or "")


def _rows(path: Path) -> Iterator[tuple[int, ReplyRow]]:
    """Each row with its line number, from 1. Blank lines are passed over: what they may hide is missed by its key."""
    try:
        with path.open("rb") as file:
            number = 0
            while data := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(data) > MAX_LINE_BYTES:
                    raise InputError(f"{path}:{number}: longer than {MAX_LINE_BYTES} bytes; expected one row a line")
                if data.strip():
                    yield number, _row(f"{path}:{number}", data)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _row(place: str, data: bytes) -> ReplyRow:
    try:
        return ReplyRow.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = f": field '{first['loc'][0]}'" if first["loc"] else ""
        expected = (
            "missing; expected this field"
            if first["type"] == "missing"
            else clean(first["msg"].removeprefix("Value error, "), secret="")
        )
        raise InputError(f"{place}{where}: {expected}") from None


def _told(faults: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "the replies do not fit the suite"
    for sort, named in faults.items():
        yield f"{len(named)} {'question' if sort in (_MISSING, _SAME_TEXT) else 'row'}(s) {sort}:"
        yield from (f"  {name}" for name in named[:NAMED])
        if len(named) > NAMED:
            yield f"  … and {len(named) - NAMED} more"


def _parts(key: QuestionKey) -> tuple[str, ...]:
    return key.instance_id, key.question_id, key.style, key.kind


def _name(key: QuestionKey | tuple[Any, ...]) -> str:
    return clean(" / ".join(map(str, _parts(key) if isinstance(key, QuestionKey) else key)), secret="")
