"""Judge: what a detector finds in a passage before it is known whether the dialogue had given it."""

from dataclasses import dataclass

from judge.verdict import EvidenceKind


@dataclass(frozen=True, slots=True)
class Finding:
    """Something disclosed at `text[start:end]` of a passage. Findings of one `key` disclose the same thing."""

    kind: EvidenceKind
    key: str
    start: int
    end: int
