"""Guard: the command line for suites, the gold audit, the PostgreSQL server and the tiny local model."""

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from benchmark_core.postgres import server as servers
from benchmark_core.postgres.server import Server
from guard.audit import AuditReport, audit_gold
from guard.exit_codes import ExitCode
from guard.runs import write_atomically
from guard.show import PLAIN, console, out
from suites.load import OPEN, Suite, load
from suites.manifest import count, read_manifest, write_manifest

audit_app = typer.Typer(help="Check that the reference solutions are right.", no_args_is_help=True)
data_app = typer.Typer(help="Check and seal suites.", no_args_is_help=True)
db_app = typer.Typer(help="The embedded, throw-away PostgreSQL.", no_args_is_help=True)

SuiteOption = Annotated[Path, typer.Option("--suite", help="Suite folder; the open suite by default.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
DSN_VARIABLE = "USERSIM_GUARD_DSN"


def state_dir() -> Path:
    """Where the embedded server keeps its state: `USERSIM_GUARD_HOME`, or below the user's cache folder."""
    home = os.environ.get("USERSIM_GUARD_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(home or cache / "usersim-guard") / "postgres"


def get_server() -> Server:
    """The external server that `USERSIM_GUARD_DSN` names, else the embedded one, started when needed.

    Raises:
        ServerError: when it cannot be had.
    """
    dsn = os.environ.get(DSN_VARIABLE)
    return servers.external(dsn) if dsn else servers.start(state_dir())


@audit_app.command("gold")
def gold(
    suite: SuiteOption = OPEN,
    out_file: Annotated[Path | None, typer.Option("--out", help="Write the report here, for `score --audit`.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Build every database, run every reference in order, list what does not hold."""
    loaded = load(suite)
    report = audit(loaded, get_server())
    text = json.dumps({"suite": loaded.digest, **report.to_json()}, indent=1)
    if out_file is not None:
        write_atomically(out_file, text)
    if as_json:
        out.print_json(text)
    else:
        show_audit(report)
    raise typer.Exit(ExitCode.FINDINGS if report.findings or report.broken_questions else ExitCode.OK)


def audit(suite: Suite, server: Server) -> AuditReport:
    """Run the gold audit over a suite."""
    with console.status(f"auditing {len(suite.tasks)} tasks"):
        return asyncio.run(audit_gold(suite.databases, suite.tasks, suite.questions, server))


def show_audit(report: AuditReport) -> None:
    """Print an audit."""
    sound = report.tasks - len(report.ungradable)
    out.print(f"Gold audit: {report.databases} databases, {sound} of {report.tasks} tasks sound.", highlight=False)
    if not report.findings and not report.broken_questions:
        return
    table = Table("where", "finding", "what is wrong", **PLAIN)
    for finding in report.findings:
        place = finding.instance_id or finding.database
        table.add_row(
            f"{place} sub-task {finding.sub_task}" if finding.sub_task else place, finding.code, finding.message
        )
    for broken in report.broken_questions:
        table.add_row(escape(str(broken.key)), broken.code, escape(broken.message))
    out.print(table)


@data_app.command()
def check(suite: SuiteOption = OPEN, as_json: JsonOption = False) -> None:
    """Read a suite as the tool does and count what is there."""
    loaded = load(suite)
    found = {
        "name": loaded.name,
        "version": loaded.version,
        "licence": loaded.licence,
        "digest": loaded.digest,
        **count(loaded.tasks, loaded.questions),
    }
    if as_json:
        out.print_json(json.dumps(found))
        return
    for name, value in found.items():
        out.print(f"{name}: {value}", markup=False, highlight=False)


@data_app.command()
def seal(suite: Annotated[Path, typer.Option("--suite", help="Suite folder.")]) -> None:
    """Rewrite manifest.toml (digests and counts) after a deliberate change of a suite."""
    loaded = load(suite, verify_manifest=False)
    write_manifest(suite, read_manifest(suite), loaded.tasks, loaded.questions)
    out.print(f"sealed: {load(suite).digest}", highlight=False)


@db_app.command()
def start() -> None:
    """Start the embedded server, or attach to it."""
    server = get_server()
    how = "started" if server.started else "running"
    out.print(f"PostgreSQL {server.version // 10000}.{server.version % 10000} {how}", highlight=False)


@db_app.command()
def stop() -> None:
    """Stop the embedded server and remove its data."""
    out.print("stopped" if servers.stop(state_dir()) else "was not running", highlight=False)


@db_app.command()
def status() -> None:
    """Whether the embedded server runs."""
    server = servers.status(state_dir())
    if server is None:
        out.print("not running", highlight=False)
        raise typer.Exit(ExitCode.INFRASTRUCTURE)
    out.print(f"PostgreSQL {server.version // 10000}.{server.version % 10000}, pid {server.pid}", highlight=False)


def local_model(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 8091,
) -> None:
    """Serve the tiny smoke-test model (SmolLM2-135M) over HTTP. It is neither a judge nor a safe simulator."""
    from guard.local_model import serve

    with serve(port=port) as served:
        out.print(f"{served.model} at {served.base_url} (a smoke-test model; Ctrl-C stops it)", highlight=False)
        asyncio.run(asyncio.Event().wait())
