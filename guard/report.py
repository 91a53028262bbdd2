"""Guard: the report of a scoring run as one HTML file: no script, nothing loaded, every text of others escaped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmark_core.errors import CertificateError, InputError
from guard import __version__, document, plots
from guard.certificate import Demands, verify
from guard.citation import citation
from guard.document import Document
from guard.excerpts import excerpt, plain
from guard.ledger import final
from guard.plots import RatePoint, SlicePoint
from guard.policy import DEFAULT
from guard.reasons import MEANS
from guard.runs import Counted, RunFolder, count, write_atomically
from guard.scorecard import KindScore, Slice
from guard.show import bounds, judge_line, percent
from guard.statistics import UNKNOWN, Interval, Verdict, against_floor
from guard.worst import Showing, worst
from judge.rubric import MENU
from judge.verdict import EvidenceKind
from suites.load import Suite
from suites.questions import Kind

OPEN_SUITE = "open"
"""The suite whose annotation is published with this tool: its texts may be shown to everybody."""
TEMPLATES = Path(__file__).parent / "templates"
HEADLINES = {
    Verdict.PASS: "Certified",
    Verdict.FAIL: "Refused: it fails",
    Verdict.NOT_DECIDED: "Refused: not decided",
}
_COLOURS = {Verdict.PASS: plots.GOOD, Verdict.FAIL: plots.BAD, Verdict.NOT_DECIDED: plots.UNSURE}


@dataclass(frozen=True, slots=True)
class KindView:
    """What is shown of a kind: its counts, and the decision's numbers or, without one, the scorecard's.

    Attributes:
        corrected: share corrected for judge error; None where none is folded in.
        verdict: of the decision; None without one.
    """

    score: KindScore
    floor: float
    interval: Interval
    corrected: float | None
    n_eff: float | None
    verdict: Verdict | None

    @property
    def estimate(self) -> float | None:
        return self.score.rate if self.corrected is None else self.corrected

    @property
    def colour(self) -> str:
        return _COLOURS[self.verdict or against_floor(self.interval, self.floor)]

    @property
    def meets_published_rule(self) -> bool:
        return self.score.rate is not None and self.score.rate >= self.floor


def write_report(suite: Suite, folder: RunFolder, *, public: bool = True) -> Counted:
    """Count the run in a folder and write its `report.html`, with the decision that lies there.

    Raises:
        InputError, LedgerError, CertificateError: the run is of another suite, or a file is damaged.
    """
    decision = document.read(folder.certificate) if folder.certificate.exists() else None
    counted = count(suite, folder)
    write_atomically(folder.report, render(suite, counted, decision, public=public))
    return counted


def render(suite: Suite, counted: Counted, decision: Mapping[str, Any] | None, *, public: bool = True) -> str:
    """The report.

    Args:
        decision: the sealed certificate or refusal. One that does not hold, or is of other counts, is named as such
            and its verdict is not shown.
        public: of a suite that is not the open one, withhold every text of the oracle and what replies disclosed.

    Raises:
        InputError: the run holds questions that are not in this suite.
    """
    if counted.header.identities["suite"]["digest"] != suite.digest:
        raise InputError(f"the run is of another suite than {suite.name}, or of another version; give its own --suite")
    sealed, broken = sealed_for(decision, counted)
    kinds = {kind: view(kind, score, sealed) for kind, score in counted.scorecard.kinds.items()}
    gold = is_open(suite) or not public
    looked_at = worst(final(counted.ledger))
    template = environment().get_template("report.html.j2")
    return template.render(
        counted=counted,
        judge_line=judge_line(counted),
        suite=suite,
        sealed=sealed,
        broken=broken,
        headline=HEADLINES[sealed.decision] if sealed else "No decision",
        kinds=kinds,
        choices=_choices(counted),
        plots=_plots(kinds, _choices(counted)),
        looked_at=looked_at.rows,
        worst=Showing(suite, gold=gold).rows(looked_at.items),
        gold=gold,
        own_suite=is_open(suite),
        cited=citation(decision) if sealed and decision else None,
    )


def is_open(suite: Suite) -> bool:
    """Whether the suite's texts may be shown to everybody; those of official data never."""
    return suite.name == OPEN_SUITE and not suite.official


def sealed_for(decision: Mapping[str, Any] | None, counted: Counted) -> tuple[Document | None, str | None]:
    """The decision if it holds for these counts, else what is wrong with it. Whether it has expired is not asked."""
    if decision is None:
        return None, None
    try:
        issued = datetime.fromisoformat(document.parse(decision).issued)
        digests = {**counted.header.digests, "scorecard": counted.scorecard.digest}
        return verify(decision, Demands(now=issued, digests=digests)), None
    except CertificateError as error:
        return None, str(error)


def view(kind: Kind, score: KindScore, sealed: Document | None) -> KindView:
    """A kind with the numbers of its decision, or without one of the scorecard."""
    if sealed is None:
        n_eff = score.gate.estimate.n_eff if score.gate.estimate else None
        return KindView(score, DEFAULT.floors[kind], score.gate.interval, None, n_eff, None)
    part = sealed.kinds[kind]
    return KindView(score, part.floor, Interval(*part.interval), part.corrected, part.n_eff, part.verdict)


def _choices(counted: Counted) -> tuple[str, ...]:
    """What stage 1 chose from; nothing where there is no stage 1."""
    chosen = {name for score in counted.scorecard.kinds.values() for name in score.chosen}
    return (*Kind, *sorted(chosen - set(Kind))) if chosen & set(Kind) else ()


def _plots(kinds: Mapping[Kind, KindView], choices: tuple[str, ...]) -> dict[str, Markup]:
    """The drawings by name. They are markup of our own: names in them are escaped by the XML writer."""
    points = [
        RatePoint(kind, view.estimate, view.score.rate, view.interval, view.score.plain, view.floor, view.colour)
        for kind, view in kinds.items()
    ]
    drawn = {"rates": plots.rates(points, "Accepted share of each kind. " + " ".join(map(_says, points)))}
    groups = {kind: (view.score.databases, view.score.styles) for kind, view in kinds.items() if view.score.tasks}
    start = plots.lowest(
        [cut.interval.lower for pair in groups.values() for group in pair for cut in group if cut.interval != UNKNOWN]
    )
    for kind, pair in groups.items():
        floor = kinds[kind].floor
        rows = [[_slice_point(cut, floor) for cut in group] for group in pair]
        label = f"{kind}: accepted share by database and by style; the numbers are in the table below."
        drawn[kind] = plots.slices(kind, rows, floor, start, label)
    if choices:
        counts = {kind: view.score.chosen for kind, view in kinds.items()}
        label = "Stage 1: label by choice, as shares of each label; the numbers are in the table below."
        drawn["confusion"] = plots.confusion(counts, choices, label)
    return {name: Markup(svg) for name, svg in drawn.items()}


def _says(point: RatePoint) -> str:
    if point.estimate is None:
        return f"{point.name}: no questions."
    return f"{point.name}: {percent(point.estimate)}, interval {bounds(point.gate)}, floor {percent(point.floor)}."


def _slice_point(cut: Slice, floor: float) -> SlicePoint:
    verdict = against_floor(cut.interval, floor)
    return SlicePoint(cut.total.name, cut.total.accepted / cut.total.rows, cut.interval, _COLOURS[verdict])


def environment() -> Environment:
    """The templates, with their filters: every text is escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "percent": lambda share: _unbroken(percent(share)),
        "bounds": lambda interval: "not known" if interval == UNKNOWN else _unbroken(bounds(interval)),
        "number": lambda count: f"{count:,}",
        "excerpt": excerpt,
        "plain": plain,
        "short": lambda digest: digest.removeprefix("sha256:")[:12],
        "flat": lambda identity: tuple(_flat(identity)),
        "words": lambda code: code.replace("_", " "),
    }
    made.globals |= {"version": __version__, "menu": MENU, "evidence_kinds": tuple(EvidenceKind), "code_means": MEANS}
    return made


def _unbroken(figures: str) -> str:
    return figures.replace(" ", "\N{NO-BREAK SPACE}")


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """An identity as dotted names and texts."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        yield name, ", ".join(map(str, value)) or "none"
    else:
        yield name, "none" if value is None else str(value)
