"""Guard: the command line for what leaves a run (exports), for JSON schemas, and for codes explained."""

import json
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmark_core.errors import InputError
from guard.citation import citation
from guard.explain import every, explain_code, explain_document
from guard.export import source
from guard.export_inspect import listed, name_for, write_inspect
from guard.export_parquet import write_dataset, write_parquet
from guard.options import SuiteOption
from guard.runs import RunFolder
from guard.schemas import SCHEMAS, identifier, json_schema
from guard.show import PLAIN, console, out
from suites.load import OPEN, load

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ListOption = Annotated[bool, typer.Option("--list", help="List everything there is.")]


class Format(StrEnum):
    """What a run is exported as."""

    PARQUET = "parquet"
    DATASET = "dataset"
    INSPECT = "inspect"


_WRITERS = {Format.PARQUET: write_parquet, Format.DATASET: write_dataset, Format.INSPECT: write_inspect}


def export(  # noqa: PLR0913 - one parameter a flag
    run_folder: Annotated[Path, typer.Argument(help="Run folder, as given to `score --out`.")],
    to: Annotated[Path, typer.Option("--out", help="File (parquet, inspect) or folder (dataset) to create.")],
    fmt: Annotated[
        Format,
        typer.Option("--format", help="A Parquet file, a folder for `datasets.load_dataset`, a log for Inspect AI."),
    ] = Format.PARQUET,
    suite: SuiteOption = OPEN,
    private: Annotated[bool, typer.Option("--private", help="With oracle text of suites that are not open.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the run's rows, one a question, for other tools."""
    run = source(load(suite), RunFolder(run_folder), private=private)
    _WRITERS[fmt](run, to)
    facts = run.facts()
    written = {"path": str(to), "format": fmt, "rows": facts["planned"] - facts["missing"], "texts": facts["texts"]}
    if as_json:
        out.print_json(json.dumps(written))
        return
    says = f"{written['rows']} rows, texts {written['texts']}: {to}"
    _say([says])
    if fmt is Format.INSPECT and not listed(to):
        name = name_for(run)
        console.print(f"Inspect lists such files only under a name like {name}", highlight=False, soft_wrap=True)


def schema(
    name: Annotated[str | None, typer.Argument(help="Which one; --list names them.")] = None,
    listed: ListOption = False,
) -> None:
    """Print the JSON schema of a file, or of a line of one."""
    if listed:
        table = Table("name", "$id", "what it describes", **PLAIN)
        for known, shape in SCHEMAS.items():
            table.add_row(known, identifier(known), shape.what)
        out.print(table)
        return
    if name is None:
        raise InputError("say which schema: `usersim-guard schema NAME`; `schema --list` names them")
    out.print_json(json.dumps(json_schema(name)))


def explain(
    subject: Annotated[str | None, typer.Argument(help="A code, an exit status, or a certificate.json.")] = None,
    listed: ListOption = False,
    as_json: JsonOption = False,
) -> None:
    """Explain a reason code, an exit code, or a certificate or refusal with all its reasons and how to cite it."""
    if listed:
        _list(as_json=as_json)
    elif subject is None:
        raise InputError("say what to explain: a code, an exit status or a certificate.json; --list names the codes")
    elif subject.endswith(".json"):
        found = explain_document(Path(subject))
        if as_json:
            out.print_json(json.dumps({**found.to_json(), "citation": citation(found.document)}))
            return
        _say((*found.lines, "", "To cite it:", *citation(found.document).splitlines()))
    else:
        code = explain_code(subject)
        if as_json:
            out.print_json(json.dumps(code.to_json()))
        else:
            _say(code.lines)


def _list(*, as_json: bool) -> None:
    if as_json:
        out.print_json(json.dumps([each.to_json() for each in every()]))
    else:
        _say(f"{each.code} ({each.family}): {each.means}" for each in every())


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
