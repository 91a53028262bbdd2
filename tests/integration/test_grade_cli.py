"""Tests: `usersim-guard grade` as a user types it, over the whole open suite."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from official_builder import edit, write_gold, write_questions, write_tasks

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


DUMP = """--
-- PostgreSQL database dump
--

CREATE TABLE public.shop (shop_name text, sale_amount integer);
ALTER TABLE public.shop OWNER TO root;
COPY public.shop (shop_name, sale_amount) FROM stdin;
north\t90
south\t40
\\.

--
-- PostgreSQL database dump complete
--
"""
INSERT = "INSERT INTO shop VALUES ('west', 70)"
TEST = """
import re
def test_case(pred_sqls, sol_sqls, db_name, conn):
    rows, error, timeout = execute_queries("SELECT count(*) FROM shop WHERE shop_name = 'west'", db_name, conn)
    assert rows == [(1,)], rows
"""


def test_official_tasks_are_graded_on_loaded_dumps(home: dict[str, str], tmp_path: Path) -> None:
    """With test cases in Python, in the jail."""

    def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "guard", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=home, timeout=240)

    ids = ["mart_1", "mart_M_1"]
    tasks, questions = write_tasks(tmp_path / "tasks", ids), write_questions(tmp_path / "questions", ids)
    gold = write_gold(tmp_path / "gold.jsonl", ids)
    edit(gold, 2, sol_sql=[INSERT], test_cases=[TEST])
    out = tmp_path / "official"
    done = cli("data", "import", out, "--questions", questions, "--tasks", tasks, "--gold", gold)
    assert done.returncode == ExitCode.OK, done.stderr
    rows = [
        {"instance_id": "mart_1", "pred_sqls": "SELECT shop_name FROM shop WHERE sale_amount >= 61"},
        {"instance_id": "mart_M_1", "pred_sqls": "INSERT INTO shop (shop_name) VALUES ('west')"},
        {"instance_id": "mart_M_1", "pred_sqls": "SELECT 1"},
    ]
    predictions = write(tmp_path / "p.jsonl", rows)
    lacking = grade(home, predictions, "--suite", out)
    assert lacking.returncode == ExitCode.BAD_INPUT and "usersim-guard db load" in lacking.stderr

    (tmp_path / "dumps" / "mart_template").mkdir(parents=True)
    (tmp_path / "dumps" / "mart_template" / "shop.sql").write_text(DUMP)
    loaded = cli("db", "load", tmp_path / "dumps", "--json")
    assert loaded.returncode == ExitCode.OK, loaded.stderr
    [one] = json.loads(loaded.stdout)
    assert (one["name"], one["tables"], one["rows"], one["passed_over"]) == ("mart", 1, 2, 1)

    graded = grade(home, predictions, "--suite", out, "--json", "--out", tmp_path / "g.jsonl")
    assert graded.returncode == ExitCode.OK, graded.stderr
    _, *kept = [json.loads(line) for line in (tmp_path / "g.jsonl").read_text().splitlines()]
    outcomes = {
        (item["key"]["instance_id"], item["key"]["number"]): (item["strict"]["outcome"], item["official"]["outcome"])
        for item in kept
    }
    assert outcomes == {
        ("mart_1", 1): ("passed", "passed"),
        ("mart_M_1", 1): ("passed", "passed"),
        ("mart_M_1", 2): ("mismatch", "mismatch"),
    }
    (tmp_path / "dumps" / "mart_template" / "shop.sql").write_text(DUMP.replace("\\.\n", ""))
    cut = cli("db", "load", tmp_path / "dumps")
    assert cut.returncode == ExitCode.BAD_INPUT and "within the rows of a COPY" in cut.stderr
