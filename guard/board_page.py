"""Guard: a board as one HTML file: no script, nothing loaded, every text of others escaped."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from benchmark_core.errors import InputError
from guard import board_plots, plots, published
from guard.board import VARIANTS, Board, Entry, Group, build
from guard.board_plots import Cluster, Panel
from guard.ledger import Header
from guard.plots import SlicePoint
from guard.policy import DEFAULT
from guard.report import environment
from guard.runs import RunFolder, write_atomically
from guard.show import bounds, percent
from guard.standing import Status
from suites.load import Suite
from suites.questions import Kind

OTHERS = "Other simulators"
_TONES = {
    Status.CERTIFIED: "good",
    Status.FAILS: "bad",
    Status.BROKEN: "bad",
    Status.NOT_DECIDED: "unsure",
    Status.EXPIRED: "unsure",
    Status.PARTIAL: "unsure",
    Status.NONE: "none",
}


def write_board(suite_of: Callable[[Header], Suite], folders: Sequence[RunFolder], out: Path) -> Board:
    """Count runs and write their board as an HTML page; the runs' own folders stay as they are.

    Raises:
        InputError: see `board.build`; or `out` cannot be written.
        LedgerError: a ledger that cannot be read.
    """
    board = build(suite_of, folders, datetime.now(UTC))
    try:
        write_atomically(out, render(board))
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from None
    return board


def render(board: Board) -> str:
    """The page. It holds names, rates and digests; no text of a row."""
    return (
        environment()
        .get_template("board.html.j2")
        .render(
            board=board,
            drawings=[_panels(number, group) for number, group in enumerate(board.groups)],
            kinds=tuple(Kind),
            variants=VARIANTS,
            floors=DEFAULT.floors,
            published=published,
            tones=_TONES,
            others=OTHERS,
        )
    )


def _panels(number: int, group: Group) -> dict[Kind, Markup]:
    """The drawings of a group by kind. They are markup of our own: names in them are escaped by the XML writer."""
    lows = [
        part.interval.lower for entry in group.entries for part in entry.kinds.values() if part.estimate is not None
    ]
    start = plots.lowest(lows)
    drawn = {}
    for kind in Kind:
        clusters = _clusters(group, kind)
        if clusters:
            panel = Panel(f"g{number}-{kind}", kind, clusters, DEFAULT.floors[kind], start)
            drawn[kind] = Markup(board_plots.draw(panel, _says(kind, clusters)))
    return drawn


def _clusters(group: Group, kind: Kind) -> list[Cluster]:
    rows = [(row.backbone, row.runs.values()) for row in group.rows]
    named = [(name, _points(entries, kind)) for name, entries in [*rows, (OTHERS, group.others)]]
    return [Cluster(name, points) for name, points in named if points]


def _points(entries: Iterable[Entry], kind: Kind) -> tuple[SlicePoint, ...]:
    """The runs that hold rows of the kind. One over a part of the suite has no colour of a verdict."""
    found = []
    for entry in entries:
        part = entry.kinds[kind]
        if part.estimate is not None:
            colour = plots.MUTED if entry.header.partial else part.colour
            found.append(SlicePoint(entry.variant, part.estimate, part.interval, colour))
    return tuple(found)


def _says(kind: Kind, clusters: Iterable[Cluster]) -> str:
    runs = [
        f"{cluster.heading}, {point.name}: {percent(point.rate)}, interval {bounds(point.interval)}."
        for cluster in clusters
        for point in cluster.points
    ]
    return f"{kind}: accepted share of each run, floor {percent(DEFAULT.floors[kind])}. {' '.join(runs)}"
