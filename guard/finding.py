"""Guard: what one check of `doctor` or of the preflight found. Imports nothing, so that it works in a broken set-up."""

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    Attributes:
        seen: what was found, for people; never a key, never text of a prompt.
        repair: one sentence, with a command where there is one; "" where nothing is to be done.
    """

    name: str
    level: Level
    seen: str
    repair: str = ""

    def to_json(self) -> dict[str, str]:
        """All fields."""
        return asdict(self)


def line(finding: Finding) -> str:
    """A finding in one line."""
    repair = f" To do: {finding.repair}" if finding.repair else ""
    return f"{finding.level}: {finding.name}: {finding.seen}{repair}"
