"""Guard: published rates of simulated users, as data with their source. They decide nothing, rank nothing.

Who judged them is not named, so no rate of ours is comparable to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guard.policy import DEFAULT
from guard.statistics import Interval, critical_value, wilson
from suites.questions import Kind

SOURCE = "USERSIM-GUARD README in github.com/bird-bench/BIRD-Interact at 451fe2c"
CAPTION = "Published, under another judge (not named): not comparable"
ROWS = 700
"""Questions of each kind."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One backbone under one prompt. `rates`: accepted (AMB and LOC: A or B; UNA: A), fractions of 1."""

    backbone: str
    variant: str
    rates: Mapping[Kind, float]

    def interval(self, kind: Kind) -> Interval:
        """Wilson, if rows were independent. They are not: three styles share a point, and points a task."""
        return wilson(self.rates[kind], ROWS, critical_value(DEFAULT.confidence))


def _row(backbone: str, variant: str, amb: float, loc: float, una: float) -> PublishedRow:
    percent = {Kind.AMB: amb, Kind.LOC: loc, Kind.UNA: una}
    return PublishedRow(backbone, variant, {kind: value / 100 for kind, value in percent.items()})


PUBLISHED = (
    _row("Claude-Haiku-4.5", "baseline", 92.3, 92.0, 32.6),
    _row("Claude-Haiku-4.5", "function-driven", 95.0, 95.0, 95.4),
    _row("Gemini-2.0-Flash", "baseline", 89.6, 89.3, 40.3),
    _row("Gemini-2.0-Flash", "function-driven", 94.9, 93.6, 87.3),
    _row("GPT-4o", "baseline", 87.7, 89.4, 77.3),
    _row("GPT-4o", "function-driven", 94.6, 94.1, 97.3),
)
"""In order of the backbone's name, not of any rate."""


def to_json() -> dict[str, Any]:
    """The rows with their source, JSON-able."""
    rows = [
        {
            "backbone": row.backbone,
            "variant": row.variant,
            "rates": row.rates,
            "interval_if_rows_were_independent": {
                kind: [row.interval(kind).lower, row.interval(kind).upper] for kind in row.rates
            },
        }
        for row in PUBLISHED
    ]
    return {"caption": CAPTION, "source": SOURCE, "judge": None, "rows_per_kind": ROWS, "rows": rows}
