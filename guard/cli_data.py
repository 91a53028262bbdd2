"""Guard: the command line for the gold audit, the PostgreSQL server and the tiny local model."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmark_core.postgres import server as servers
from benchmark_core.postgres.dump_files import find_dumps
from benchmark_core.postgres.dumps import Loaded, load_dump
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.templates import workspace
from guard.audit import AuditReport, audit_gold
from guard.exit_codes import ExitCode
from guard.options import JsonOption, SuiteOption
from guard.runs import write_atomically
from guard.show import PLAIN, console, out
from suites.load import OPEN, Suite, load

audit_app = typer.Typer(help="Check that the reference solutions are right.", no_args_is_help=True)
db_app = typer.Typer(help="The embedded, throw-away PostgreSQL.", no_args_is_help=True)

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
    raise typer.Exit(ExitCode.FINDINGS if report.faults or report.broken_questions else ExitCode.OK)


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


@db_app.command()
def start(as_json: JsonOption = False) -> None:
    """Start the embedded server, or attach to it."""
    server = get_server()
    how = "started" if server.started else "running"
    _say_server(f"{_name(server)} {how}", {"state": how, "version": server.version}, as_json=as_json)


@db_app.command()
def stop(as_json: JsonOption = False) -> None:
    """Stop the embedded server and remove its data."""
    state = "stopped" if servers.stop(state_dir()) else "was not running"
    _say_server(state, {"state": state}, as_json=as_json)


@db_app.command()
def status(as_json: JsonOption = False) -> None:
    """Whether the embedded server runs."""
    server = servers.status(state_dir())
    if server is None:
        _say_server("not running", {"state": "not running"}, as_json=as_json)
        raise typer.Exit(ExitCode.INFRASTRUCTURE)
    found: dict[str, str | int | None] = {"state": "running", "version": server.version, "pid": server.pid}
    _say_server(f"{_name(server)}, pid {server.pid}", found, as_json=as_json)


@db_app.command("load")
def load_dumps(
    path: Annotated[Path, typer.Argument(help="A folder of .sql files, a folder of such folders, or a file.")],
    as_json: JsonOption = False,
) -> None:
    """Load databases from plain dumps, as BIRD-Interact publishes them. The same dump is loaded once."""
    dumps = find_dumps(path)
    done: list[Loaded] = []
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("loading", total=sum(dump.bytes for dump in dumps))

        async def work() -> None:
            async with workspace(get_server()) as space:
                for dump in dumps:
                    bar.update(task, description=escape(dump.name))
                    done.append(await load_dump(space, dump, lambda count: bar.advance(task, count)))

        asyncio.run(work())
    if as_json:
        rows = [{**asdict(one), "template": one.template.name} for one in done]
        out.print_json(json.dumps(rows))
        return
    table = Table("database", "tables", "rows", "passed over", **PLAIN)
    for one in done:
        table.add_row(escape(one.name), str(one.tables), f"{one.rows:,}", str(one.passed_over))
    out.print(table)


def _name(server: Server) -> str:
    return f"PostgreSQL {server.version // 10000}.{server.version % 10000}"


def _say_server(words: str, found: Mapping[str, str | int | None], *, as_json: bool) -> None:
    if as_json:
        out.print_json(json.dumps(found))
    else:
        out.print(words, highlight=False)


def local_model(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 8091,
) -> None:
    """Serve the tiny smoke-test model (SmolLM2-135M) over HTTP. It is neither a judge nor a safe simulator."""
    from guard.local_model import serve

    with serve(port=port) as served:
        out.print(f"{served.model} at {served.base_url} (a smoke-test model; Ctrl-C stops it)", highlight=False)
        asyncio.run(asyncio.Event().wait())
