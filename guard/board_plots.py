"""Guard: the plots of a board: a dot and an interval for each run, a panel for each kind, as in a report's plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from guard.excerpts import plain
from guard.plots import (
    INK,
    MUTED,
    SlicePoint,
    as_svg,
    draw_marker,
    draw_share_axis,
    label_rows,
    new_axes,
    new_figure,
)
from suites.questions import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _ROW, _BOTTOM = 330, 20, 34
_LONGEST_HEADING = 34


@dataclass(frozen=True, slots=True)
class Cluster:
    """Runs under one heading."""

    heading: str
    points: tuple[SlicePoint, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One kind. `start` is where the axis begins, the same in all panels of a group."""

    name: str
    kind: Kind
    clusters: Sequence[Cluster]
    floor: float
    start: float

    @property
    def rows(self) -> int:
        """Headings and points."""
        return sum(1 + len(cluster.points) for cluster in self.clusters)


def draw(panel: Panel, label: str) -> str:
    """The panel as `<svg>`. `label` describes it to who cannot see it."""
    with new_figure(_WIDTH, _ROW * panel.rows + _BOTTOM + 12) as figure:
        longest = max((len(point.name) for cluster in panel.clusters for point in cluster.points), default=0)
        left = min(150, 16 + 7 * longest)
        axes = new_axes(figure, left=left, bottom=_BOTTOM)
        draw_share_axis(axes, panel.start, None)
        axes.set_ylim(panel.rows - 0.5, -0.6)
        axes.axvline(panel.floor, color=INK, lw=1.4, zorder=2)
        names, places, y = [], [], 0
        for cluster in panel.clusters:
            heading = {"xycoords": ("figure fraction", "data"), "parse_math": False, "annotation_clip": False}
            says = plain(cluster.heading, _LONGEST_HEADING)
            axes.annotate(says, (0, y + 0.1), va="center", size=11, weight="bold", color=MUTED, **heading)  # type: ignore[arg-type]
            for point in cluster.points:
                y += 1
                _run(axes, y, point, panel.start)
                names.append(point.name)
                places.append(y)
            y += 1
        label_rows(axes, names, at=places, size=11)
        return as_svg(figure, panel.name, label)


def _run(axes: "Axes", y: int, point: SlicePoint, start: float) -> None:
    """A rate that is corrected for judge error can lie outside [0, 1]: then it is drawn at the end of the axis."""
    ends = [point.interval.lower, point.interval.upper]
    axes.plot(ends, [y, y], color=point.colour, lw=3, alpha=0.75, solid_capstyle="butt", zorder=3)
    draw_marker(axes, min(max(point.rate, start), 1.0), y, point.colour, size=8)
