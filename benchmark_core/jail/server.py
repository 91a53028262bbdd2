"""Benchmark core: the fork server of the jail, started by exec with an empty environment. It never sees a job.

It has imported all that a test may use, given up its rights and locked itself away from files; for each connection
that it is handed it forks a child that locks itself in for good and runs one test case.

Control messages, one JSON list each: in `[id, cpu_s]` with a descriptor, and `["kill", id]`; out `["open", note]` or
`["refused", why]` once, then `["ended", id, status]` per test, with the status of waitpid(2).
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from benchmark_core.jail import lock
from benchmark_core.jail.child import run_job

CONTROL_FD = 3
BAD_LOCK = 97
"""Exit status of a child that could not be locked in."""

_MODULES = (
    "_strptime bisect calendar collections.abc copy ctypes dataclasses datetime decimal difflib encodings.ascii "
    "encodings.idna encodings.latin_1 encodings.utf_16 encodings.utf_32 encodings.utf_8 enum fractions functools "
    "heapq inspect itertools json linecache math numbers operator os pprint random re statistics string struct "
    "textwrap time traceback types typing unicodedata uuid zoneinfo"
).split()


def main() -> None:
    """Serve until the control connection ends."""
    control = socket.socket(fileno=CONTROL_FD)
    try:
        note = _prepare()
        _try_lock()
    except OSError as error:
        control.send(json.dumps(["refused", f"{error.strerror}: {os.strerror(error.errno or 0)}"]).encode())
        return
    control.send(json.dumps(["open", note]).encode())
    gc.freeze()
    _serve(control)


def _prepare() -> str:
    """Import, then lock. Returns what could not be locked, or ""."""
    for name in _MODULES:
        importlib.import_module(name)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(CONTROL_FD + 1, 65_536)
    lock.drop_rights()
    try:
        lock.deny_files()
    except OSError as error:
        return f"{error.strerror}: {os.strerror(error.errno or 0)}"
    return ""


def _try_lock() -> None:
    """Lock a child that does nothing. Raises: OSError: it cannot be locked."""
    inner, outer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lock.limit(5)
            os.dup2(outer, lock.JOB_FD)
            lock.deny_calls()
        except OSError as error:
            with suppress(OSError):
                os.write(lock.JOB_FD, json.dumps([error.errno, error.strerror]).encode())
        os._exit(0)
    os.close(outer)
    found = os.read(inner, 4096)
    os.close(inner)
    _, status = os.waitpid(child, 0)
    if found:
        raise OSError(*json.loads(found))
    if status:
        raise OSError(0, f"the locked child ended with status {status}")


def _serve(control: socket.socket) -> None:
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}  # pid -> id
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _reap(control, children)
        if control in ready:
            message, handles, _, _ = socket.recv_fds(control, 4096, 1)
            if not message:
                return
            first, second = json.loads(message)
            if first == "kill":
                for pid in [pid for pid, number in children.items() if number == second]:
                    os.kill(pid, signal.SIGKILL)
                continue
            pid = _fork(lambda handle=handles[0], cpu_s=second: _child(handle, cpu_s))  # type: ignore[misc]
            os.close(handles[0])
            children[pid] = first


def _reap(control: socket.socket, children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        control.send(json.dumps(["ended", children.pop(pid), status]).encode())


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        status = BAD_LOCK
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def _child(handle: int, cpu_s: int) -> None:
    """Lock in for good, then run the test."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    lock.die_with_parent()
    os.dup2(handle, lock.JOB_FD)
    os.closerange(lock.JOB_FD + 1, 65_536)
    os.close(0)
    lock.limit(cpu_s)
    lock.deny_calls()
    run_job()
