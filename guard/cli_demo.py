"""Guard: the two demos on the command line: the whole job on the controls, and a tiny real model as a backbone."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from benchmark_core.chat import Decoding
from guard.certify import certify_run
from guard.choices import Choices, EndpointChoice, JudgeChoice, SimulatorChoice
from guard.cli_data import audit, get_server, show_audit
from guard.demo import Controls, JudgeErrors, false_alarms, missed_faults, score_controls
from guard.exit_codes import ExitCode
from guard.options import SuiteOption
from guard.report import write_report
from guard.runs import RunFolder, run
from guard.scoring import Scope
from guard.show import PLAIN, bounds, console, judge_line, out, percent, show_decision, show_scorecard, watching
from suites.load import OPEN, load
from suites.questions import Kind

if TYPE_CHECKING:
    from guard.local_model import LocalModel

OutOption = Annotated[Path | None, typer.Option("--out", help="Folder for the runs; runs/demo-<time> by default.")]


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
    _show_judge_errors(false_alarms(loaded), missed_faults(loaded))
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


def _show_judge_errors(alarms: JudgeErrors, missed: JudgeErrors) -> None:
    for errors, says in ((alarms, "rejects {} right answers in other words"), (missed, "accepts {} faulty replies")):
        counted = f"{len(errors.wrong)} of {errors.replies}"
        out.print(f"The rule judge {says.format(counted)} ({percent(errors.share)}).", highlight=False)


def demo_llm(
    limit: Annotated[int, typer.Option(min=3, help="Questions in the stratified sample.")] = 18,
    suite: SuiteOption = OPEN,
    out_folder: OutOption = None,
) -> None:
    """Score a tiny real model as a backbone, with itself as LLM judge: a smoke test that ends in an honest refusal."""
    from guard.local_model import serve  # needs the extra `local`

    folder, loaded = RunFolder(_folder("demo-llm", out_folder)), load(suite)
    first_of_each = {task.brief.database: task.instance_id for task in reversed(loaded.tasks)}
    # few tasks and a server for each role: the model re-reads no prompt whose beginning it has just seen
    scope = Scope(tasks=tuple(sorted(first_of_each.values())), limit=limit)
    with serve() as backbone, serve() as judge:
        out.print(
            f"Backbone and judge: {backbone.model}, a smoke-test model; its numbers mean nothing.", highlight=False
        )
        decoding = Decoding(max_tokens=160, reasoning_effort=None)
        choices = Choices(
            SimulatorChoice("baseline", _local(backbone), decoding=decoding),
            JudgeChoice(_local(judge), decoding=decoding),
            concurrency=2,
        )
        with watching() as watch:
            counted = run(loaded, choices, scope, folder, watch)
    show_scorecard(counted, folder, as_json=False)
    document = certify_run(loaded, folder)
    write_report(loaded, folder)
    code = show_decision(document, folder, as_json=False)
    out.print(f"Report: {folder.report}", markup=False, highlight=False, soft_wrap=True)
    if code is ExitCode.OK:
        console.print("HARNESS CHECK FAILED: a smoke-test model was certified", style="red")
    raise typer.Exit(ExitCode.FINDINGS if code is ExitCode.OK else ExitCode.OK)


def _local(served: "LocalModel") -> EndpointChoice:
    return EndpointChoice(served.model, served.base_url, deadline_s=300)
