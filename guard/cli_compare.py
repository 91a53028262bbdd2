"""Guard: the command line for comparing runs, and what is printed of a comparison and of a board. Results on stdout."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from guard import published
from guard.board import Board, Entry, Group
from guard.board_page import OTHERS
from guard.compare import compare as compare_runs
from guard.comparison import CAVEAT, FLIPS_SHOWN, Comparison, KindComparison
from guard.options import JsonOption, SuiteOption
from guard.run_identity import short
from guard.runs import RunFolder
from guard.show import PLAIN, bounds, out, percent
from guard.statistics import Interval
from suites.load import OPEN, load
from suites.questions import Kind, QuestionKey


def compare(
    run_a: Annotated[Path, typer.Argument(help="Run folder A, as given to `score --out`.")],
    run_b: Annotated[Path, typer.Argument(help="Run folder B, of the same suite and judge.")],
    suite: SuiteOption = OPEN,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs question by question: which is higher, per kind, or that no difference is shown."""
    found = compare_runs(load(suite), RunFolder(run_a), RunFolder(run_b))
    if as_json:
        out.print_json(json.dumps(found.to_json()))
    else:
        show_comparison(found)


def show_comparison(found: Comparison) -> None:
    """Print a comparison."""
    for line in _head(found):
        _say(line)
    out.print(_table(found))
    for kind, part in found.kinds.items():
        for note in _notes(kind, part):
            _say(note)
    _say(CAVEAT)
    _flips("Accepted in A, not in B", found.lost)
    _flips("Accepted in B, not in A", found.gained)


def _head(found: Comparison) -> list[str]:
    lines = [f"Judge: {found.judge_says}."]
    for letter, side, only in zip("AB", found.sides, found.only, strict=True):
        notes = [
            side.name,
            *(["partial"] if side.partial else []),
            *([f"{only} questions not in the other"] * bool(only)),
        ]
        lines.append(f"{letter}: {side.says} ({', '.join(notes)})")
    if found.same_simulator:
        lines.append("Both runs are of the same simulator: a re-run, so differences are its own spread.")
    return [*lines, f"{found.shared} shared questions."]


def _table(found: Comparison) -> Table:
    """`only A/B`: pairs accepted in one run alone; `p`: McNemar's exact test, Holm-adjusted over the kinds."""
    table = Table(title="Accepted, in percent, and the difference A - B in points", **PLAIN)
    for name in ("kind", "pairs", "A", "B", "only A/B", "A - B", "95 % interval", "p (Holm)"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for kind, part in found.kinds.items():
        a, b = part.rates or (None, None)
        table.add_row(
            kind,
            str(part.pairs.n),
            "–" if a is None else f"{100 * a:.1f}",
            "–" if b is None else f"{100 * b:.1f}",
            f"{part.pairs.first}/{part.pairs.second}",
            "–" if part.difference is None else f"{100 * part.difference:+.1f}",
            _signed(part.interval) if part.tasks > 1 else "not known",
            _p(part.p_holm) if part.pairs.n else "–",
        )
    return table


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _notes(kind: Kind, part: KindComparison) -> list[str]:
    notes = [f"{kind}: {part.finding}{': ' if part.why else ''}{part.why}."]
    if part.open:
        notes.append(
            f"{kind}: {part.open} shared questions without a verdict or a line are no pairs; decided either way, the "
            f"difference lies in {_signed(part.extremes)}, its interval in {_signed(part.widest)}."
        )
    if any(part.failed):
        notes.append(f"{kind}: without a reply, so not accepted: {part.failed[0]} in A, {part.failed[1]} in B.")
    return notes


def _flips(title: str, keys: Sequence[QuestionKey]) -> None:
    more = f", the first {FLIPS_SHOWN}" if len(keys) > FLIPS_SHOWN else ""
    _say(f"{title}: {len(keys)}{more}{':' if keys else '.'}")
    for key in keys[:FLIPS_SHOWN]:
        _say(f"  {key.kind} {key.instance_id} {key.question_id} {key.style}")


def _signed(interval: Interval) -> str:
    """`[-1.2, +3.4]` in points."""
    return f"[{100 * interval.lower:+.1f}, {100 * interval.upper:+.1f}]"


def show_board(board: Board) -> None:
    """Print a board: a table for each suite and judge, and the published rates apart."""
    for group in board.groups:
        _say(f"Suite {group.suite} ({_digest(group, 'suite')}), judge: {group.judge} ({_digest(group, 'judge')})")
        if group.rows:
            out.print(_board_table("Backbones", [(row.backbone, tuple(row.runs.values())) for row in group.rows]))
        if group.others:
            out.print(_board_table(OTHERS, [("", group.others)]))
        if group.corrected:
            _say("† corrected for judge error, rate and interval; not to be read against one that is not.")
    table = _rates_table(published.CAPTION)
    for row in published.PUBLISHED:
        cells = [f"{percent(row.rates[kind])}\n{bounds(row.interval(kind))}" for kind in Kind]
        table.add_row(f"{row.backbone}\n  {row.variant}", *cells)
    out.print(table)
    _say(f"Source: {published.SOURCE}.")


def _board_table(title: str, rows: Iterable[tuple[str, Iterable[Entry]]]) -> Table:
    """Each backbone's name, and below it its runs."""
    table = _rates_table(title, "certificate")
    for backbone, entries in rows:
        if backbone:
            table.add_row(escape(backbone))
        for entry in entries:
            name = entry.label if entry.backbone is None or backbone else f"{entry.label}\n  {entry.backbone}"
            part = f"\n{entry.header.planned} questions" if entry.header.partial else ""
            cells = (_cell(entry, kind) for kind in Kind)
            table.add_row(escape(f"  {name}"), *cells, entry.standing.says.replace(", ", ",\n") + part)
    return table


def _rates_table(title: str, *more: str) -> Table:
    table = Table(title=title, padding=(0, 1, 0, 0), **PLAIN)  # 80 columns hold it, when no name is long
    table.add_column("simulator", min_width=18, overflow="fold")
    for kind in Kind:
        table.add_column(kind, justify="right", no_wrap=True)
    for name in more:
        table.add_column(name, min_width=11, overflow="fold")
    return table


def _cell(entry: Entry, kind: Kind) -> str:
    part = entry.kinds[kind]
    if part.estimate is None:
        return "–"
    corrected = "†" if part.corrected is not None else ""
    return f"{corrected}{percent(part.estimate)}\n{bounds(part.interval)}"


def _digest(group: Group, name: str) -> str:
    return short(group.header.digests[name])


def _say(line: str) -> None:
    out.print(line, markup=False, highlight=False, soft_wrap=True)
