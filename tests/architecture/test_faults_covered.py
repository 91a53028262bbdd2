"""Architecture: every fault of the public code that this stage must be free of has a test that carries its number."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
REQUIRED = {f"D{n}" for n in (*range(1, 10), *range(12, 19), 20, 21, 22, 34)} | {f"G{n:02d}" for n in range(1, 43)}
GRADING = {f"B{n:02d}" for n in range(1, 45)} | {f"E{n:02d}" for n in range(1, 22)} | {f"D{n}" for n in range(37, 47)}
"""Those of the grader and the environment; a table of cases names them as plain text."""


def test_every_required_fault_is_marked() -> None:
    marks = re.compile(r"\bfault\(([^)]*)\)", re.DOTALL)
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("test_*.py")) if path != Path(__file__)
    )
    found = {number for mark in marks.findall(text) for number in re.findall(r'"([DG]\d+)"', mark)}
    assert sorted(REQUIRED - found) == []


def test_every_fault_of_the_public_grader_is_named_by_a_test() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__))
    assert sorted(GRADING - set(re.findall(r'"([BDE]\d\d)"', text))) == []
