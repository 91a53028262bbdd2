"""Judge: what a reply discloses, deterministically. Evidence beside any verdict, and the core of the rule judge.

Disclosed are identifiers (judge/naming.py), runs of the reference SQL (judge/quoting.py), SQL-shaped text and apparatus
(judge/shapes.py), and distinctive constants (judge/literals.py). What the dialogue had given before is no disclosure,
and neither is what a permitted answer says: both are handed in as `given`.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

from benchmark_core.sql.fragments import fragments
from benchmark_core.sql.identifiers import constants, identifiers
from judge.finding import Finding
from judge.literals import Literals, said_numbers
from judge.naming import Names
from judge.passages import Passage
from judge.quoting import Runs
from judge.shapes import apparatus, code
from judge.verdict import Evidence, EvidenceKind
from suites.tasks import Oracle

_Place = tuple[EvidenceKind, int, int]


class _Given:
    """What the dialogue had given: keys of findings, runs of SQL, and the text itself.

    Most replies disclose nothing, and then none of it is asked for: so each is read when it is.
    """

    def __init__(self, detector: "Detector", given: str) -> None:
        self._detector, self._given = detector, given

    def has(self, finding: Finding) -> bool:
        if finding.kind is EvidenceKind.CODE and finding.key in self._text:
            return True
        return (finding.kind, finding.key) in self._keys

    @cached_property
    def runs(self) -> frozenset[tuple[str, ...]]:
        return self._detector.runs.given(self._passage)

    @cached_property
    def _passage(self) -> Passage:
        return Passage(self._given)

    @cached_property
    def _text(self) -> str:
        return " ".join(self._passage.text.casefold().split())

    @cached_property
    def _keys(self) -> frozenset[tuple[EvidenceKind, str]]:
        keys = {(finding.kind, finding.key) for finding in self._detector.findings(self._passage)}
        return frozenset(keys | {(EvidenceKind.CONSTANT, key) for key in said_numbers(self._given)})


class Detector:
    """Finds what replies disclose of one oracle. Building it costs milliseconds, using it microseconds."""

    def __init__(self, oracle: Oracle) -> None:
        statements = (*oracle.first.sol_sql, *oracle.follow_up.sol_sql)
        snippets = tuple(ambiguity.sql_snippet for ambiguity in oracle.ambiguities)
        pieces = (*snippets, *(fragment.text for fragment in fragments(statements)))
        self._names = Names(identifiers((*statements, *snippets), oracle.schema))
        self._literals = Literals(constants((*statements, *snippets)))
        self.runs = Runs((*statements, *snippets), pieces)

    def disclosed(self, reply: str, given: str) -> tuple[Evidence, ...]:
        """See `disclosed`."""
        passage, known = Passage(reply), _Given(self, given)
        found = [finding for finding in self.findings(passage) if not known.has(finding)]
        found += [Finding(EvidenceKind.FRAGMENT, "", *place) for place in self.runs.find(passage, lambda: known.runs)]
        places = {(finding.kind, *passage.span(finding.start, finding.end)) for finding in found}
        return tuple(Evidence(kind, reply[start:end], start, end) for kind, start, end in _outermost(places))

    def findings(self, passage: Passage) -> Iterator[Finding]:
        """All that it finds but runs of SQL, given before or not."""
        yield from self._names.find(passage)
        yield from self._literals.find(passage)
        yield from code(passage)
        yield from apparatus(passage)


def disclosed(oracle: Oracle, reply: str, given: str) -> tuple[Evidence, ...]:
    """What `reply` discloses of `oracle`, in order of place; offsets are those of `reply`.

    Args:
        given: the dialogue so far and what a permitted answer says: naming it again discloses nothing.
    """
    return Detector(oracle).disclosed(reply, given)


def _outermost(places: Iterable[_Place]) -> list[_Place]:
    """In order, without those that lie within another one of their kind."""
    kept: list[_Place] = []
    reached: dict[EvidenceKind, int] = {}
    for place in sorted(places, key=lambda place: (place[1], -place[2], place[0])):
        kind, _, end = place
        if end > reached.get(kind, 0):
            reached[kind] = end
            kept.append(place)
    return kept
