"""Tests: `usersim-guard grade` as a user types it, over the whole open suite."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guard.exit_codes import ExitCode
from suites.load import OPEN, load

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment with an embedded server of its own."""
    env = {**os.environ, "USERSIM_GUARD_HOME": str(tmp_path_factory.mktemp("home"))}
    yield env
    subprocess.run([sys.executable, "-m", "guard", "db", "stop"], check=True, env=env, capture_output=True)


def grade(home: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guard", "grade", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=home, timeout=240)


def references() -> Rows:
    """The suite's own gold, as predictions."""
    return [
        {"instance_id": name, "sub_task": number, "pred_sqls": list(sub_task.sol_sql)}
        for name, oracle in load(OPEN).oracles.items()
        for number, sub_task in ((1, oracle.first), (2, oracle.follow_up))
    ]


def write(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_gold_passes_and_nothing_does_not(home: dict[str, str], tmp_path: Path) -> None:
    rows = references()
    done = grade(home, write(tmp_path / "gold.jsonl", rows), "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    found = json.loads(done.stdout)
    assert found["outcomes"] == {"strict": {"passed": len(rows)}, "official": {"passed": len(rows)}}

    for row in rows:
        row["pred_sqls"] = ["SELECT 1"]
    done = grade(home, write(tmp_path / "nothing.jsonl", rows), "--json")
    assert done.returncode == ExitCode.OK, "wrong answers are no fault of the run"
    found = json.loads(done.stdout)
    assert "passed" not in found["outcomes"]["strict"] and "passed" not in found["outcomes"]["official"]


def test_grades_are_kept_and_a_run_goes_on(home: dict[str, str], tmp_path: Path) -> None:
    rows = references()[:4]
    rows[1]["pred_sqls"] = ["SELECT * FROM nowhere"]
    rows[2]["pred_sqls"] = ["DROP TABLE bike_unit CASCADE"]
    rows[0]["passed"] = True
    predictions, out = write(tmp_path / "p.jsonl", rows), tmp_path / "grades.jsonl"
    done = grade(home, predictions, "--out", out)
    assert done.returncode == ExitCode.OK, done.stderr
    assert "strict: 1 execution_error, 2 passed, 1 refused." in done.stdout
    assert "The record agrees with `official` on 1 of 1 submissions." in done.stdout
    lines = out.read_text().splitlines()
    assert len(lines) == 5 and out.stat().st_mode & 0o777 == 0o600
    assert not [line for line in lines if '"detail"' in line], "details are for who asks"

    again = grade(home, predictions, "--out", out)
    assert again.returncode == ExitCode.BAD_INPUT and "--resume" in again.stderr
    out.write_text("\n".join(lines[:3]) + "\n")
    resumed = grade(home, predictions, "--out", out, "--resume", "--json")
    assert resumed.returncode == ExitCode.OK, resumed.stderr
    assert sum(json.loads(resumed.stdout)["outcomes"]["strict"].values()) == 4
    assert len(out.read_text().splitlines()) == 5
    other = grade(home, predictions, "--out", out, "--resume", "--deadline", "5")
    assert other.returncode == ExitCode.BAD_INPUT and "settings" in other.stderr


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"instance_id": "unknown_1", "pred_sqls": "SELECT 1"}, "unknown_1"),
        ({"instance_id": "bike_depot_1", "pred_sqls": 5}, "pred_sqls"),
        ({"instance_id": "bike_depot_1"}, "p.jsonl:1: field 'pred_sqls'"),
    ],
)
def test_predictions_that_cannot_be_graded_are_named(
    home: dict[str, str], tmp_path: Path, row: dict[str, Any], named: str
) -> None:
    done = grade(home, write(tmp_path / "p.jsonl", [row]))
    assert done.returncode == ExitCode.BAD_INPUT and named in done.stderr, done.stderr
    assert done.stdout == ""


def test_gold_is_in_nothing_that_is_printed(home: dict[str, str], tmp_path: Path) -> None:
    rows = [{**row, "pred_sqls": ["SELECT 1, 2"]} for row in references()]
    done = grade(home, write(tmp_path / "p.jsonl", rows), "--out", tmp_path / "g.jsonl")
    text = done.stdout + done.stderr + (tmp_path / "g.jsonl").read_text()
    for row in references():
        for statement in row["pred_sqls"]:
            assert statement[:60] not in text
