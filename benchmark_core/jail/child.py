"""Benchmark core: runs one test case, locked in. All that it knows of the world is its one connection.

Messages, in this order: out `ready`; in the job; out `sql` or `ex_base`, each followed by an answer, any number of
times; out `done` once. Nothing that comes after the lock is trusted by the other side.
"""

import inspect
import os
import traceback
from typing import Any, NoReturn

from benchmark_core.jail import wire
from benchmark_core.jail.helpers import Failure, namespace
from benchmark_core.jail.lock import JOB_FD

_MESSAGE_CHARS = 500


def run_job() -> None:
    """Run the test that comes over the connection, and say how it went."""
    send({"kind": "ready"})
    job = receive()
    outcome, message = _outcome(job)
    send(
        {
            "kind": "done",
            "outcome": outcome,
            "message": message.encode("ascii", "backslashreplace").decode()[:_MESSAGE_CHARS],
        }
    )


def send(message: Any) -> None:
    """Write a frame."""
    left = memoryview(wire.pack(message))
    while left:
        left = left[os.write(JOB_FD, left) :]


def receive() -> Any:
    """Read a frame. Raises: wire.WireError."""
    return wire.unpack(_read(wire.length(_read(wire.HEAD_BYTES))))


def ask(message: Any) -> Any:
    """Send a question and wait for its answer."""
    send(message)
    return receive()


def _read(count: int) -> bytes:
    parts = []
    while count:
        part = os.read(JOB_FD, count)
        if not part:
            _leave()
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _leave() -> NoReturn:
    os._exit(0)


def _outcome(job: dict[str, Any]) -> tuple[str, str]:
    names = namespace(ask, job)
    try:
        code = compile(job["code"], "test_case", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "not_code", f"{type(error).__name__}: {error}"
    try:
        exec(code, names)
        test = names.get("test_case")
        if not callable(test):
            return "no_test_function", "test_case is not defined"
        test(*_arguments(test, job, names))
    except AssertionError as error:
        return "failed", str(error) or _where(error)
    except MemoryError:
        return "limit", "out of memory"
    except Failure as error:
        return "protocol", str(error)
    except BaseException as error:  # noqa: BLE001 - hostile code may raise anything
        return "test_error", f"{type(error).__name__}: {error} {_where(error)}"
    return "passed", ""


def _arguments(test: Any, job: dict[str, Any], names: dict[str, Any]) -> list[Any]:
    given = [list(job["pred_sqls"]), list(job["sol_sqls"]), "database", names["conn"]]
    try:
        parameters = list(inspect.signature(test).parameters)
    except (TypeError, ValueError):
        return given
    return [*given, job["conditions"]] if len(parameters) > len(given) or "conditions" in parameters else given


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "test_case"]
    return f"(line {frames[-1].lineno})" if frames else ""
