"""Guard: the command line for grading recorded predictions."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmark_core.errors import InputError
from benchmark_core.grading.grade import FollowUpFrom
from benchmark_core.postgres.sandbox import Limits
from guard.cli_data import get_server
from guard.exit_codes import ExitCode
from guard.grades import GradedItem, GradeFile, Tally, identity, tally
from guard.grading import GradePlan, check_limits, grade_predictions
from guard.options import JsonOption, SuiteOption
from guard.predictions import read_predictions
from guard.show import PLAIN, console, out, percent
from suites.load import OPEN, load

_SHOWN = 5


def grade(  # noqa: PLR0913 - one parameter a flag
    predictions: Annotated[Path, typer.Argument(help="Episodes, an ADK result file, or submission rows (JSONL).")],
    suite: SuiteOption = OPEN,
    out_file: Annotated[Path | None, typer.Option("--out", help="Keep every grade here, one JSON line each.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the grades in --out.")] = False,
    follow_up_from: Annotated[
        FollowUpFrom, typer.Option(help="The state that `strict` grades sub-task 2 on.")
    ] = FollowUpFrom.REFERENCE,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for one submission.")] = Limits().deadline_s,
    private: Annotated[
        bool, typer.Option("--private", help="Keep details for the operator in --out; they may tell of the reference.")
    ] = False,
    accept_limits: Annotated[
        bool, typer.Option("--accept-limits", help="Run test cases on a server that cannot enforce every limit.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Grade recorded predictions in both regimes: `strict` (right) and `official` (comparable). No model is asked."""
    if resume and out_file is None:
        raise InputError("--resume: give the file of grades with --out")
    plan = GradePlan(
        load(suite), read_predictions(predictions), Limits(deadline_s=deadline), follow_up_from, private=private
    )
    plan.check()
    for limit in asyncio.run(check_limits(plan, get_server(), accepted=accept_limits)):
        console.print(f"warning: {limit.what}. To do: {limit.repair}", markup=False, highlight=False, soft_wrap=True)
    settings = {"follow_up_from": follow_up_from, "deadline_s": deadline}
    file = (
        GradeFile.open(out_file, identity(plan.suite.digest, predictions, settings), resume=resume)
        if out_file
        else None
    )
    try:
        items = _run(plan, file)
    finally:
        if file is not None:
            file.close()
    counted = tally(items)
    if as_json:
        out.print_json(json.dumps(counted.to_json()))
    else:
        _show(counted)
    raise typer.Exit(ExitCode.INCOMPLETE if counted.incomplete else ExitCode.OK)


def _run(plan: GradePlan, file: GradeFile | None) -> list[GradedItem]:
    done = [item for item in file.done if item.strict.outcome.of_the_system] if file else []
    items = {item.key: item for item in done}
    with _progress(len(plan.predictions), len(items)) as step:

        def keep(item: GradedItem) -> None:
            items[item.key] = item
            if file is not None:
                file.append(item)
            step()

        asyncio.run(grade_predictions(plan, get_server, list(items), keep))
    return list(items.values())


@contextmanager
def _progress(total: int, before: int) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("grading", total=total, completed=before)
        yield lambda: bar.advance(task)


def _show(counted: Tally) -> None:
    table = Table(title="Sub-tasks passed by any of their submissions", **PLAIN)
    for name in ("sub-task", "category", "n", "strict", "official", "apart"):
        table.add_column(name, justify="left" if name in ("category", "apart") else "right", no_wrap=True)
    for count in counted.counts:
        table.add_row(
            str(count.sub_task),
            count.category,
            str(count.sub_tasks),
            _share(count.strict, count.sub_tasks),
            _share(count.official, count.sub_tasks),
            ", ".join(f"{number} {outcome}" for outcome, number in count.apart.items()) or "–",
        )
    out.print(table)
    for regime, outcomes in counted.outcomes.items():
        parts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
        out.print(f"{regime}: {parts}.", markup=False, highlight=False, soft_wrap=True)
    for pair, named in counted.differ.items():
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        out.print(f"{pair}: {', '.join(named[:_SHOWN])}{more}", markup=False, highlight=False, soft_wrap=True)
    if counted.recorded:
        agree, known = counted.recorded["agree"], counted.recorded["known"]
        out.print(
            f"The record agrees with `official` on {agree} of {known} submissions.", markup=False, highlight=False
        )


def _share(passed: int, of: int) -> str:
    return f"{passed} ({percent(passed / of if of else None)})"
