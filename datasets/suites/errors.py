"""Suites: the one error of this package. Raised with the place, so that a person can mend the data."""

from pathlib import Path


def shown(text: str) -> str:
    """Text of a file as it may be printed: control characters, which can drive a terminal, are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class SuiteError(Exception):
    """A suite file that cannot be read as it must be.

    Args:
        file: the file at fault.
        problem: what is wrong and what was expected.
        line: line number, from 1; None where the whole file is meant.
        field: dotted name of the field; None where the whole line is meant.
    """

    def __init__(self, file: Path | str, problem: str, *, line: int | None = None, field: str | None = None) -> None:
        self.file, self.line, self.field, self.problem = str(file), line, field, problem
        place = self.file + (f":{line}" if line is not None else "") + (f": field '{field}'" if field else "")
        super().__init__(shown(f"{place}: {problem}"))
