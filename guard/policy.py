"""Guard: the certification policy as data. It is fixed before any run; another value is another policy, and digest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from benchmark_core import digest as digests
from suites.questions import Kind


def _per_kind(amb: Any, loc: Any, una: Any) -> Mapping[Kind, Any]:
    return MappingProxyType({Kind.AMB: amb, Kind.LOC: loc, Kind.UNA: una})


@dataclass(frozen=True, slots=True)
class Policy:
    """What a simulator must show. Shares are fractions of 1.

    Attributes:
        floors: least true share of accepted rows (the published 90 / 90 / 80 of BIRD-Interact).
        confidence: of the two-sided interval; a one-sided error of (1 - confidence) / 2 in each direction.
        min_clusters: below this number of tasks nothing is decided.
        small_count: with fewer successes or failures than this, the design effect is at least Kish's at
            `small_count_icc`.
        max_unjudged: largest share of rows of a kind without a verdict.
        min_informedness: least sensitivity + specificity of a calibrated judge, per kind.
        min_kappa: least lower bound of its kappa, per kind.
        full_size: core questions per kind of a full-size suite.
        full_suites: names of the suites of class `full`.
        valid_days: how long a certificate holds.
    """

    version: str = "2026.1"
    floors: Mapping[Kind, float] = field(default_factory=lambda: _per_kind(0.90, 0.90, 0.80))
    confidence: float = 0.95
    min_clusters: int = 10
    small_count: int = 10
    small_count_icc: float = 0.2
    max_unjudged: float = 0.01
    min_informedness: float = 1.6
    min_kappa: float = 0.6
    full_size: Mapping[Kind, int] = field(default_factory=lambda: _per_kind(700, 700, 700))
    full_suites: tuple[str, ...] = ("official", "open")
    valid_days: int = 180

    def to_json(self) -> dict[str, Any]:
        """Every value, JSON-able."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in plain.items()}

    @property
    def digest(self) -> str:
        """`sha256:…` over every value."""
        return digests.digest(self.to_json())


DEFAULT = Policy()
