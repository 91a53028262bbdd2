"""Suites: tasks, split into `Brief` (what the system under test may see) and `Oracle` (simulator and grader only)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]


class Level(StrEnum):
    """Where an ambiguity lives. `environmental` ones are annotated but not counted in budgets."""

    CRITICAL = "critical"
    NON_CRITICAL = "non_critical"
    KNOWLEDGE = "knowledge"
    ENVIRONMENTAL = "environmental"


class Flow(StrEnum):
    """Clarification flow of one link (BIRD-Interact)."""

    USER_USER = "user_user"
    USER_ENVIRONMENT = "user_environment"
    ENVIRONMENT_USER = "environment_user"


class Category(StrEnum):
    """Category of one sub-task."""

    QUERY = "Query"
    MANAGEMENT = "Management"


class FollowUpType(StrEnum):
    """The six follow-up types of the paper."""

    CONSTRAINT_CHANGE = "constraint_change"
    TOPIC_PIVOT = "topic_pivot"
    ATTRIBUTE_CHANGE = "attribute_change"
    RESULT_BASED = "result_based"
    AGGREGATION = "aggregation"
    STATE_DEPENDENT = "state_dependent"


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """A term of the user's request and the one SQL fragment that resolves it.

    Attributes:
        meaning: what the user means by it, in the user's own terms (no identifiers); empty in official data.
        flow: None in official data, which does not annotate it.
        deleted_knowledge: id of the masked knowledge entry, for knowledge ambiguities.
    """

    term: str
    sql_snippet: str
    meaning: str
    level: Level
    type: str
    flow: Flow | None
    is_mask: bool = False
    deleted_knowledge: int | None = None


@dataclass(frozen=True, slots=True)
class PostCondition:
    """What must hold after a Management sub-task: a verification query and the rows it must return (as a multiset)."""

    sql: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """How results are compared: decimals kept, whether duplicates matter, whether the row order does."""

    decimal: int = -1
    distinct: bool = False
    order: bool = False


@dataclass(frozen=True, slots=True)
class SubTask:
    """One half of a task. `type` is the follow-up type, None for sub-task 1."""

    query: str
    sol_sql: tuple[str, ...]
    category: Category
    difficulty_tier: str
    post_conditions: tuple[PostCondition, ...] = ()
    test_cases: tuple[str, ...] = ()
    external_knowledge: tuple[int, ...] = ()
    conditions: Conditions = Conditions()
    type: FollowUpType | None = None


@dataclass(frozen=True, slots=True)
class KnowledgeEntry:
    """A node of the hierarchical knowledge base; `children_knowledge` are the entries that it is defined by."""

    id: int
    knowledge: str
    description: str
    definition: str
    type: str
    children_knowledge: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Database:
    """A database of a suite: how it is built and described. Column meanings are keyed `db|table|column`, lower case.

    Attributes:
        build_sql: None for official databases, which are published as dumps.
        second_build_sql: builds the same tables with other rows, where the suite has a second data seed: a prediction
            must give the reference's result there too, so that a constant cannot pass.
    """

    name: str
    build_sql: str | None
    schema: str
    column_meanings: Mapping[str, str]
    knowledge: tuple[KnowledgeEntry, ...]
    second_build_sql: str | None = None


@dataclass(frozen=True, slots=True)
class Brief:
    """What the system under test may see: the ambiguous request, schema, column meanings, unmasked knowledge."""

    instance_id: str
    database: str
    user_query: str
    schema: str
    column_meanings: Mapping[str, str]
    knowledge: tuple[KnowledgeEntry, ...]


@dataclass(frozen=True, slots=True)
class Oracle:
    """What only simulator and grader may see. Nothing of it may reach the system under test."""

    instance_id: str
    database: str
    user_query: str
    first: SubTask
    follow_up: SubTask
    ambiguities: tuple[Ambiguity, ...]
    schema: str
    masked_knowledge: tuple[KnowledgeEntry, ...] = ()
    preprocess_sql: tuple[str, ...] = ()
    clean_up_sqls: tuple[str, ...] = ()

    @property
    def number_of_ambiguities(self) -> int:
        """Critical user-query ambiguities + knowledge ambiguities, as the public code counts them."""
        return sum(a.level in (Level.CRITICAL, Level.KNOWLEDGE) for a in self.ambiguities)


@dataclass(frozen=True, slots=True)
class Task:
    """A task: two types on purpose, so that handing the oracle to a system is a type error."""

    brief: Brief
    oracle: Oracle

    @property
    def instance_id(self) -> str:
        return self.brief.instance_id
