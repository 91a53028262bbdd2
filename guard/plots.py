"""Guard: the plots of a report, as inline SVG that takes its colours from the page. Draws numbers, computes none.

matplotlib is imported when a plot is drawn, so that no other command waits for it. Equal input gives equal bytes.
"""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from guard.excerpts import plain
from guard.statistics import Interval
from suites.questions import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stand-ins: each is replaced by the page's variable of that name, which follows light, dark and print.
INK, MUTED, GRID, SURFACE = "#000001", "#000002", "#000003", "#000004"
GOOD, BAD, UNSURE, HEAT = "#000005", "#000006", "#000007", "#000008"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    SURFACE: "var(--surface)",
    GOOD: "var(--good)",
    BAD: "var(--bad)",
    UNSURE: "var(--unsure)",
    HEAT: "var(--heat)",
}
_PT = 72  # points an inch: at this resolution a unit of the drawing is a CSS pixel of the page
_MARGIN = 10


@dataclass(frozen=True, slots=True)
class RatePoint:
    """One kind against its floor; shares are fractions of 1.

    Attributes:
        estimate: corrected for judge error where that is known, else the rate.
        published: the plain rate, which the published point rule looks at. None without rows, as `estimate`.
        colour: `GOOD`, `BAD` or `UNSURE`.
    """

    name: str
    estimate: float | None
    published: float | None
    gate: Interval
    plain: Interval
    floor: float
    colour: str


@dataclass(frozen=True, slots=True)
class SlicePoint:
    """One database or style of a kind."""

    name: str
    rate: float
    interval: Interval
    colour: str


def lowest(shares: Sequence[float]) -> float:
    """Where an axis of shares begins: a multiple of 0.1 below all of them, at most 0.7."""
    return max(0.0, min(0.7, int(min(shares, default=0.7) * 10 - 0.2) / 10))


def rates(points: Sequence[RatePoint], label: str) -> str:
    """Point, intervals and floor of each kind, one row a kind. `label` describes the plot to who cannot see it."""
    row, width = 52, 400
    with new_figure(width, len(points) * row + 44) as figure:
        axes = new_axes(figure, left=72, bottom=40)
        start = lowest([min(p.gate.lower, p.plain.lower, p.floor) for p in points if p.estimate is not None])
        draw_share_axis(axes, start, "accepted, of all questions of the kind")
        axes.set_ylim(len(points) - 0.5, -0.5)
        for y, point in enumerate(points):
            _rate_row(axes, y, point, start)
        axes.set_yticks([])
        return as_svg(figure, "rates", label)


def _rate_row(axes: "Axes", y: int, point: RatePoint, start: float) -> None:
    beside = {"xycoords": ("axes fraction", "data"), "parse_math": False, "annotation_clip": False, "ha": "left"}
    axes.annotate(plain(point.name), (-0.22, y - 0.04), va="bottom", size=14, weight="bold", color=INK, **beside)  # type: ignore[arg-type]
    says = "no questions" if point.estimate is None else f"{100 * point.estimate:.1f} %"
    axes.annotate(says, (-0.22, y + 0.03), va="top", size=12, color=INK, **beside)  # type: ignore[arg-type]
    axes.plot([point.floor] * 2, [y - 0.36, y + 0.4], color=INK, lw=2, zorder=4)
    if point.estimate is None or point.published is None:
        return
    axes.plot([point.gate.lower, point.gate.upper], [y, y], color=point.colour, lw=8, solid_capstyle="butt", zorder=3)
    axes.plot([point.plain.lower, point.plain.upper], [y + 0.22] * 2, color=MUTED, lw=2, zorder=3)
    draw_marker(axes, min(max(point.estimate, start), 1.0), y, point.colour, size=11)
    diamond = {"marker": "D", "ms": 7, "mfc": SURFACE, "mec": INK, "mew": 1.4}
    axes.plot([point.published], [y + 0.22], ls="none", zorder=6, clip_on=False, **diamond)  # type: ignore[arg-type]


def slices(name: str, groups: Sequence[Sequence[SlicePoint]], floor: float, start: float, label: str) -> str:
    """Dot plot of one kind: a row for each slice, a gap between the groups.

    Args:
        start: where the axis begins; the same for all kinds, so that panels compare.
    """
    places = [(point, y) for at, group in enumerate(groups) for y, point in enumerate(group, _before(groups, at))]
    rows = _before(groups, len(groups)) - 1
    with new_figure(330, 20 * rows + 48) as figure:
        longest = max((len(point.name) for point, _ in places), default=0)
        axes = new_axes(figure, left=min(150, 16 + 7 * longest), bottom=34)
        draw_share_axis(axes, start, None)
        axes.set_ylim(rows - 0.5, -0.7)
        axes.axvline(floor, color=INK, lw=1.4, zorder=2)
        for point, y in places:
            bounds = [max(point.interval.lower, start), point.interval.upper]
            axes.plot(bounds, [y, y], color=point.colour, lw=3, alpha=0.75, solid_capstyle="butt", zorder=3)
            draw_marker(axes, max(point.rate, start), y, point.colour, size=8)
        label_rows(axes, [point.name for point, _ in places], at=[y for _, y in places], size=11)
        return as_svg(figure, name, label)


def _before(groups: Sequence[Sequence[SlicePoint]], at: int) -> int:
    """Rows above group `at`, with one row of gap after each group."""
    return sum(len(group) + 1 for group in groups[:at])


def confusion(counts: Mapping[Kind, Mapping[str, int]], columns: Sequence[str], label: str) -> str:
    """Heat map: a row for each label, a column for each choice; the shade is the share of the row."""
    width, height = 96 + 92 * len(columns), 64 * len(counts) + 52
    with new_figure(width, height) as figure:
        axes = figure.add_axes((64 / width, 12 / height, 1 - (64 + 10) / width, 1 - 52 / height), frameon=False)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(len(counts) - 0.5, -0.5)
        for y, (name, row) in enumerate(counts.items()):
            for x, column in enumerate(columns):
                _heat_cell(axes, (x, y), row.get(column, 0), sum(row.values()), right=name == column)
        label_rows(axes, list(counts), weight="bold", size=13)
        axes.set_xticks(range(len(columns)), [plain(name) for name in columns], size=13, color=INK, parse_math=False)
        axes.tick_params(top=False, labeltop=True, bottom=False, labelbottom=False, left=False)
        return as_svg(figure, "confusion", label)


def _heat_cell(axes: "Axes", at: tuple[int, int], count: int, whole: int, *, right: bool) -> None:
    from matplotlib.patches import Rectangle

    share, (x, y) = count / whole if whole else 0.0, at
    corner = (x - 0.47, y - 0.46)
    axes.add_patch(Rectangle(corner, 0.94, 0.92, fc=HEAT, alpha=0.06 + 0.94 * share, lw=0))
    if right:
        axes.add_patch(Rectangle(corner, 0.94, 0.92, fc="none", ec=INK, lw=1.6))
    _text(axes, x, y - 0.02, str(count), ha="center", va="bottom", size=16, color=INK, weight="bold")
    _text(axes, x, y + 0.08, f"{100 * share:.0f} %", ha="center", va="top", size=11, color=INK)


@contextmanager
def new_figure(width: int, height: int) -> "Iterator[Figure]":
    """An empty figure of a size in CSS pixels, under matplotlib's own defaults whatever a user's matplotlibrc says."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "usersim-guard"})
        yield Figure(figsize=(width / _PT, height / _PT), dpi=_PT, facecolor="none")


def new_axes(figure: "Figure", *, left: int, bottom: int) -> "Axes":
    """Axes without a frame; `left` and `bottom` are margins in CSS pixels."""
    width, height = (float(size) * _PT for size in figure.get_size_inches())
    box = (left / width, bottom / height, 1 - (left + 2 * _MARGIN) / width, 1 - (bottom + 4) / height)
    axes = figure.add_axes(box, frameon=False)
    axes.tick_params(length=0)
    return axes


def draw_share_axis(axes: "Axes", start: float, title: str | None) -> None:
    """A horizontal axis of shares, from `start` to 1."""
    tenths = range(round(start * 10), 11, 1 if start >= 0.4 else 2)
    axes.set_xlim(start, 1)
    axes.set_xticks([t / 10 for t in tenths], [f"{10 * t} %" for t in tenths], size=11, color=MUTED)
    axes.grid(axis="x", color=GRID, lw=1)
    axes.set_axisbelow(True)
    if title:
        axes.set_xlabel(title, size=11, color=MUTED)


def label_rows(
    axes: "Axes", names: Sequence[str], *, size: int, at: Sequence[int] = (), weight: str = "normal"
) -> None:
    """Names beside the rows; never read as formulas."""
    labels = [plain(name) for name in names]
    axes.set_yticks(list(at or range(len(names))), labels, size=size, weight=weight, color=INK, parse_math=False)


def draw_marker(axes: "Axes", x: float, y: float, colour: str, *, size: int) -> None:
    """A dot with a rim in the colour of the page."""
    axes.plot([x], [y], "o", ms=size, mfc=colour, mec=SURFACE, mew=1.6, zorder=5, clip_on=False)


def _text(axes: "Axes", x: float, y: float, says: str, **style: object) -> None:
    axes.text(x, y, says, parse_math=False, **style)  # type: ignore[arg-type]


def as_svg(figure: "Figure", name: str, label: str) -> str:
    """The drawing as an `<svg>` element: unique ids, colours from the page, no metadata, no style sheet of its own."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # the browser draws the text, with its own fonts
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="svg")
    root = ElementTree.fromstring(buffer.getvalue())
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(key): value for key, value in element.attrib.items()}
        if element.tag == "g":
            attributes.pop("id", None)
        element.attrib.clear()
        element.attrib.update({key: _of_page(key, value, name) for key, value in attributes.items()})
        element.tail = None
    for child in [child for child in root if child.tag == "metadata" or child.find("style") is not None]:
        root.remove(child)
    for unwanted in ("width", "height", "version"):
        root.attrib.pop(unwanted)
    root.attrib.update({"role": "img", "aria-label": label})
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _of_page(key: str, value: str, name: str) -> str:
    """An attribute's value: names in the drawing made unique in the page, colours and font left to the page."""
    if key == "id":
        return f"{name}-{value}"
    if key == "style":
        value = re.sub("#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), value)
        return re.sub("font-family: [^;]*;? ?", "", value)
    return re.sub(r"^#|(?<=url\()#", f"#{name}-", value)
