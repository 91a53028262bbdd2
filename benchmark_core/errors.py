"""Benchmark core: the error tree. Every error that crosses a layer is one of these.

    UserSimGuardError
    ├── InputError            a file, a flag or a field that the user must mend
    ├── ChatError             one chat request that yielded no usable completion; `cause` says why
    ├── SimulatorError        a simulator gave no reply; `cause` says why
    ├── JudgeError            a judge broke (a missing verdict is the value `Unjudged`, not an error)
    ├── DatabaseError
    │   ├── ServerError       the server cannot be had
    │   ├── QueryError        a statement failed; carries the SQLSTATE
    │   └── QueryTimeout      a statement was stopped at its deadline
    ├── JailUnavailable       this machine cannot lock hostile test code in
    ├── LedgerError
    │   └── DigestMismatch    the run on disk is of another simulator, suite or judge
    └── CertificateError      a certificate that does not verify

`suites.SuiteError` (bad suite data) stands beside the tree: suites import nothing of ours.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum

from benchmark_core.chat import Completion


class UserSimGuardError(Exception):
    """Root of the tree."""


class InputError(UserSimGuardError):
    """Something that the user gave and must mend: the message says what was expected and what to do."""


class ChatFailure(StrEnum):
    """Why a chat request yielded no usable completion."""

    UNAVAILABLE = "unavailable"  # connection refused or broken, 5xx after retries
    RATE_LIMITED = "rate_limited"  # 429 after retries
    TIMEOUT = "timeout"  # the deadline passed
    REJECTED = "rejected"  # 4xx: authentication, unknown model, unknown parameter, context too long
    TRUNCATED = "truncated"  # finish_reason "length", also after the retry with a larger budget
    EMPTY = "empty"  # no text, finish_reason "stop"
    REFUSED = "refused"  # the provider's own refusal field
    FILTERED = "filtered"  # finish_reason "content_filter"
    MALFORMED = "malformed"  # 200, but not a chat completion


class ChatError(UserSimGuardError):
    """One chat request failed.

    Args:
        cause: what kind of failure.
        detail: for people and logs; never becomes data, never holds a key.
        attempts: requests sent.
        spent: the books of a completion that was paid and of no use: model and tokens, no text.
    """

    def __init__(self, cause: ChatFailure, detail: str, *, attempts: int = 1, spent: Completion | None = None) -> None:
        super().__init__(f"{cause}: {detail}")
        self.cause, self.detail, self.attempts, self.spent = cause, detail, attempts, spent


class SimulatorFailure(StrEnum):
    """Why a simulator gave no reply: a chat failure, or one of its own."""

    UNAVAILABLE = "unavailable"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    REFUSED = "refused"
    FILTERED = "filtered"
    MALFORMED = "malformed"
    PROTOCOL_ERROR = "protocol_error"  # stage 1 named no valid action, also after the format reminder
    ACTION_AS_REPLY = "action_as_reply"  # the reply was only an action
    CRASHED = "crashed"  # any other exception


class SimulatorError(UserSimGuardError):
    """A simulator gave no reply. `completions` are the calls that were paid all the same."""

    def __init__(self, cause: SimulatorFailure, detail: str, *, completions: tuple[Completion, ...] = ()) -> None:
        super().__init__(f"{cause}: {detail}")
        self.cause, self.detail, self.completions = cause, detail, completions


class JudgeError(UserSimGuardError):
    """A judge broke."""


class DatabaseError(UserSimGuardError):
    """Anything of PostgreSQL."""


class ServerError(DatabaseError):
    """The server cannot be started, reached or stopped."""


class QueryError(DatabaseError):
    """A statement failed. `sqlstate` is PostgreSQL's five-character code, or None."""

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class QueryTimeout(DatabaseError):
    """A statement was stopped at its deadline."""


class JailUnavailable(UserSimGuardError):
    """Test cases cannot be run here: the message says which lock the machine refuses, and with which error."""


class LedgerError(UserSimGuardError):
    """A ledger that cannot be read or written."""


class DigestMismatch(LedgerError):
    """The run on disk has another identity; the message names what differs."""


class CertificateError(UserSimGuardError):
    """A certificate that does not verify; the message names what differs."""


@asynccontextmanager
async def boundary(error: type[UserSimGuardError], doing: str) -> AsyncIterator[None]:
    """Turn a stray exception into the type of the boundary that it crossed; errors of the tree pass as they are."""
    try:
        yield
    except UserSimGuardError:
        raise
    except Exception as stray:
        raise error(f"{doing}: {type(stray).__name__}: {stray}") from stray
