"""Guard: the two demos on the command line: the whole job on the controls, and a tiny real model as a backbone."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmark_core.chat import Decoding
from guard.certify import certify_run
from guard.cli_data import audit, get_server, show_audit
from guard.demo import Controls, FalseAlarms, false_alarms, score_controls
from guard.exit_codes import ExitCode
from guard.report import write_report
from guard.runs import Counted, RunFolder, run
from guard.scoring import Scope
from guard.show import PLAIN, bounds, console, judge_line, out, percent, show_decision, show_scorecard, watching
from guard.wiring import Choices, EndpointChoice, JudgeChoice, SimulatorChoice
from suites.load import OPEN, load
from suites.questions import Kind

OutOption = Annotated[Path | None, typer.Option("--out", help="Folder for the runs; runs/demo-<time> by default.")]
SuiteOption = Annotated[Path, typer.Option("--suite", help="Suite folder; the open suite by default.")]


def _folder(name: str, given: Path | None) -> Path:
    return given or Path("runs") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def demo(suite: SuiteOption = OPEN, out_folder: OutOption = None) -> None:
    """Start PostgreSQL, audit the gold, score the controls, print their table. Needs no model."""
    folder, loaded = _folder("demo", out_folder), load(suite)
    server = get_server()
    out.print(f"PostgreSQL {server.version // 10000}.{server.version % 10000} is running.", highlight=False)
    audited = audit(loaded, server)
    show_audit(audited)
    scope = Scope(excluded_tasks=tuple(sorted(audited.ungradable)))
    controls = score_controls(loaded, scope, folder, watching)
    out.print(judge_line(controls.counted["oracle"]), highlight=False)
    out.print(_controls_table(controls))
    out.print(_doses_table(controls))
    alarms = false_alarms(loaded)
    _show_alarms(alarms)
    for name in ("oracle", "leaky", "mute"):
        certify_run(loaded, RunFolder(folder / name))
        write_report(loaded, RunFolder(folder / name))
    out.print(f"Reports: {folder}/{{oracle,leaky,mute}}/report.html", markup=False, highlight=False)
    broken = [e for e in controls.expectations() if not e.holds]
    for expectation in broken:
        console.print(
            f"HARNESS CHECK FAILED: {expectation.control}: {expectation.says}", style="bold red", markup=False
        )
    if not broken:
        out.print("Harness check: all expectations of the controls hold. (A check of the measure, not a result.)")
    raise typer.Exit(ExitCode.FINDINGS if broken or audited.findings else ExitCode.OK)


def _controls_table(controls: Controls) -> Table:
    table = Table("control", "kind", "n", "rate", "95 % interval", "leaks", "verdict", title="Controls", **PLAIN)
    for name in ("oracle", "leaky", "mute"):
        for kind, score in controls.counted[name].scorecard.kinds.items():
            table.add_row(
                name if kind is Kind.AMB else "",
                kind,
                str(score.total.rows),
                percent(score.rate),
                bounds(score.gate.interval),
                str(score.evidence["any"]),
                controls.verdict(name, kind),
            )
    return table


def _doses_table(controls: Controls) -> Table:
    title = "Dose-response: a known share of faulty replies must be found again"
    table = Table("faults mixed in", "share", "kind", "rate", "95 % interval", "covers", title=title, **PLAIN)
    for dose in controls.doses:
        table.add_row(
            dose.fault.replace("_", " "),
            percent(dose.share),
            dose.kind,
            percent(dose.score.rate),
            bounds(dose.score.gate.interval),
            "yes" if dose.covers else "NO",
        )
    return table


def _show_alarms(alarms: FalseAlarms) -> None:
    out.print(
        f"Rule judge's false alarms: {len(alarms.rejected)} of {alarms.replies} right answers in other words "
        f"({percent(alarms.share)}).",
        highlight=False,
    )


def demo_llm(
    limit: Annotated[int, typer.Option(min=3, help="Questions in the stratified sample.")] = 24,
    suite: SuiteOption = OPEN,
    out_folder: OutOption = None,
) -> None:
    """Score a tiny real model as a backbone, with itself as LLM judge: a smoke test that ends in an honest refusal."""
    from guard.local_model import serve

    folder, loaded = RunFolder(_folder("demo-llm", out_folder)), load(suite)
    with serve(port=0) as served:
        out.print(f"Backbone and judge: {served.model}, a smoke-test model; its numbers mean nothing.", highlight=False)
        endpoint = EndpointChoice(served.model, served.base_url, deadline_s=300)
        short = Decoding(max_tokens=200, reasoning_effort=None)
        choices = Choices(
            SimulatorChoice("function-driven", endpoint, decoding=short),
            JudgeChoice(endpoint, decoding=short),
            concurrency=2,
        )
        with watching() as watch:
            counted: Counted = run(loaded, choices, Scope(limit=limit), folder, watch)
    show_scorecard(counted, folder, as_json=False)
    document = certify_run(loaded, folder)
    write_report(loaded, folder)
    code = show_decision(document, folder, as_json=False)
    out.print(f"Report: {folder.report}", markup=False, highlight=False)
    if code is ExitCode.OK:
        console.print("HARNESS CHECK FAILED: a smoke-test model was certified", style="bold red")
    raise typer.Exit(ExitCode.FINDINGS if code is ExitCode.OK else ExitCode.OK)
