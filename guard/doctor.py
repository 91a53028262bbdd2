"""Guard: looks at everything that a run needs, all at once, and ends in time whatever hangs."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from benchmark_core.errors import UserSimGuardError, boundary
from guard import doctor_machine as machine
from guard import doctor_parts as parts
from guard.choices import EndpointChoice, Role
from guard.doctor_names import check_names
from guard.finding import Finding

SCHEMA = "usersim-guard/doctor/1"
DEADLINE_S = 20.0
"""Of each check, in seconds. They run side by side, so this is the length of the whole at most."""

Check = Callable[[], Awaitable[Sequence[Finding]]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be looked at, beside the machine.

    Attributes:
        out: folder of runs.
        state_dir: of the embedded server.
        dsn: of an external one; None: the embedded one is used.
    """

    suite: Path
    out: Path
    state_dir: Path
    dsn: str | None = field(default=None, repr=False)
    simulator: EndpointChoice | None = None
    judge: EndpointChoice | None = None


async def diagnose(wanted: Wanted, *, deadline_s: float = DEADLINE_S) -> list[Finding]:
    """All findings, in the order of the checks. A check that breaks or hangs is a finding, not an end of the others."""
    done = await asyncio.gather(*(_watched(name, run, deadline_s) for name, run in _checks(wanted)))
    return [finding for findings in done for finding in findings]


def to_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """`usersim-guard/doctor/1`."""
    return {"schema": SCHEMA, "checks": [finding.to_json() for finding in findings]}


def _checks(wanted: Wanted) -> list[tuple[str, Check]]:
    ends = {Role.SIMULATOR: wanted.simulator, Role.JUDGE: wanted.judge}
    blocking: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("python", machine.check_python),
        ("packages", machine.check_packages),
        ("package names", check_names),
        ("postgresql", partial(parts.check_postgres, wanted.dsn, wanted.state_dir)),
        ("room for runs", partial(machine.check_room, "runs", wanted.out)),
        ("room for server state", partial(machine.check_room, "server state", wanted.state_dir)),
        ("/dev/shm", machine.check_shared_memory),
        ("memory", machine.check_memory),
        ("open files", machine.check_open_files),
        ("temporary files", machine.check_temporary),
        ("clock", machine.check_clock),
        ("scheduler", machine.check_scheduler),
        ("data", partial(parts.check_suite, wanted.suite)),
        ("signing key", partial(parts.check_signing_key, os.environ)),
        *((f"{role.value} key", partial(parts.check_key, role, end)) for role, end in ends.items()),
    ]
    checks: list[tuple[str, Check]] = [(name, partial(_in_thread, work)) for name, work in blocking]
    return checks + [(f"{role.value} endpoint", partial(parts.check_served, role, end)) for role, end in ends.items()]


async def _watched(name: str, run: Check, deadline_s: float) -> Sequence[Finding]:
    try:
        async with asyncio.timeout(deadline_s), boundary(UserSimGuardError, "the check broke"):
            return await run()
    except TimeoutError:
        return [Finding(name, "fail", f"no result within {deadline_s:g} s", "see what hangs: a disk, a lock, a server")]
    except UserSimGuardError as error:
        return [Finding(name, "fail", str(error), "mend what the message names, or report it as a fault of doctor")]


async def _in_thread(work: Callable[[], Iterable[Finding]]) -> Sequence[Finding]:
    """Run what blocks in a thread that the process does not wait for: a dead network disk never lets go of one."""
    future: Future[Sequence[Finding]] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            found = list(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the result is awaited
            future.set_exception(error)
        else:
            future.set_result(found)

    Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)
