"""Guard: what `doctor` looks at of the parts: PostgreSQL, suite and gold, keys, endpoints. Starts no server."""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmark_core.errors import InputError, ServerError
from benchmark_core.postgres import server as servers
from benchmark_core.postgres.install import locate
from benchmark_core.postgres.limits import unenforced
from guard.choices import EndpointChoice, Role
from guard.finding import Finding
from guard.preflight_checks import Target, check_endpoint
from guard.signing import load_private_key
from suites.errors import SuiteError
from suites.load import load
from suites.manifest import count
from suites.suite import Part, Suite, how_to_get

SIGNING_VARIABLE = "USERSIM_GUARD_SIGNING_KEY"
_POSTGRES = "postgresql"
_LEAST_TOKENS = 1024  # budget of a reply unless `score --max-tokens` says otherwise


def check_postgres(dsn: str | None, state_dir: Path) -> Iterator[Finding]:
    """The server that a run would use: the external one, or the embedded one's binaries and whether it runs."""
    try:
        yield from _external(dsn) if dsn else [_embedded(state_dir)]
    except ServerError as error:
        own = "mend USERSIM_GUARD_DSN, or unset it to use the embedded server"
        embedded = "do what the message says, or name a server of your own in USERSIM_GUARD_DSN"
        yield Finding(_POSTGRES, "fail", str(error), own if dsn else embedded)


def _external(dsn: str) -> Iterator[Finding]:
    server = servers.external(dsn)  # also sees to version and rights
    version = f"{server.version // 10000}.{server.version % 10000}"
    yield Finding(_POSTGRES, "ok", f"the server of USERSIM_GUARD_DSN answers, version {version}")
    for limit in asyncio.run(unenforced(server)):
        yield Finding(_POSTGRES, "warn", limit.what, limit.repair)


def _embedded(state_dir: Path) -> Finding:
    version = _binaries()
    running = servers.status(state_dir)
    state = f"running, pid {running.pid}" if running else "not running, which is fine: it is started when needed"
    return Finding(_POSTGRES, "ok", f"embedded binaries, version {version}; {state}")


def _binaries() -> str:
    """The version that the embedded binaries name when they are run."""
    install = locate()
    try:
        with tempfile.TemporaryDirectory(prefix="usg-doctor-") as folder:
            said = Path(folder) / "version"
            install.run(["postgres", "--version"], cwd=Path("/"), log=said)
            found = re.search(r"\d+(\.\d+)*", said.read_text(encoding="utf-8", errors="replace"))
    finally:
        if install.copy:
            shutil.rmtree(install.copy, ignore_errors=True)
    return found[0] if found else "unknown"


def check_suite(root: Path) -> Iterator[Finding]:
    """Whether the suite can be read, and, of an official one, what it lacks."""
    try:
        suite = load(root)
    except SuiteError as error:
        yield Finding(
            "data", "fail", str(error), "mend what the message names; usersim-guard data check reads it again"
        )
        return
    counts = ", ".join(f"{name} {value}" for name, value in count(suite.tasks, suite.questions).items())
    yield Finding("data", "ok", f"{suite.name} {suite.version}: {counts}; {suite.digest}")
    yield from _lacking(suite)


def _lacking(suite: Suite) -> Iterator[Finding]:
    if not suite.official:
        yield Finding("gold", "ok", "part of the open suite")
        return
    asked = len({question.key.instance_id for question in suite.questions})
    for part in Part:
        lacking = len(set(suite.lacking[part]))
        seen = f"{asked - lacking} of {asked} tasks that are asked about have it"
        yield Finding(part.value, "warn" if lacking else "ok", seen, how_to_get(part) if lacking else "")


def check_signing_key(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The key that certificates are signed with: readable, an Ed25519 key, for its owner alone."""
    named = environment.get(SIGNING_VARIABLE)
    if not named:
        yield Finding("signing key", "skipped", f"{SIGNING_VARIABLE} is not set: certificates will be self-issued")
        return
    path = Path(named)
    try:
        load_private_key(path)
        mode = path.stat().st_mode & 0o777
    except InputError as error:
        yield Finding("signing key", "fail", str(error), f"openssl genpkey -algorithm ed25519 -out {path}")
        return
    if mode & 0o077:
        yield Finding("signing key", "fail", f"{path}: others can use it (mode {mode:03o})", f"chmod 600 {path}")
    else:
        yield Finding("signing key", "ok", f"{path}: an Ed25519 key, mode {mode:03o}")


def check_key(role: Role, choice: EndpointChoice | None) -> Iterator[Finding]:
    """Whether the variable that should hold an endpoint's key is set. Its value is never shown."""
    if choice is None:
        return
    name, variable = f"{role.value} key", choice.api_key_env
    if os.environ.get(variable):
        yield Finding(name, "ok", f"{variable} is set")
        return
    repair = f"export {variable}=…, unless the server needs no key"
    yield Finding(name, "warn", f"{variable} is not set: requests carry no key", repair)


async def check_served(role: Role, choice: EndpointChoice | None) -> list[Finding]:
    """The free part of the preflight of one endpoint."""
    if choice is None:
        flags = "--judge-model and --judge-base-url" if role is Role.JUDGE else "--model and --base-url"
        return [Finding(f"{role.value} endpoint", "skipped", f"none was named ({flags})")]
    try:
        target = Target.of(role, choice)
    except InputError as error:
        return [Finding(f"{role.value} endpoint", "fail", str(error), "mend the flag or variable that it names")]
    return list((await check_endpoint(target, None, _LEAST_TOKENS)).findings)
