"""Simulators: what is said to a simulator behind HTTP, and what it may say. The shape of each message, nothing else."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from benchmark_core.ports import Ask
from suites.tasks import Ambiguity, Level, Oracle

REMOTE_FORMAT: Literal["usersim-guard/remote/1"] = "usersim-guard/remote/1"

Count = Annotated[int, Field(ge=0)]


class Protocol(StrEnum):
    """`minimal`: one POST a question (`RemoteRequest`). `adk`: the user simulator service of BIRD-Interact-ADK."""

    MINIMAL = "minimal"
    ADK = "adk"


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class RemoteTurn(_Message):
    """One earlier exchange of the dialogue."""

    question: str
    reply: str


class RemoteAmbiguity(_Message):
    """An annotated ambiguity: `level` is critical, non_critical, knowledge or environmental."""

    term: str
    sql_snippet: str
    meaning: str
    level: str
    type: str


class RemoteKnowledge(_Message):
    """A knowledge entry that is hidden from the system under test."""

    id: int
    knowledge: str
    description: str
    definition: str


class RemoteOracle(_Message):
    """What the simulator alone may know of a task: clear request, reference SQL, annotations, schema."""

    clear_query: str
    sol_sql: list[str]
    database_schema: str
    ambiguities: list[RemoteAmbiguity]
    masked_knowledge: list[RemoteKnowledge]


class RemoteRequest(_Message):
    """`POST {url}/answer`: one question.

    Never holds kind, label, question id or reference answer: with them the score would measure a leak.
    """

    format: Literal["usersim-guard/remote/1"]
    instance_id: str
    database: str
    question: str
    history: list[RemoteTurn]
    user_query: str
    trial: Count
    oracle: RemoteOracle | None = None


class RemoteUsage(_Message):
    """Tokens of all model calls that the answer took."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None


class RemoteResponse(_Message):
    """The answer to a `RemoteRequest`. `model` and `usage` go to the books, and decide nothing."""

    reply: str
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    usage: RemoteUsage | None = None


class _Adk(BaseModel):
    """Forks of the ADK service add fields of their own."""

    model_config = ConfigDict(strict=True, extra="ignore")


class AdkReady(_Adk):
    """The answer to `/init_task`."""

    status: Literal["ok"]


class AdkAnswer(_Adk):
    """The answer to `/ask`."""

    answer: str


class AdkHealth(_Adk):
    """The answer to `/health`: each of the ADK's services names itself."""

    status: Literal["healthy"]
    service: str


def remote_request(ask: Ask, *, with_oracle: bool) -> dict[str, Any]:
    """The body of a `RemoteRequest`; without oracle there is no such field."""
    request = RemoteRequest(
        format=REMOTE_FORMAT,
        instance_id=ask.oracle.instance_id,
        database=ask.oracle.database,
        question=ask.text,
        history=[RemoteTurn(question=turn.question, reply=turn.reply) for turn in ask.history],
        user_query=ask.oracle.user_query,
        trial=ask.trial,
        oracle=_oracle(ask.oracle) if with_oracle else None,
    )
    return request.model_dump(mode="json", exclude_none=True)


def _oracle(oracle: Oracle) -> RemoteOracle:
    return RemoteOracle(
        clear_query=oracle.first.query,
        sol_sql=list(oracle.first.sol_sql),
        database_schema=oracle.schema,
        ambiguities=[
            RemoteAmbiguity(term=a.term, sql_snippet=a.sql_snippet, meaning=a.meaning, level=a.level.value, type=a.type)
            for a in oracle.ambiguities
        ],
        masked_knowledge=[
            RemoteKnowledge(id=k.id, knowledge=k.knowledge, description=k.description, definition=k.definition)
            for k in oracle.masked_knowledge
        ],
    )


def adk_task_data(oracle: Oracle, *, with_oracle: bool) -> dict[str, Any]:
    """`task_data` of the ADK's `/init_task`, in the field names of the public data.

    Without oracle the annotations stand there empty, and there is no clear request. The service reads no follow-up
    before the second phase, which scoring never enters.
    """
    critical, other, knowledge = [], [], []
    for ambiguity in oracle.ambiguities if with_oracle else ():
        match ambiguity.level:
            case Level.CRITICAL:
                critical.append(_public(ambiguity))
            case Level.KNOWLEDGE:
                knowledge.append(_public(ambiguity))
            case _:  # the public rows have no place for environmental ones; left out, they could not be answered
                other.append(_public(ambiguity))
    return {
        "selected_database": oracle.database,
        "amb_user_query": oracle.user_query,
        **({"query": oracle.first.query} if with_oracle else {}),
        "sol_sql": list(oracle.first.sol_sql) if with_oracle else [],
        "user_query_ambiguity": {"critical_ambiguity": critical, "non_critical_ambiguity": other},
        "knowledge_ambiguity": knowledge,
        "follow_up": {},
    }


def _public(ambiguity: Ambiguity) -> dict[str, Any]:
    return {
        "term": ambiguity.term,
        "sql_snippet": ambiguity.sql_snippet,
        "is_mask": ambiguity.is_mask,
        "type": ambiguity.type,
        "deleted_knowledge": ambiguity.deleted_knowledge,
    }
