"""Integration: the `data` commands as a user types them: import, check, merge, purge, seal; what they never print."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubServer
from official_builder import (
    AMB,
    GOLD_FIELDS,
    GOLD_SQL,
    LOC,
    TASKS,
    UNA,
    edit,
    gold_row,
    write_gold,
    write_questions,
    write_tasks,
)
from suite_builder import write_jsonl, write_suite
from typer.testing import CliRunner, Result

from guard.cli_suites import data_app
from guard.exit_codes import ExitCode
from suites.errors import SuiteError
from suites.load import load

IDS = ("mart_1", "mart_2", "mart_M_7")


def cli(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guard", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def data(*arguments: str | Path) -> Result:
    """A `data` command in this process: the start of another one is most of its time."""
    return CliRunner().invoke(data_app, list(map(str, arguments)))


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "questions", IDS)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks", IDS, databases="databases")


def fields(done: subprocess.CompletedProcess[str] | Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_import_and_check(tmp_path: Path, questions: Path, tasks: Path) -> None:
    out = tmp_path / "official"
    done = cli("data", "import", out, "--questions", questions, "--tasks", tasks)
    assert done.returncode == ExitCode.OK, done.stderr
    checked = data("check", "--suite", out)
    assert checked.exit_code == ExitCode.OK
    for line in ("tasks: 3", "tasks_management: 1", "questions_una: 9", "gold: 0 of 3 tasks", "tables: 2"):
        assert line in checked.stdout.splitlines()
    assert "missing for 3 of the 3 tasks that are asked about: gold" in checked.stdout
    assert "bird.bench25@gmail.com with the tag [bird-interact-lite GT&Test Cases]" in checked.stdout
    found = fields(data("check", "--suite", out, "--json"))
    assert (found["knowledge_entries"], found["ambiguities"], found["tasks_with_gold"]) == (2, 9, 0)
    assert found["missing"].keys() == {"gold"}
    assert found["sources"]["tasks"]["origin"] == str(tasks)
    assert found["digest"] == load(out).digest


def test_an_import_with_findings_keeps_the_rest(tmp_path: Path, questions: Path, tasks: Path) -> None:
    edit(questions / AMB, 3, question_type="short")
    edit(tasks / TASKS, 1, colour="blue")
    gold = write_gold(tmp_path / "gold.jsonl", ["mart_1", "mart_55"])
    out = tmp_path / "official"
    done = data("import", out, "--questions", questions, "--tasks", tasks, "--gold", gold)
    assert done.exit_code == ExitCode.FINDINGS
    assert f"left out: {questions / AMB}:3: field 'question_type'" in done.stdout
    assert "tasks without a gold row (2): mart_2, mart_M_7" in done.stdout
    assert "gold rows without a task (1): mart_55" in done.stdout
    found = fields(data("check", "--suite", out, "--json"))
    assert (found["questions_amb"], found["questions_loc"], found["tasks_with_gold"]) == (8, 9, 1)
    assert found["dropped"] == {AMB: 1}
    assert found["unknown_fields"] == {f"{TASKS}: colour": 1}


def test_import_as_json(tmp_path: Path, questions: Path, tasks: Path) -> None:
    edit(questions / UNA, 1, instance_id=1)
    gold = write_gold(tmp_path / "gold.jsonl", IDS)
    done = data("import", tmp_path / "o", "--questions", questions, "--tasks", tasks, "--gold", gold, "--json")
    assert done.exit_code == ExitCode.FINDINGS
    found = fields(done)
    assert [(fault["line"], fault["field"]) for fault in found["faults"]] == [(1, "instance_id")]
    assert found["gold"]["matched"] == list(IDS)
    assert found["missing"] == {}


def test_import_from_the_hub(tmp_path: Path, questions: Path, tasks: Path) -> None:
    edit(questions / AMB, 2, question_type="short")
    with HubServer() as hub:
        files = {name: (questions / name).read_bytes() for name in (AMB, LOC, UNA)}
        commit = hub.commit("birdsql/guard", files)
        below = {p.relative_to(tasks / "databases").as_posix(): p for p in (tasks / "databases").rglob("*.*")}
        hub.commit(
            "birdsql/lite", {TASKS: (tasks / TASKS).read_bytes()} | {n: p.read_bytes() for n, p in below.items()}
        )
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
        sources = ("--questions", f"hub:birdsql/guard@{commit}", "--tasks", "hub:birdsql/lite")
        done = cli("data", "import", tmp_path / "o", *sources, **environment)
    assert done.returncode == ExitCode.FINDINGS, done.stderr
    assert f"left out: hub:birdsql/guard@{commit}/{AMB}:2: field 'question_type'" in done.stdout
    found = fields(data("check", "--suite", tmp_path / "o", "--json"))
    assert found["sources"]["questions"]["revision"] == commit
    assert commit[:12] in found["version"]
    assert (found["tasks"], found["tables"], found["questions_amb"]) == (3, 2, 8)
    assert {p.name for p in tmp_path.iterdir()} == {"questions", "tasks", "hf", "o"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--questions", "none"), "no such folder"),
        (("--questions", "questions", "--gold", "gold"), "gold belongs to tasks"),
        (("--questions", "questions", "--tasks", "tasks", "--gold", "none"), "cannot be read"),
        (("--questions", "hub:no"), "hub:"),
    ],
)
def test_an_import_that_cannot_be(tmp_path: Path, questions: Path, tasks: Path, arguments: Any, words: str) -> None:
    paths = [text if text.startswith(("--", "hub:")) else tmp_path / text for text in arguments]
    done = data("import", tmp_path / "o", *paths)
    assert isinstance(done.exception, SuiteError)
    assert words in str(done.exception)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["questions", "tasks"]


def test_a_raw_download_names_the_command(questions: Path) -> None:
    done = cli("score", "--simulator", "mute", "--suite", questions, "--out", questions / "run")
    assert done.returncode == ExitCode.BAD_INPUT
    assert "usersim-guard data import" in done.stderr


def test_merge(tmp_path: Path, tasks: Path) -> None:
    gold, out = write_gold(tmp_path / "gold.jsonl", ["mart_1", "mart_7"]), tmp_path / "merged.jsonl"
    done = data("merge", tasks / TASKS, gold, out)
    assert done.exit_code == ExitCode.FINDINGS
    assert "gold rows without a task (1): mart_7" in done.stdout
    assert "3 tasks written, 1 of them with a gold row" in done.stdout
    assert len(out.read_text().splitlines()) == 3
    again = cli("data", "merge", tasks / TASKS, gold, out)
    assert (again.returncode, "exists already" in again.stderr) == (ExitCode.BAD_INPUT, True)
    whole = write_gold(tmp_path / "whole.jsonl", IDS)
    found = data("merge", tasks / TASKS, whole, tmp_path / "whole", "--json")
    assert found.exit_code == ExitCode.OK
    assert fields(found)["matched"] == list(IDS)


def test_gold_is_never_printed(tmp_path: Path, questions: Path, tasks: Path) -> None:
    """Whatever is wrong with it: a type, a difference, a line that is no JSON."""
    edit(tasks / TASKS, 1, sol_sql=["SELECT 'public'"], test_cases=[5])
    edit(tasks / TASKS, 2, sol_sql=["SELECT 'public'"])
    rows = [gold_row(i) for i in IDS] + [{"instance_id": GOLD_SQL}, gold_row("mart_1") | {"sol_sql": {GOLD_SQL: 1}}]
    gold = tmp_path / "gold.jsonl"
    write_jsonl(gold, rows)
    gold.write_text(gold.read_text() + f'{{"sol_sql": "{GOLD_SQL}\n')
    for number, flag in enumerate([(), ("--json",)]):
        out = tmp_path / f"out{number}"
        for command in (
            ("import", out, "--questions", questions, "--tasks", tasks, "--gold", gold),
            ("merge", tasks / TASKS, gold, tmp_path / f"merged{number}"),
            ("check", "--suite", out),
        ):
            done = data(*command, *flag)
            assert done.exit_code in (ExitCode.OK, ExitCode.FINDINGS)
            assert not any(secret in done.output for secret in ("shop_name", "def test", "'public'", "SELECT"))
    assert "shop_name" in GOLD_SQL and GOLD_FIELDS["test_cases"]


def test_the_gold_audit_says_which_dumps_are_not_loaded(tmp_path: Path, questions: Path, tasks: Path) -> None:
    home = {"USERSIM_GUARD_HOME": str(tmp_path / "home")}
    assert data("import", tmp_path / "o", "--questions", questions, "--tasks", tasks).exit_code == ExitCode.OK
    try:
        done = cli("audit", "gold", "--suite", tmp_path / "o", "--json", **home)
    finally:
        cli("db", "stop", **home)
    assert done.returncode == ExitCode.FINDINGS
    codes = {(found["code"], found["database"]) for found in json.loads(done.stdout)["findings"]}
    assert {("build_failed", "mart"), ("database_unavailable", "mart")} <= codes
    assert "usersim-guard db load" in done.stdout


def test_json_of_seal_and_db(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    assert fields(data("seal", "--suite", root, "--json"))["digest"] == load(root).digest
    done = cli("db", "status", "--json", USERSIM_GUARD_HOME=str(tmp_path / "home"))
    assert (done.returncode, fields(done)) == (ExitCode.INFRASTRUCTURE, {"state": "not running"})


def test_purge(tmp_path: Path, questions: Path, tasks: Path) -> None:
    root = tmp_path / "official"
    data("import", root, "--questions", questions, "--tasks", tasks)
    (root / "notes.txt").write_text("mine")
    refused = cli("data", "purge", root)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "say --yes" in refused.stderr
    assert load(root, verify_manifest=False).questions, "nothing was removed"
    done = data("purge", root, "--yes", "--json")
    assert done.exit_code == ExitCode.FINDINGS, "a file that is not ours stays, and is named"
    assert [one["unknown"] for one in json.loads(done.stdout)] == [[str(root / "notes.txt")]]
    assert [p.name for p in root.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(("answer", "gone"), [(b"y\n", True), (b"n\n", False)])
def test_purge_asks_on_a_terminal(tmp_path: Path, questions: Path, answer: bytes, gone: bool) -> None:
    root = tmp_path / "official"
    data("import", root, "--questions", questions)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        command = [sys.executable, "-m", "guard", "data", "purge", str(root)]
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=120, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == ExitCode.OK, done.stderr
    assert re.search(r"Remove these \d+ files\?", done.stderr)
    assert root.exists() is not gone
