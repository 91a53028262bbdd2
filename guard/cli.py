"""Guard: the command line. Results on stdout, progress and logs on stderr; exit codes as in `exit_codes`."""

import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from benchmark_core.errors import (
    CertificateError,
    DatabaseError,
    InputError,
    LedgerError,
    SimulatorError,
    UserSimGuardError,
)
from guard import __version__
from guard.board_page import write_board
from guard.certify import Papers, certify_run, verify_file
from guard.cli_compare import compare, show_board
from guard.cli_data import audit_app, db_app, local_model
from guard.cli_demo import demo, demo_llm
from guard.cli_doctor import doctor
from guard.cli_export import explain, export, schema
from guard.cli_grade import grade
from guard.cli_score import score
from guard.cli_suites import data_app
from guard.exit_codes import ExitCode
from guard.ledger import Header, read_header
from guard.options import JsonOption, RunArgument, SuiteOption
from guard.purse import CostReached
from guard.report import write_report
from guard.runs import RunFolder
from guard.scoring import EndpointLost
from guard.show import console, out, show_decision
from suites.errors import SuiteError
from suites.load import OPEN, Suite, load

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
app.command()(doctor)
app.command()(score)
app.command()(grade)
app.command()(compare)
app.command()(export)
app.command()(explain)
app.command()(schema)
app.command()(demo)
app.command("demo-llm")(demo_llm)

CalibrationOption = Annotated[Path | None, typer.Option(help="The judge's calibration: its error is folded in.")]


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
def verify(  # noqa: PLR0913 - one parameter a flag
    certificate: Annotated[Path, typer.Argument(help="certificate.json of a run.")],
    ledger: Annotated[Path | None, typer.Option(help="Count and decide again from this ledger.jsonl.")] = None,
    suite: SuiteOption = OPEN,
    calibration: CalibrationOption = None,
    public_key: Annotated[Path | None, typer.Option(help="Trust this issuer alone (Ed25519, PEM).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a certificate or refusal: digest, signature, expiry, and with --ledger every count and the decision."""
    of_run = (load(suite), ledger) if ledger else None
    found = verify_file(certificate, Papers(calibration, public_key=public_key), of_run)
    if as_json:
        kept = {"kind", "decision", "certificate_class", "issuer", "attempt", "expires", "digests"}
        out.print_json(json.dumps({"holds": True, **found.model_dump(mode="json", include=kept)}))
        return
    out.print(f"{found.kind} holds: {found.decision}, class {found.certificate_class}", markup=False, highlight=False)
    out.print(f"issuer {found.issuer}, attempt {found.attempt}, expires {found.expires}", markup=False, highlight=False)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several make one table in the paper's layout.")],
    suites: Annotated[
        list[Path] | None, typer.Option("--suite", help="Their suite folders (repeat); the open suite by default.")
    ] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Where the table of several runs goes; board.html by default.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="With oracle text of suites that are not open.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a run's report.html, or one page that shows several runs side by side (self-contained)."""
    loaded = {found.digest: found for found in map(load, suites or [OPEN])}
    if len(runs) == 1 and out_file is None:
        folder = RunFolder(runs[0])
        counted = write_report(suite_of(loaded, read_header(folder.ledger)), folder, public=not private)
        if as_json:
            out.print_json(json.dumps(counted.scorecard.to_json()))
            return
        written = folder.report
    else:
        if private:
            raise InputError("--private: a page of several runs shows no text of rows; leave it out")
        written = out_file or Path("board.html")
        board = write_board(lambda header: suite_of(loaded, header), [RunFolder(run) for run in runs], written)
        if as_json:
            out.print_json(json.dumps(board.to_json()))
            return
        show_board(board)
    out.print(str(written), markup=False, highlight=False, soft_wrap=True)


def suite_of(loaded: Mapping[str, Suite], header: Header) -> Suite:
    """The suite of a run.

    Raises:
        InputError: it was not given.
    """
    wanted = header.identities.get("suite", {})
    found = loaded.get(wanted.get("digest"))
    if found is None:
        named = f"{wanted.get('name')} {wanted.get('version')}, {wanted.get('digest')}"
        raise InputError(f"a run is of the suite {named}; give its folder with --suite")
    return found


def main() -> None:
    """Entry point: turns the error tree into messages and exit codes."""
    os.umask(0o077)  # runs, completions and reports can hold gold
    try:
        app()
    except (InputError, SuiteError, LedgerError) as error:
        _die(error, ExitCode.BAD_INPUT)
    except CertificateError as error:
        _die(error, ExitCode.NOT_VERIFIED)
    except CostReached as error:
        _die(error, ExitCode.INCOMPLETE)
    except (DatabaseError, EndpointLost, SimulatorError) as error:
        _die(error, ExitCode.INFRASTRUCTURE)
    except UserSimGuardError as error:
        _die(error, ExitCode.UNEXPECTED)
    except KeyboardInterrupt:
        _die("interrupted; what is done is kept, --resume goes on", ExitCode.INTERRUPTED)


def _die(error: object, code: ExitCode) -> None:
    console.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
