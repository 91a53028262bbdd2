"""Guard: a board of runs: one row a backbone, one table for each suite and judge. Decides and ranks nothing.

Rates under another suite or another judge are other quantities, so they never stand in one table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmark_core.digest import canonical
from benchmark_core.errors import InputError
from guard import published
from guard.excerpts import plain
from guard.ledger import Header, stream
from guard.report import KindView, view
from guard.run_identity import backbone, judge_name, named, sound_header, suite_name, variant
from guard.runs import Counted, RunFolder
from guard.scorecard import expected_keys, tally
from guard.scoring import plan_of
from guard.standing import Standing, standing
from suites.load import Suite
from suites.questions import Kind

SCHEMA = "usersim-guard/board/1"
VARIANTS = ("baseline", "function-driven", "guarded")
"""The columns. A simulator of another kind, or without a model, has a row of its own among the others."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run.

    Attributes:
        number: of the run in its group, from 1; `name`: of its folder.
        kinds: rates and intervals as a report shows them.
    """

    number: int
    name: str
    header: Header
    kinds: Mapping[Kind, KindView]
    standing: Standing

    @property
    def variant(self) -> str:
        return variant(self.header)

    @property
    def backbone(self) -> str | None:
        return backbone(self.header)

    @property
    def label(self) -> str:
        """The variant; of a control, that it is one."""
        return f"{self.variant} (control)" if self.header.identities["simulator"].get("control") else self.variant

    @property
    def scope(self) -> str:
        """What of the suite it covers."""
        whole = sum(self.header.suite_counts.values())
        part = f"{self.header.planned:,} of {whole:,} questions" if self.header.partial else "whole"
        left_out = len(self.header.excluded_tasks)
        return f"{part}, {left_out} tasks excluded" if left_out else part

    def to_json(self) -> dict[str, Any]:
        """Identity, rates and certificate, JSON-able."""
        sealed = self.standing.sealed
        return {
            "run": self.name,
            "simulator": self.header.identities["simulator"],
            "digests": dict(self.header.digests),
            "planned": self.header.planned,
            "partial": self.header.partial,
            "excluded_tasks": self.header.excluded_tasks,
            "started": self.header.started,
            "kinds": {kind: _kind_json(part) for kind, part in self.kinds.items()},
            "certificate": {
                "status": self.standing.status,
                "problem": self.standing.problem,
                "class": sealed.certificate_class if sealed else None,
                "digest": sealed.certificate_digest if sealed else None,
                "issuer": sealed.issuer if sealed else None,
                "issued": sealed.issued if sealed else None,
                "expires": sealed.expires if sealed else None,
            },
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One backbone: a run, or none, for each of `VARIANTS`. A repeated run, or another decoding, begins a row."""

    backbone: str
    runs: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one suite under one judge, in order of name."""

    suite: str
    judge: str
    header: Header
    entries: tuple[Entry, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The runs with a model and one of `VARIANTS`; same model, revision and decoding is the same backbone."""
        cells: dict[tuple[bytes, int], dict[str, Entry]] = {}
        for entry in self.entries:
            if not _other(entry):
                same = canonical([entry.header.identities["simulator"].get(name) for name in _BACKBONE])
                repeat = sum(key == same and entry.variant in runs for (key, _), runs in cells.items())
                cells.setdefault((same, repeat), {})[entry.variant] = entry
        names: Counter[str] = Counter()
        rows = []
        for runs in cells.values():
            name = next(iter(runs.values())).backbone or ""
            names[name] += 1
            rows.append(Row(name if names[name] == 1 else f"{name} ({names[name]})", runs))
        return tuple(rows)

    @property
    def corrected(self) -> bool:
        """Whether a rate in it is corrected for judge error."""
        return any(part.corrected is not None for entry in self.entries for part in entry.kinds.values())

    @property
    def others(self) -> tuple[Entry, ...]:
        return tuple(filter(_other, self.entries))


@dataclass(frozen=True, slots=True)
class Board:
    """Groups in order of suite and judge."""

    groups: tuple[Group, ...]

    def to_json(self) -> dict[str, Any]:
        """Every run and the published rates, JSON-able."""
        groups = [
            {
                "suite": group.header.identities["suite"],
                "judge": group.header.identities["judge"],
                "digests": {name: group.header.digests[name] for name in ("suite", "judge")},
                "runs": [entry.to_json() for entry in group.entries],
            }
            for group in self.groups
        ]
        return {"schema": SCHEMA, "groups": groups, "published": published.to_json()}


_BACKBONE = ("model", "revision", "decoding")


def build(suite_of: Callable[[Header], Suite], folders: Sequence[RunFolder], now: datetime) -> Board:
    """Count the runs and read their certificates; writes nothing.

    Args:
        suite_of: finds the suite of a run.
        now: a time with its zone, for what has expired.

    Raises:
        InputError: no folder, one that is given twice, or a run of another suite than the one that was found for it.
        LedgerError: a ledger that cannot be read.
    """
    if not folders:
        raise InputError("a board needs at least one run folder")
    places = [folder.root.resolve() for folder in folders]
    if twice := [place for at, place in enumerate(places) if place in places[:at]]:
        raise InputError(f"{twice[0]}: this run is given twice")
    groups: dict[tuple[str, str], list[Entry]] = {}
    for folder in folders:
        entry = _entry(suite_of, folder, now)
        groups.setdefault((entry.header.digests["suite"], entry.header.digests["judge"]), []).append(entry)
    return Board(
        tuple(sorted(map(_group, groups.values()), key=lambda g: (g.suite, g.judge, g.header.digests["judge"])))
    )


def _entry(suite_of: Callable[[Header], Suite], folder: RunFolder, now: datetime) -> Entry:
    with named(folder):
        header = sound_header(folder)
        work = plan_of(suite_of(header), header)
        counted = Counted(header, folder.ledger, tally(stream(folder.ledger), header, expected_keys(work.questions)))
    found = standing(folder, counted, now)
    kinds = {kind: view(kind, score, found.sealed) for kind, score in counted.scorecard.kinds.items()}
    return Entry(0, plain(folder.root.resolve().name), header, kinds, found)


def _group(entries: Iterable[Entry]) -> Group:
    """The entries numbered: by name of the backbone, then as the columns stand, then by time."""

    def place(entry: Entry) -> tuple[Any, ...]:
        column = VARIANTS.index(entry.variant) if entry.variant in VARIANTS else len(VARIANTS)
        return _other(entry), (entry.backbone or "").casefold(), column, entry.variant, entry.header.started, entry.name

    ordered = sorted(entries, key=place)
    numbered = tuple(Entry(n, e.name, e.header, e.kinds, e.standing) for n, e in enumerate(ordered, 1))
    header = ordered[0].header
    return Group(suite_name(header), judge_name(header), header, numbered)


def _other(entry: Entry) -> bool:
    return entry.variant not in VARIANTS or entry.backbone is None


def _kind_json(part: KindView) -> dict[str, Any]:
    return {
        "rows": part.score.total.rows,
        "rate": part.score.rate,
        "corrected": part.corrected,
        "interval": [part.interval.lower, part.interval.upper],
        "floor": part.floor,
        "verdict": part.verdict,
    }
