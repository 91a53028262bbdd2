"""Guard: what a comparison of two runs is, as data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from guard.paired import Pairs
from guard.statistics import Interval
from suites.questions import Kind, QuestionKey

SCHEMA = "usersim-guard/comparison/1"
FLIPS_SHOWN = 20
CAVEAT = (
    "McNemar's test takes pairs as independent, which the questions of a task are not: the interval, clustered by "
    "task, is the one to trust. Where the two disagree, nothing is decided. Judge error is not folded in."
)


class Finding(StrEnum):
    """What the pairs of a kind show. "No difference shown" does not say that there is none."""

    A_HIGHER = "A higher"
    B_HIGHER = "B higher"
    NONE_SHOWN = "no difference shown"
    NOT_DECIDED = "not decided"
    NO_VERDICT = "no verdict"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs.

    Attributes:
        name: of its folder.
        says: variant and backbone.
        planned: number of its questions.
    """

    name: str
    says: str
    simulator: Mapping[str, Any]
    simulator_digest: str
    planned: int
    partial: bool


@dataclass(frozen=True, slots=True)
class KindComparison:
    """One kind over the shared questions. Shares and differences are fractions of 1; a difference is A - B.

    A pair is a shared question that is settled in both runs; one without a verdict or a line in either is open.

    Attributes:
        tasks: tasks with a pair.
        failed: pairs without a reply, in A and in B; they are not accepted.
        p: of McNemar's exact test. `p_holm`: adjusted over the kinds with pairs.
        difference, interval: over the pairs, clustered by task.
        extremes: the difference over all shared questions with every open one against A, and for A.
        widest: the interval of either extreme, from end to end. The finding looks at it.
        why: why there is no finding, or none is decided.
    """

    tasks: int
    pairs: Pairs
    failed: tuple[int, int]
    open: int
    p: float
    p_holm: float
    difference: float | None
    interval: Interval
    extremes: Interval
    widest: Interval
    finding: Finding
    why: str

    @property
    def rates(self) -> tuple[float, float] | None:
        """Accepted share of the pairs in A and in B."""
        whole = self.pairs
        return ((whole.both + whole.first) / whole.n, (whole.both + whole.second) / whole.n) if whole.n else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared.

    Attributes:
        judge, suite: identities, the same for both.
        shared: questions that both planned. `only`: those that A, and B, planned alone.
        lost, gained: pairs accepted in A alone, and in B alone: keys, in order.
    """

    sides: tuple[Side, Side]
    judge: Mapping[str, Any]
    judge_says: str
    suite: Mapping[str, Any]
    shared: int
    only: tuple[int, int]
    kinds: Mapping[Kind, KindComparison]
    lost: tuple[QuestionKey, ...]
    gained: tuple[QuestionKey, ...]

    @property
    def same_simulator(self) -> bool:
        return self.sides[0].simulator_digest == self.sides[1].simulator_digest

    def to_json(self) -> dict[str, Any]:
        """Everything but the keys beyond the first `FLIPS_SHOWN` of each direction, JSON-able; no text of a row."""
        found = asdict(self)
        for kind, part in self.kinds.items():
            found["kinds"][kind]["rates"] = part.rates
        for name in ("lost", "gained"):
            found[name] = {"count": len(found[name]), "first": found[name][:FLIPS_SHOWN]}
        return {"schema": SCHEMA, "same_simulator": self.same_simulator, "caveat": CAVEAT, **found}
