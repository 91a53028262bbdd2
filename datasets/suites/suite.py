"""Suites: a suite as read, the parts that an official one may lack, and how each of them is obtained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from suites.questions import Question
from suites.tasks import Database, Oracle, Task


class Part(StrEnum):
    """A part of the official data that is published, or handed out, apart from the questions."""

    TASKS = "tasks"
    GOLD = "gold"
    DATABASES = "databases"


_HOW = {
    Part.TASKS: (
        "Tasks (bird_interact_data.jsonl) are part of BIRD-Interact Lite and Full (Hugging Face: "
        "birdsql/bird-interact-lite, birdsql/bird-interact-full). Import again with --tasks FOLDER, or with "
        "--tasks hub:birdsql/bird-interact-lite."
    ),
    Part.GOLD: (
        "Gold (sol_sql, test_cases, external_knowledge) is not published: ask for it by e-mail to "
        "bird.bench25@gmail.com with the tag [bird-interact-lite GT&Test Cases] or "
        "[bird-interact-full GT&Test Cases] in the title; the answer is automatic. Then import again with --gold FILE."
    ),
    Part.DATABASES: (
        "Descriptions of databases ({db}/{db}_schema.txt and its neighbours) come with BIRD-Interact Lite and Full. "
        "Put their folders beside bird_interact_data.jsonl, or below databases/ there, and import again."
    ),
}
_WORKS = (
    "Without it these work: replay, a remote simulator that is sent no oracle, plugin simulators, an LLM judge under "
    "the published rubric, data check. These do not: baseline, function-driven. (The controls, the reference rubric "
    "and the gold audit do not work with official data: it has neither references nor build scripts.)"
)


def how_to_get(part: Part) -> str:
    """How a part that is missing is obtained, and what works without it, in plain words."""
    return f"{_HOW[part]} {_WORKS}"


def nothing_lacking() -> Mapping[Part, tuple[str, ...]]:
    """What a complete suite lacks."""
    return MappingProxyType({part: () for part in Part})


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite as read. `digest` covers every data file; `root` is where it was read from.

    Attributes:
        loose: bare oracles of the questions that have no task, so that a simulator that needs none can be asked.
        lacking: by part, the instance ids of the questions that lack it, in the order of the questions.
        official: whether it was imported from the official downloads; its questions carry no reference.
    """

    root: Path
    name: str
    version: str
    licence: str
    digest: str
    databases: Mapping[str, Database]
    tasks: tuple[Task, ...]
    questions: tuple[Question, ...]
    loose: tuple[Oracle, ...] = ()
    lacking: Mapping[Part, tuple[str, ...]] = field(default_factory=nothing_lacking)
    official: bool = False

    @property
    def oracles(self) -> dict[str, Oracle]:
        """Oracle by instance id."""
        oracles = (*self.loose, *(task.oracle for task in self.tasks))
        return {oracle.instance_id: oracle for oracle in oracles}
