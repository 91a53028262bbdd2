"""Guard: the command line for `doctor`: a line a check, with its repair."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from guard.choices import EndpointChoice
from guard.cli_data import DSN_VARIABLE, state_dir
from guard.doctor import Wanted, diagnose, to_json
from guard.exit_codes import ExitCode
from guard.finding import Finding, Level
from guard.options import JsonOption, SuiteOption
from guard.show import PLAIN, out
from suites.load import OPEN

OPENAI = "https://api.openai.com/v1"
_STYLES: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}


def doctor(  # noqa: PLR0913 - one parameter a flag
    suite: SuiteOption = OPEN,
    model: Annotated[str | None, typer.Option(help="Model behind the simulator (the backbone).")] = None,
    base_url: Annotated[str, typer.Option(help="Its OpenAI-compatible endpoint.", envvar="OPENAI_BASE_URL")] = "",
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds its key.")] = "OPENAI_API_KEY",
    judge_model: Annotated[str | None, typer.Option(help="Model of the LLM judge.")] = None,
    judge_base_url: Annotated[str, typer.Option(help="Its endpoint.", envvar="USERSIM_GUARD_JUDGE_BASE_URL")] = "",
    judge_api_key_env: Annotated[str, typer.Option(help="Variable with its key.")] = "OPENAI_API_KEY",
    out_folder: Annotated[Path, typer.Option("--out", help="Where runs will be written.")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Look at everything that a run needs, and say what is to be mended. Pays for nothing and starts nothing."""
    simulator, judge = _choice(model, base_url, api_key_env), _choice(judge_model, judge_base_url, judge_api_key_env)
    wanted = Wanted(suite, out_folder, state_dir(), os.environ.get(DSN_VARIABLE), simulator, judge)
    findings = asyncio.run(diagnose(wanted))
    if as_json:
        out.print_json(json.dumps(to_json(findings)))
    else:
        out.print(_table(findings))
        _sum_up(findings)
    raise typer.Exit(ExitCode.FINDINGS if any(finding.level == "fail" for finding in findings) else ExitCode.OK)


def _choice(model: str | None, base_url: str, key_env: str) -> EndpointChoice | None:
    return EndpointChoice(model, base_url or OPENAI, key_env) if model is not None else None


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(**PLAIN)
    for name in ("check", "result", "seen, and what to do"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        says = f"{finding.seen}\n→ {finding.repair}" if finding.repair else finding.seen
        table.add_row(Text(finding.name), Text(finding.level, _STYLES[finding.level]), Text(says))
    return table


def _sum_up(findings: Sequence[Finding]) -> None:
    counts = {level: sum(finding.level == level for finding in findings) for level in _STYLES}
    out.print(", ".join(f"{count} {level}" for level, count in counts.items() if count), highlight=False)
