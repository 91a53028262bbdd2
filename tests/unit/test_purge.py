"""Unit: a purge removes what is private and ours, keeps what holds no text, touches nothing that it does not know."""

import fcntl
from pathlib import Path

import pytest
from made_runs import write_run
from official_builder import AMB, TASKS, write_questions, write_tasks
from suite_builder import small_suite, write_suite

from benchmark_core.errors import InputError
from guard.certify import Papers, certify_run, verify_file
from guard.purge import Content, doomed, purge
from guard.report import write_report
from guard.runs import RunFolder, count
from suites.imports import Inputs, import_official
from suites.load import OPEN, load

IDS = ("mart_1", "mart_2")


@pytest.fixture
def official(tmp_path: Path) -> Path:
    questions, tasks = write_questions(tmp_path / "questions", IDS), write_tasks(tmp_path / "tasks", IDS)
    return import_official(tmp_path / "official", Inputs(str(questions), str(tasks))).suite.root


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    suite = small_suite(tmp_path / "suite")
    folder = write_run(tmp_path / "run", suite)
    count(suite, folder)
    certify_run(suite, folder, Papers())
    write_report(suite, folder)
    for name in ("completions.sqlite", "completions.sqlite-wal", ".report.html.77", "report-2.html", "rows.parquet"):
        (folder.root / name).write_text("SECRET")
    (folder.root / "inspect.json").write_text('{"version": 2, "packages": {"usersim-guard": "0"}}')
    (folder.root / "table/data").mkdir(parents=True)
    (folder.root / "table/data/train-00000-of-00001.parquet").write_text("SECRET")
    (folder.root / "table/README.md").write_text("SECRET")
    return folder


def test_an_imported_suite_goes_and_the_download_stays(official: Path, tmp_path: Path) -> None:
    download = {p for name in ("questions", "tasks") for p in (tmp_path / name).rglob("*")}
    found = doomed(official)
    assert (found.content, found.unknown) == (Content.SUITE, ())
    purge(found)
    assert not official.exists()
    assert {p for name in ("questions", "tasks") for p in (tmp_path / name).rglob("*")} == download


def test_a_run_keeps_what_holds_no_text(run_folder: RunFolder) -> None:
    assert b"SECRET" in run_folder.ledger.read_bytes()
    kept = {path: path.read_bytes() for path in (run_folder.scorecard, run_folder.certificate)}
    assert not any(b"SECRET" in content for content in kept.values())
    found = doomed(run_folder.root)
    assert (found.content, found.unknown) == (Content.RUN, ())
    purge(found)
    assert {path: path.read_bytes() for path in run_folder.root.rglob("*")} == kept
    verify_file(run_folder.certificate, Papers(), None)
    assert doomed(run_folder.root).remove == (), "a purged run is still known as one"


def test_what_is_not_ours_stays_and_is_named(run_folder: RunFolder, official: Path) -> None:
    for root in (run_folder.root, official):
        mine = [root / "notes.txt", root / "sub/mine.json", root / "sub/README.md"]
        (root / "sub").mkdir()
        for path in mine:
            path.write_text("{}")
        found = doomed(root)
        assert sorted(found.unknown) == sorted(mine)
        purge(found)
        assert all(path.exists() for path in mine)


def test_what_is_refused(official: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(official)
    (tmp_path / "empty").mkdir()
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "ledger.jsonl").write_text('{"format": "usersim-guard/ledger/1"}\n')
    (linked / "report.html").symlink_to(tmp_path / "tasks" / TASKS)
    write_suite(tmp_path / "own")
    names = ("link", "empty", "linked", "own", "questions", f"tasks/{TASKS}", "none", ".")
    for folder in (*(tmp_path / name for name in names), OPEN, OPEN.parent, OPEN / "controls"):
        with pytest.raises(InputError):
            doomed(folder)
    assert load(official).questions
    assert load().questions


@pytest.mark.parametrize(
    "name", ["../questions/data_labeled.jsonl", "mart/../../questions/data_labeled.jsonl", "ABSOLUTE"]
)
def test_a_manifest_cannot_name_files_elsewhere(official: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "questions" / AMB
    name = name.replace("ABSOLUTE", str(outside))
    manifest = official / "manifest.toml"
    head, files = manifest.read_text().split("[files]")
    manifest.write_text(f'{head}[files]{files}"{name}" = "0"\n')
    purge(doomed(official))
    assert outside.exists()
    assert not official.exists()


def test_a_run_that_is_being_written_is_refused(run_folder: RunFolder) -> None:
    with run_folder.ledger.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is scoring"):
            doomed(run_folder.root)
    assert doomed(run_folder.root).remove[-1] == run_folder.ledger, "what a run is known by goes last"
