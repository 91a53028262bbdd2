"""Guard: the command line. Results on stdout, progress and logs on stderr; exit codes as in `exit_codes`."""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmark_core.chat import Decoding
from benchmark_core.errors import (
    CertificateError,
    DatabaseError,
    InputError,
    LedgerError,
    UserSimGuardError,
)
from guard import __version__
from guard.certify import Papers, certify_run, verify_file
from guard.cli_data import audit_app, data_app, db_app, local_model
from guard.cli_demo import demo, demo_llm
from guard.exit_codes import ExitCode
from guard.report import write_report
from guard.runs import RunFolder, run
from guard.scoring import EndpointLost, Scope
from guard.show import console, out, show_decision, show_scorecard, watching
from guard.wiring import Choices, EndpointChoice, JudgeChoice, SimulatorChoice
from judge.rubric import Rubric
from suites.errors import SuiteError
from suites.load import OPEN, Suite, load
from suites.questions import Kind

app = typer.Typer(
    name="usersim-guard",
    help="Measures the simulated user of an interactive text-to-SQL benchmark, and certifies it or refuses.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(audit_app, name="audit")
app.add_typer(data_app, name="data")
app.add_typer(db_app, name="db")
app.command("local-model")(local_model)
app.command()(demo)
app.command("demo-llm")(demo_llm)

SuiteOption = Annotated[Path, typer.Option("--suite", help="Suite folder; the open suite by default.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
CalibrationOption = Annotated[Path | None, typer.Option(help="The judge's calibration: its error is folded in.")]
RunArgument = Annotated[Path, typer.Argument(help="Run folder, as given to `score --out`.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _configure(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more, on stderr.")] = False,
) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO if verbose else logging.WARNING, format="%(message)s")


@app.command()
def score(  # noqa: PLR0913 - one parameter a flag
    simulator: Annotated[str, typer.Option(help="baseline, function-driven, or a control: oracle, leaky, mute, …")],
    out_folder: Annotated[Path, typer.Option("--out", help="Run folder to create, or to resume.")],
    model: Annotated[str | None, typer.Option(help="Model behind the simulator (the backbone).")] = None,
    base_url: Annotated[str, typer.Option(help="Its OpenAI-compatible endpoint.", envvar="OPENAI_BASE_URL")] = "",
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds its key.")] = "OPENAI_API_KEY",
    revision: Annotated[str | None, typer.Option(help="Revision of the model, for its identity.")] = None,
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0)] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Budget of one reply, hidden reasoning included.")] = 1024,
    reasoning_effort: Annotated[str, typer.Option(help="Sent as it is; `none` sends no such field.")] = "medium",
    judge: Annotated[str, typer.Option(help="rule (no model) or llm.")] = "rule",
    judge_model: Annotated[str | None, typer.Option(help="Model of the LLM judge.")] = None,
    judge_base_url: Annotated[str, typer.Option(help="Its endpoint.", envvar="USERSIM_GUARD_JUDGE_BASE_URL")] = "",
    judge_api_key_env: Annotated[str, typer.Option(help="Variable with its key.")] = "OPENAI_API_KEY",
    rubric: Annotated[Rubric, typer.Option(help="Rubric of the LLM judge.")] = Rubric.REFERENCE,
    suite: SuiteOption = OPEN,
    kinds: Annotated[list[Kind] | None, typer.Option(help="Only these kinds (repeat); the run is partial.")] = None,
    tasks: Annotated[list[str] | None, typer.Option(help="Only these tasks (repeat); the run is partial.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="A stratified sample; the run is partial.")] = None,
    audit: Annotated[Path | None, typer.Option(help="Report of `audit gold`: ungradable tasks are kept out.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=512)] = 8,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds for one completion, retries included.")] = 120.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a simulator the labelled questions, have each reply rated, and print its scorecard."""
    effort = None if reasoning_effort == "none" else reasoning_effort
    decoding = Decoding(temperature, top_p, max_tokens, effort)
    choices = Choices(
        SimulatorChoice(simulator, _endpoint(model, base_url, api_key_env, deadline), revision, decoding),
        JudgeChoice(_judge_endpoint(judge, judge_model, judge_base_url, judge_api_key_env, deadline), rubric),
        concurrency,
    )
    folder, loaded = RunFolder(out_folder), load(suite)
    scope = Scope(tuple(kinds or Kind), tuple(tasks or ()), limit, excluded_by(audit, loaded))
    with watching(resume=resume) as watch:
        counted = run(loaded, choices, scope, folder, watch)
    raise typer.Exit(show_scorecard(counted, folder, as_json=as_json))


def _endpoint(model: str | None, base_url: str, key_env: str, deadline: float) -> EndpointChoice | None:
    if model is None:
        return None
    return EndpointChoice(model, base_url or "https://api.openai.com/v1", key_env, deadline)


def _judge_endpoint(
    judge: str, model: str | None, base_url: str, key_env: str, deadline: float
) -> EndpointChoice | None:
    if judge == "rule":
        if model is not None:
            raise InputError("--judge-model is given, but the judge is the rule judge; say --judge llm")
        return None
    if judge != "llm":
        raise InputError(f"--judge {judge}: expected rule or llm")
    endpoint = _endpoint(model, base_url, key_env, deadline)
    if endpoint is None:
        raise InputError("--judge llm needs --judge-model, and --judge-base-url for anything but api.openai.com")
    return endpoint


def excluded_by(audit: Path | None, suite: Suite) -> tuple[str, ...]:
    """The ungradable tasks that an audit report of this very suite names.

    Raises:
        InputError: it is no audit report, or one of another suite.
    """
    if audit is None:
        return ()
    try:
        found = json.loads(audit.read_text(encoding="utf-8"))
        of_suite, tasks = found["suite"], found["ungradable"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"--audit {audit}: expected the JSON of `audit gold --out` ({error})") from None
    if of_suite != suite.digest:
        raise InputError(f"--audit {audit}: is of another suite; run `audit gold --out` on this one")
    if not isinstance(tasks, list) or not set(map(str, tasks)) <= suite.oracles.keys():
        raise InputError(f"--audit {audit}: field 'ungradable': expected a list of the suite's instance ids")
    return tuple(tasks)


@app.command()
def certify(
    run_folder: RunArgument,
    suite: SuiteOption = OPEN,
    calibration: CalibrationOption = None,
    signing_key: Annotated[
        Path | None, typer.Option(help="Ed25519 private key (PEM).", envvar="USERSIM_GUARD_SIGNING_KEY")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide by the policy: a certificate or a refusal (fail, not decided), with reason codes."""
    folder = RunFolder(run_folder)
    document = certify_run(load(suite), folder, Papers(calibration, signing_key))
    raise typer.Exit(show_decision(document, folder, as_json=as_json))


@app.command()
def verify(
    certificate: Annotated[Path, typer.Argument(help="certificate.json of a run.")],
    ledger: Annotated[Path | None, typer.Option(help="Count and decide again from this ledger.jsonl.")] = None,
    suite: SuiteOption = OPEN,
    calibration: CalibrationOption = None,
    public_key: Annotated[Path | None, typer.Option(help="Trust this issuer alone (Ed25519, PEM).")] = None,
) -> None:
    """Check a certificate or refusal: digest, signature, expiry, and with --ledger every count and the decision."""
    of_run = (load(suite), ledger) if ledger else None
    found = verify_file(certificate, Papers(calibration, public_key=public_key), of_run)
    out.print(f"{found.kind} holds: {found.decision}, class {found.certificate_class}", markup=False, highlight=False)
    out.print(f"issuer {found.issuer}, attempt {found.attempt}, expires {found.expires}", markup=False, highlight=False)


@app.command()
def report(
    run_folder: RunArgument,
    suite: SuiteOption = OPEN,
    private: Annotated[bool, typer.Option("--private", help="With oracle text of suites that are not open.")] = False,
) -> None:
    """Write the run's report.html (self-contained)."""
    folder = RunFolder(run_folder)
    write_report(load(suite), folder, public=not private)
    out.print(str(folder.report), markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Entry point: turns the error tree into messages and exit codes."""
    os.umask(0o077)  # runs, completions and reports can hold gold
    try:
        app()
    except (InputError, SuiteError, LedgerError) as error:
        _die(error, ExitCode.BAD_INPUT)
    except CertificateError as error:
        _die(error, ExitCode.NOT_VERIFIED)
    except (DatabaseError, EndpointLost) as error:
        _die(error, ExitCode.INFRASTRUCTURE)
    except UserSimGuardError as error:
        _die(error, ExitCode.UNEXPECTED)
    except KeyboardInterrupt:
        _die("interrupted; what is done is kept, --resume goes on", ExitCode.INTERRUPTED)


def _die(error: object, code: ExitCode) -> None:
    console.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
