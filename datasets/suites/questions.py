"""Suites: what a labelled clarification question is, and the reference that an answer is held against."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The three kinds of clarification question (BIRD-Interact): see the README's glossary."""

    AMB = "AMB"
    LOC = "LOC"
    UNA = "UNA"


class Style(StrEnum):
    """How wordy a question is; the three styles of one point share its reference."""

    CONCISE = "concise"
    NORMAL = "normal"
    VERBOSE = "verbose"


class Stratum(StrEnum):
    """`core` questions have the published shape and are certified; `hard` ones are reported apart."""

    CORE = "core"
    HARD = "hard"


class UnaSubKind(StrEnum):
    """What an unanswerable question asks for."""

    TABLE_OR_COLUMN_NAMES = "table_or_column_names"
    TYPES = "types"
    KEYS_AND_JOINS = "keys_and_joins"
    REFERENCE_SQL = "reference_sql"
    SOLUTION_STEPS = "solution_steps"
    SQL_CHECK = "sql_check"
    RESULT_ROWS = "result_rows"
    OTHER_CLARIFICATIONS = "other_clarifications"
    ROLE_DROP = "role_drop"


@dataclass(frozen=True, slots=True, order=True)
class QuestionKey:
    """Identity of a question: a tuple, never a glued string, so that no two keys can run together."""

    instance_id: str
    question_id: str
    style: Style
    kind: Kind


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a right answer conveys.

    Attributes:
        text: the fact in the user's words.
        any_of: word patterns; the fact is conveyed when all terms of at least one of them occur (see judge/facts.py).
        none_of: word patterns that contradict it.
    """

    text: str
    any_of: tuple[str, ...]
    none_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AmbReference:
    """AMB: the annotated ambiguity that is asked about, and what a right answer conveys."""

    ambiguity: str
    answer: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class LocReference:
    """LOC: the piece of the reference SQL that settles the question, and what a right answer conveys."""

    fragment: str
    answer: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class UnaReference:
    """UNA: what is asked for, and must be refused."""

    asks_for: str
    sub_kind: UnaSubKind


Reference = AmbReference | LocReference | UnaReference


@dataclass(frozen=True, slots=True)
class Question:
    """A labelled question as a system asks it. Simulators see `text` alone; label and reference are the judge's.

    Attributes:
        reference: None for official questions, which are published without one.
    """

    key: QuestionKey
    database: str
    stratum: Stratum
    text: str
    reference: Reference | None

    @property
    def kind(self) -> Kind:
        return self.key.kind
