"""Benchmark core: runs test cases, which are hostile code, where they can reach nothing but a few questions.

What a test says of itself can be forged by it. So "passed" means only that its process was ready, asked, said so once
and ended well; that it tells the reference from doing nothing is checked by who grades (`grading.cases`).
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmark_core.errors import JailUnavailable
from benchmark_core.jail import wire
from benchmark_core.jail.job import Broken, BrokenCause, Channel, Failed, Job, Passed
from benchmark_core.jail.server import CONTROL_FD

_LOG = logging.getLogger(__name__)
_ROOT = Path(__file__).resolve().parents[2]
_SERVER = "from benchmark_core.jail.server import main; main()"
_TOTAL_BYTES = 64 << 20
_START_S, _REAP_S = 30.0, 5.0


class Jail:
    """Runs test cases, each in a process of its own. Made by `jail`."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._numbers = count(1)
        self._ended: dict[int, asyncio.Future[int]] = {}
        self._listening = asyncio.create_task(self._listen())

    async def run(self, job: Job, channel: Channel) -> Passed | Failed | Broken:
        """Run one test case. What it asks of the database is asked of `channel`, whose errors pass through."""
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        ended = self._ended[number] = asyncio.get_running_loop().create_future()
        try:
            with theirs:
                socket.send_fds(
                    self._control, [json.dumps([number, max(1, round(job.deadline_s))]).encode()], [theirs.fileno()]
                )
        except OSError as error:
            ours.close()
            del self._ended[number]
            return Broken(BrokenCause.JAIL, f"its server is gone: {error}")
        reader, writer = await asyncio.open_connection(sock=ours)
        talk = _Talk(reader, writer, channel)
        try:
            async with asyncio.timeout(job.deadline_s):
                said = await talk.test(job)
                status = await ended
        except TimeoutError:
            return Broken(BrokenCause.TIMEOUT, f"stopped after {job.deadline_s:g} s")
        except wire.WireError as error:
            self._kill(number)
            return _ended_early(await ended, talk.ready, str(error))
        finally:
            writer.transport.abort()
            self._kill(number)
            await asyncio.wait({ended}, timeout=_REAP_S)
            del self._ended[number]
        if status != 0:
            return _ended_early(status, talk.ready, "it did not end as it should")
        return said

    async def close(self) -> None:
        """End what still runs."""
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    def _kill(self, number: int) -> None:
        if not self._ended[number].done():
            with suppress(OSError):
                self._control.send(json.dumps(["kill", number]).encode())

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        while message := await loop.sock_recv(self._control, 4096):
            _, number, status = json.loads(message)
            if (ended := self._ended.get(number)) is not None and not ended.done():
                ended.set_result(status)
        for ended in self._ended.values():  # the server is gone, and its children with it
            if not ended.done():
                ended.set_result(signal.SIGKILL)


@dataclass(slots=True)
class _Talk:
    """The conversation with one test: ready, questions, done, the end; anything else is an error."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    channel: Channel
    ready: bool = False
    received: int = 0

    async def test(self, job: Job) -> Passed | Failed | Broken:
        if (await self._receive()) != {"kind": "ready"}:
            raise wire.WireError("it was not ready")
        self.ready = True
        fields = "code", "pred_sqls", "sol_sqls", "conditions", "pred_query_result"
        await self._send({name: getattr(job, name) for name in fields})
        while True:
            match await self._receive():
                case {"kind": "sql", "queries": [*queries]} if _all_texts(queries):
                    await self._send(asdict(await self.channel.execute(tuple(queries))))
                case {"kind": "ex_base", "pred": [*pred], "sol": [*sol], "order": bool(order)} if _all_texts(
                    pred + sol
                ):
                    await self._send({"same": await self.channel.ex_base(tuple(pred), tuple(sol), order)})
                case {"kind": "done", "outcome": str(outcome), "message": str(message)}:
                    if await self.reader.read(1):
                        raise wire.WireError("it went on after its end")
                    return _said(outcome, message)
                case _:
                    raise wire.WireError("it asked what it may not")

    async def _send(self, message: Any) -> None:
        try:
            self.writer.write(wire.pack(message))
            await self.writer.drain()
        except OSError as error:
            raise wire.WireError(str(error)) from None

    async def _receive(self) -> Any:
        try:
            size = wire.length(await self.reader.readexactly(wire.HEAD_BYTES))
            self.received += size
            if self.received > _TOTAL_BYTES:
                raise wire.WireError("it said too much")
            return wire.unpack(await self.reader.readexactly(size))
        except (OSError, EOFError) as error:
            raise wire.WireError(str(error)) from None


def _all_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _said(outcome: str, message: str) -> Passed | Failed | Broken:
    match outcome:
        case "passed":
            return Passed()
        case "failed":
            return Failed(message)
        case "not_code" | "no_test_function" | "test_error" | "limit":
            return Broken(BrokenCause(outcome), message)
    raise wire.WireError("it ended with no known outcome")


def _ended_early(status: int, ready: bool, why: str) -> Broken:
    code = os.waitstatus_to_exitcode(status)
    if not ready:
        return Broken(BrokenCause.JAIL, f"a test could not be locked in: status {code}, {why}")
    if -code == signal.SIGXCPU:
        return Broken(BrokenCause.TIMEOUT, "it used all its processor time")
    if -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        return Broken(BrokenCause.LIMIT, f"ended by signal {-code}")
    return Broken(BrokenCause.PROTOCOL, f"status {code}, {why}")


@asynccontextmanager
async def jail() -> AsyncIterator[Jail]:
    """Open a jail.

    Raises:
        JailUnavailable: the machine refuses the lock.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with ours:
        with theirs:
            server = await _start(theirs.fileno())
        try:
            await _opened(ours)
            opened = Jail(ours)
            try:
                yield opened
            finally:
                await opened.close()
        finally:
            ours.close()
            with suppress(ProcessLookupError):
                server.kill()
            await server.wait()


async def _start(control_fd: int) -> asyncio.subprocess.Process:
    """By exec, never by fork alone: this process holds gold."""
    code = f"import os, sys; os.dup2({control_fd}, {CONTROL_FD}); sys.path.insert(0, {str(_ROOT)!r}); {_SERVER}"
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-B", "-X", "utf8", "-c", code),
            pass_fds=(control_fd,),
            env={},
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise JailUnavailable(f"its server does not start: {error}") from None


async def _opened(control: socket.socket) -> None:
    try:
        async with asyncio.timeout(_START_S):
            message = await asyncio.get_running_loop().sock_recv(control, 4096)
    except TimeoutError:
        raise JailUnavailable("its server does not start in time") from None
    said = json.loads(message) if message else ["refused", "its server does not start"]
    if said[0] != "open":
        raise JailUnavailable(said[1])
    if said[1]:
        _LOG.warning("test cases are locked in without Landlock (%s): by seccomp alone", said[1])
