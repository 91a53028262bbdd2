"""Guard: options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

SuiteOption = Annotated[Path, typer.Option("--suite", help="Suite folder.", show_default="the open suite")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
RunArgument = Annotated[Path, typer.Argument(help="Run folder, as given to `score --out`.")]
