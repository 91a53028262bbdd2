"""Suites: the shape of each line on disk (pydantic), and its conversion to the frozen core types."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from suites.questions import (
    AmbReference,
    Fact,
    Kind,
    LocReference,
    Question,
    QuestionKey,
    Reference,
    Stratum,
    Style,
    UnaReference,
    UnaSubKind,
)
from suites.tasks import (
    Ambiguity,
    Category,
    Cell,
    Conditions,
    Flow,
    FollowUpType,
    KnowledgeEntry,
    Level,
    PostCondition,
    SubTask,
)

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
# Names end up in file names and database names: a closed alphabet, checked here once.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
Statements = Annotated[list[Text], Field(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class FactRow(_Row):
    text: Text
    any_of: Annotated[list[Text], Field(min_length=1)]
    none_of: list[Text] = []

    def build(self) -> Fact:
        return Fact(self.text, tuple(self.any_of), tuple(self.none_of))


Facts = Annotated[list[FactRow], Field(min_length=1)]


class AmbReferenceRow(_Row):
    ambiguity: Text
    answer: Text
    facts: Facts

    def build(self) -> Reference:
        return AmbReference(self.ambiguity, self.answer, tuple(f.build() for f in self.facts))


class LocReferenceRow(_Row):
    fragment: Text
    answer: Text
    facts: Facts

    def build(self) -> Reference:
        return LocReference(self.fragment, self.answer, tuple(f.build() for f in self.facts))


class UnaReferenceRow(_Row):
    asks_for: Text
    sub_kind: UnaSubKind

    def build(self) -> Reference:
        return UnaReference(self.asks_for, self.sub_kind)


class QuestionRow(_Row):
    """What the three kinds of question have in common; each kind adds its label and its reference."""

    instance_id: Name
    selected_database: Name
    question_id: Name
    question_type: Style
    clarification_question: Text
    stratum: Stratum

    def build(self) -> Question:
        raise NotImplementedError

    def question(self, kind: Kind, reference: Reference) -> Question:
        key = QuestionKey(self.instance_id, self.question_id, self.question_type, kind)
        return Question(key, self.selected_database, self.stratum, self.clarification_question, reference)


class AmbQuestionRow(QuestionRow):
    label: Literal["AMB"]
    reference: AmbReferenceRow

    def build(self) -> Question:
        return self.question(Kind.AMB, self.reference.build())


class LocQuestionRow(QuestionRow):
    label: Literal["LOC"]
    reference: LocReferenceRow

    def build(self) -> Question:
        return self.question(Kind.LOC, self.reference.build())


class UnaQuestionRow(QuestionRow):
    label: Literal["UNA"]
    reference: UnaReferenceRow

    def build(self) -> Question:
        return self.question(Kind.UNA, self.reference.build())


class AmbiguityRow(_Row):
    term: Text
    sql_snippet: Text
    is_mask: bool
    type: Text
    deleted_knowledge: int | None = None
    flow: Flow
    meaning: Text

    def build(self, level: Level) -> Ambiguity:
        return Ambiguity(
            term=self.term,
            sql_snippet=self.sql_snippet,
            meaning=self.meaning,
            level=level,
            type=self.type,
            flow=self.flow,
            is_mask=self.is_mask,
            deleted_knowledge=self.deleted_knowledge,
        )


class UserQueryAmbiguityRow(_Row):
    critical_ambiguity: list[AmbiguityRow]
    non_critical_ambiguity: list[AmbiguityRow]


class PostConditionRow(_Row):
    sql: Text
    rows: list[list[Cell]]

    def build(self) -> PostCondition:
        return PostCondition(self.sql, tuple(tuple(row) for row in self.rows))


class ConditionsRow(_Row):
    decimal: int = -1
    distinct: bool = False
    order: bool = False

    def build(self) -> Conditions:
        return Conditions(self.decimal, self.distinct, self.order)


class _SubTaskRow(_Row):
    query: Text
    sol_sql: Statements
    test_cases: list[str]
    external_knowledge: list[int]
    conditions: ConditionsRow
    category: Category
    difficulty_tier: Text
    post_conditions: list[PostConditionRow]

    def sub_task(self, follow_up_type: FollowUpType | None) -> SubTask:
        return SubTask(
            query=self.query,
            sol_sql=tuple(self.sol_sql),
            category=self.category,
            difficulty_tier=self.difficulty_tier,
            post_conditions=tuple(p.build() for p in self.post_conditions),
            test_cases=tuple(self.test_cases),
            external_knowledge=tuple(self.external_knowledge),
            conditions=self.conditions.build(),
            type=follow_up_type,
        )


class FollowUpRow(_SubTaskRow):
    type: FollowUpType

    def build(self) -> SubTask:
        return self.sub_task(self.type)


class TaskRow(_SubTaskRow):
    instance_id: Name
    selected_database: Name
    amb_user_query: Text
    user_query_ambiguity: UserQueryAmbiguityRow
    knowledge_ambiguity: list[AmbiguityRow]
    environmental_ambiguity: list[AmbiguityRow]
    preprocess_sql: list[Text]
    clean_up_sqls: list[Text]
    high_level: bool
    follow_up: FollowUpRow

    def ambiguities(self) -> tuple[Ambiguity, ...]:
        levels = (
            (Level.CRITICAL, self.user_query_ambiguity.critical_ambiguity),
            (Level.NON_CRITICAL, self.user_query_ambiguity.non_critical_ambiguity),
            (Level.KNOWLEDGE, self.knowledge_ambiguity),
            (Level.ENVIRONMENTAL, self.environmental_ambiguity),
        )
        return tuple(row.build(level) for level, rows in levels for row in rows)


class KnowledgeRow(_Row):
    id: int
    knowledge: Text
    description: Text
    definition: Text
    type: Literal["calculation_knowledge", "domain_knowledge", "value_illustration"]
    children_knowledge: list[int] | Literal[-1]

    @field_validator("children_knowledge")
    @classmethod
    def _no_self(cls, value: list[int] | Literal[-1]) -> list[int] | Literal[-1]:
        if isinstance(value, list) and (not value or len(set(value)) != len(value)):
            raise ValueError("expected distinct ids, or -1 for none")
        return value

    def build(self) -> KnowledgeEntry:
        children = () if self.children_knowledge == -1 else tuple(self.children_knowledge)
        return KnowledgeEntry(self.id, self.knowledge, self.description, self.definition, self.type, children)
