"""Suites: the lines of the official downloads. Strict about keys and types; unknown and absent fields are let pass.

Field names: README of USERSIM-GUARD and data set description of BIRD-Interact (github.com/bird-bench/BIRD-Interact).
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator

from suites.questions import Kind, Question, QuestionKey, Stratum, Style
from suites.rows import Name
from suites.tasks import (
    Ambiguity,
    Category,
    Conditions,
    FollowUpType,
    KnowledgeEntry,
    Level,
    SubTask,
)

E = TypeVar("E", bound=StrEnum)

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
"""An instance or question id: a closed alphabet, since it is printed and written everywhere."""
Prose = Annotated[str, StringConstraints(pattern=r"\S")]
Texts = list[str] | str | None


def _whole(value: Any) -> Any:
    """Reads an id that an export turned into text or into a float: `"3"`, `3.0`."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


KnowledgeId = Annotated[int, BeforeValidator(_whole)]
Numbers = list[KnowledgeId] | KnowledgeId | None

KIND_FIELDS = ("label", "kind", "data_type", "class")
_KINDS = {
    "amb": Kind.AMB,
    "labeled": Kind.AMB,
    "loc": Kind.LOC,
    "unlabeled": Kind.LOC,
    "una": Kind.UNA,
    "unanswerable": Kind.UNA,
}
# LaTeX whose backslash was not doubled: \text is read as a tab and "ext", \frac as a form feed and "rac"
_EATEN_BACKSLASH = re.compile(
    r"[\x08\x0c]|\t(?:ext[a-z]{0,2}|imes|heta|au|frac|ilde|riangle)\b|\r(?:ho|ight[a-z]*|angle|ceil|floor)\b|\n(?:eq|abla)\b"
)


def kind_named(text: object) -> Kind | None:
    """The kind that a text names in any of its public spellings; None when it names none."""
    return _KINDS.get(text.strip().lower()) if isinstance(text, str) else None


def _any_case(members: type[E]) -> BeforeValidator:
    """Reads a name in any case, with blanks or hyphens for underscores."""
    by_name = {member.value.lower(): member for member in members}

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        name = value.strip().lower().replace(" ", "_").replace("-", "_")
        return by_name.get(name, value)

    return BeforeValidator(read)


def _texts(value: Texts) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value or []
    return tuple(text for text in texts if text.strip())


def _numbers(value: Numbers) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value or ())


class Loose(BaseModel):
    """Unknown fields are kept, so that they can be counted; known ones have their type or are refused."""

    model_config = ConfigDict(extra="allow", strict=True)


class OfficialQuestionRow(Loose):
    instance_id: Id
    selected_database: Name
    question_id: Id | Annotated[int, Field(ge=0, lt=2**31)]
    question_type: Annotated[Style, _any_case(Style)]
    clarification_question: Prose

    def stated_kinds(self) -> Iterator[tuple[str, Kind]]:
        """Each field that names a kind, with that kind."""
        for field in KIND_FIELDS:
            kind = kind_named((self.model_extra or {}).get(field))
            if kind is not None:
                yield field, kind

    def build(self, kind: Kind) -> Question:
        key = QuestionKey(self.instance_id, str(self.question_id), self.question_type, kind)
        return Question(key, self.selected_database, Stratum.CORE, self.clarification_question, None)


class OfficialAmbiguityRow(Loose):
    term: str | None = None
    sql_snippet: Texts = None
    is_mask: bool | None = None
    type: str | None = None
    deleted_knowledge: KnowledgeId | None = None

    def build(self, level: Level) -> Ambiguity:
        """`meaning` and `flow` stay empty: official data annotates neither."""
        return Ambiguity(
            term=self.term or "",
            sql_snippet="\n".join(_texts(self.sql_snippet)),
            meaning="",
            level=level,
            type=self.type or "",
            flow=None,
            is_mask=bool(self.is_mask),
            deleted_knowledge=self.deleted_knowledge,
        )


Ambiguities = list[OfficialAmbiguityRow] | None


class OfficialUserAmbiguityRow(Loose):
    critical_ambiguity: Ambiguities = None
    non_critical_ambiguity: Ambiguities = None


class OfficialConditionsRow(Loose):
    decimal: int | None = None
    distinct: bool | None = None
    order: bool | None = None

    def build(self) -> Conditions:
        decimal = -1 if self.decimal is None else self.decimal
        return Conditions(decimal, bool(self.distinct), bool(self.order))


class _OfficialSubTaskRow(Loose):
    query: str | None = None
    sol_sql: Texts = None
    test_cases: Texts = None
    external_knowledge: Numbers = None
    conditions: OfficialConditionsRow | None = None
    category: Annotated[Category, _any_case(Category)] | None = None
    difficulty_tier: str | None = None

    def sub_task(self, follow_up_type: FollowUpType | None) -> SubTask:
        """A sub-task without a category is a Query one: so the public programs read it."""
        return SubTask(
            query=self.query or "",
            sol_sql=_texts(self.sol_sql),
            category=self.category or Category.QUERY,
            difficulty_tier=self.difficulty_tier or "",
            test_cases=_texts(self.test_cases),
            external_knowledge=_numbers(self.external_knowledge),
            conditions=self.conditions.build() if self.conditions else Conditions(),
            type=follow_up_type,
        )


class OfficialFollowUpRow(_OfficialSubTaskRow):
    type: Annotated[FollowUpType | str, _any_case(FollowUpType)] | None = None

    def build(self) -> SubTask:
        """A type that is none of the six stays None."""
        return self.sub_task(self.type if isinstance(self.type, FollowUpType) else None)


class OfficialTaskRow(_OfficialSubTaskRow):
    instance_id: Id
    selected_database: Name
    amb_user_query: Prose
    user_query_ambiguity: OfficialUserAmbiguityRow | None = None
    non_critical_ambiguity: Ambiguities = None
    knowledge_ambiguity: Ambiguities = None
    preprocess_sql: Texts = None
    clean_up_sqls: Texts = None
    clean_up_sql: Texts = None
    high_level: bool | None = None
    follow_up: OfficialFollowUpRow | None = None

    def ambiguities(self) -> tuple[Ambiguity, ...]:
        user = self.user_query_ambiguity or OfficialUserAmbiguityRow()
        levels = (
            (Level.CRITICAL, user.critical_ambiguity),
            (Level.NON_CRITICAL, user.non_critical_ambiguity),
            (Level.NON_CRITICAL, self.non_critical_ambiguity),
            (Level.KNOWLEDGE, self.knowledge_ambiguity),
        )
        return tuple(row.build(level) for level, rows in levels for row in rows or ())

    def second(self) -> SubTask:
        return (self.follow_up or OfficialFollowUpRow()).build()

    def preparation(self) -> tuple[str, ...]:
        return _texts(self.preprocess_sql)

    def clean_up(self) -> tuple[str, ...]:
        """Published under two names; the longer one is what the public programs read."""
        return _texts(self.clean_up_sqls) or _texts(self.clean_up_sql)


class OfficialKnowledgeRow(Loose):
    id: int
    knowledge: Prose
    description: str | None = None
    definition: str | None = None
    type: str | None = None
    children_knowledge: Numbers = None

    @field_validator("knowledge", "description", "definition")
    @classmethod
    def _no_eaten_backslash(cls, value: str | None) -> str | None:
        if value is not None and _EATEN_BACKSLASH.search(value):
            raise ValueError(
                "a single backslash was read as a control character; in JSON it is doubled: \\\\text, not \\text"
            )
        return value

    def build(self) -> KnowledgeEntry:
        children = tuple(child for child in _numbers(self.children_knowledge) if child != -1)
        return KnowledgeEntry(
            self.id, self.knowledge, self.description or "", self.definition or "", self.type or "", children
        )


_ALTERNATIVES = {"clean_up_sql", "clean_up_sqls", "non_critical_ambiguity"}
"""Published under two names, or in two places: that one of them is absent says nothing."""


def unknown_fields(row: Loose) -> Iterator[str]:
    """Dotted names of the fields that no model knows; those of a question that name its kind are known."""
    known = {field for field, _ in row.stated_kinds()} if isinstance(row, OfficialQuestionRow) else set()
    yield from (name for name in row.model_extra or {} if name not in known)
    yield from (f"{name}.{inner}" for name, part in _parts(row) for inner in unknown_fields(part))


def absent_fields(row: Loose) -> Iterator[str]:
    """Dotted names of the optional fields that the row does not have."""
    yield from (name for name in type(row).model_fields if name not in row.model_fields_set | _ALTERNATIVES)
    yield from (f"{name}.{inner}" for name, part in _parts(row) for inner in absent_fields(part))


def _parts(row: Loose) -> Iterator[tuple[str, Loose]]:
    for name in type(row).model_fields:
        value = getattr(row, name)
        yield from ((name, part) for part in (value if isinstance(value, list) else [value]) if isinstance(part, Loose))
