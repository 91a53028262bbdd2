"""Guard: the command line for suites: check, seal, import, merge, purge."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmark_core.errors import InputError
from guard.exit_codes import ExitCode
from guard.options import JsonOption, SuiteOption
from guard.purge import doomed, purge
from guard.show import console, out
from guard.show_data import (
    check_lines,
    doomed_lines,
    fault_lines,
    faults_json,
    identity,
    imported_lines,
    merge_json,
    merged_lines,
    say,
    say_json,
)
from suites.errors import SuiteError
from suites.imports import Inputs, import_official
from suites.load import OPEN, load
from suites.manifest import read_manifest, write_manifest
from suites.merge import merge_files
from suites.survey import survey

data_app = typer.Typer(help="Import official data, check, seal and purge suites.", no_args_is_help=True)

_HUB_TOO = "or hub:OWNER/NAME[@REVISION]."


@data_app.command()
def check(suite: SuiteOption = OPEN, as_json: JsonOption = False) -> None:
    """Read a suite as the tool does; say what is there, and of official data what is missing and how it is obtained."""
    loaded = load(suite)
    found = survey(loaded)
    if as_json:
        say_json({**identity(loaded), **found.to_json()})
    else:
        say(check_lines(loaded, found))


@data_app.command()
def seal(
    suite: Annotated[Path, typer.Option("--suite", help="Suite folder.")],
    as_json: JsonOption = False,
) -> None:
    """Rewrite manifest.toml (digests and counts) after a deliberate change of a suite."""
    loaded = load(suite, verify_manifest=False)
    write_manifest(suite, read_manifest(suite), loaded.tasks, loaded.questions)
    sealed = load(suite)
    if as_json:
        say_json(identity(sealed))
    else:
        out.print(f"sealed: {sealed.digest}", highlight=False)


@data_app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="Suite folder to create.")],
    questions: Annotated[str, typer.Option(help=f"UserSim-Guard questions: a folder, {_HUB_TOO}")],
    tasks: Annotated[str | None, typer.Option(help=f"BIRD-Interact Lite or Full: a folder, a file, {_HUB_TOO}")] = None,
    gold: Annotated[Path | None, typer.Option(help="Gold file (comes by e-mail); merged by exact instance id.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a sealed suite of your own official downloads. What does not fit is named and left out (exit code 9)."""
    done = import_official(folder, Inputs(questions, tasks, gold))
    found = survey(done.suite)
    if as_json:
        merged = {"gold": merge_json(done.merged, ())} if done.merged else {}
        say_json({**identity(done.suite), **found.to_json(), **merged, "faults": faults_json(done.faults)})
    else:
        say(imported_lines(done, found))
    raise typer.Exit(ExitCode.OK if done.complete else ExitCode.FINDINGS)


@data_app.command("merge")
def merge_(
    public: Annotated[Path, typer.Argument(help="The public bird_interact_data.jsonl.")],
    gold: Annotated[Path, typer.Argument(help="The gold file.")],
    merged_file: Annotated[Path, typer.Argument(metavar="OUT", help="File to create; never one of the inputs.")],
    as_json: JsonOption = False,
) -> None:
    """Merge gold into public tasks by exact instance id. Whatever does not match is named (exit code 9)."""
    faults: list[SuiteError] = []
    merged = merge_files(public, gold, merged_file, faults.append)
    if as_json:
        say_json(merge_json(merged, faults, merged_file))
    else:
        say(fault_lines(faults, "not merged"))
        say(merged_lines(merged))
        written = f"{merged_file}: {len(merged.lines)} tasks written, {len(merged.matched)} of them with a gold row"
        out.print(written, markup=False, highlight=False, soft_wrap=True)
    matched = not (faults or merged.without_gold or merged.without_task)
    raise typer.Exit(ExitCode.OK if matched else ExitCode.FINDINGS)


@data_app.command("purge")
def purge_(
    folders: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Imported suites, run folders.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove private content: imported suites; of runs, everything but certificate.json and scorecard.json."""
    found = [doomed(folder) for folder in folders]
    if not as_json:
        for one in found:
            say(doomed_lines(one))
    files = sum(len(one.remove) for one in found)
    if not yes:
        if not sys.stdin.isatty():
            raise InputError(
                f"{files} files would be removed, and nobody can be asked here; say --yes. Nothing was removed"
            )
        if not typer.confirm(f"Remove these {files} files?", err=True):
            console.print("nothing was removed", highlight=False)
            return
    for one in found:
        purge(one)
    if as_json:
        out.print_json(json.dumps([one.to_json() for one in found]))
    else:
        out.print(f"removed {files} files", highlight=False)
    raise typer.Exit(ExitCode.FINDINGS if any(one.unknown for one in found) else ExitCode.OK)
