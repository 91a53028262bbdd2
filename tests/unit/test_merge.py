"""Unit: gold is merged by exact id; what does not match is named, no value is replaced, no input is touched."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from official_builder import GOLD_FIELDS, GOLD_SQL, SECOND_GOLD, TASKS, edit, gold_row, task_row, write_gold
from suite_builder import read_jsonl, write_jsonl

from suites.errors import SuiteError
from suites.merge import FIELDS, Merged, merge_files

IDS = ("mart_1", "mart_M_1", "mart_2")


@pytest.fixture
def public(tmp_path: Path) -> Path:
    path = tmp_path / TASKS
    write_jsonl(path, [task_row(i) for i in IDS])
    return path


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write_gold(tmp_path / "gold.jsonl", reversed(IDS))


def merged(public: Path, gold: Path, out: Path | None = None) -> tuple[Merged, list[SuiteError]]:
    faults: list[SuiteError] = []
    return merge_files(public, gold, out or public.with_name("out.jsonl"), faults.append), faults


def test_gold_comes_into_its_fields_and_nothing_else_changes(public: Path, gold: Path, tmp_path: Path) -> None:
    found, faults = merged(public, gold)
    assert (found.matched, found.without_gold, found.without_task, faults) == (IDS, (), (), [])
    out = tmp_path / "out.jsonl"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    for before, after in zip(read_jsonl(public), read_jsonl(out), strict=True):
        second = before["follow_up"] | SECOND_GOLD
        assert after == before | GOLD_FIELDS | {"follow_up": second}


@pytest.mark.fault("D46")
@pytest.mark.parametrize("way", ["same", "dots", "symlink", "hardlink", "gold", "other", "dangling"])
def test_no_input_and_nothing_that_is_there_is_written_to(public: Path, gold: Path, tmp_path: Path, way: str) -> None:
    out = tmp_path / "out.jsonl"
    match way:
        case "same":
            out = public
        case "dots":
            out = tmp_path / "x" / ".." / TASKS
            (tmp_path / "x").mkdir()
        case "symlink":
            out.symlink_to(public)
        case "hardlink":
            os.link(public, out)
        case "gold":
            out.symlink_to(gold)
        case "other":
            out.write_text("mine")
        case "dangling":
            out.symlink_to(tmp_path / "nowhere")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    words = "exists already" if way in ("other", "dangling") else "is the same file as"
    with pytest.raises(SuiteError, match=words):
        merged(public, gold, out)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_ids_are_compared_exactly(public: Path, tmp_path: Path) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", ["mart_1", "mart_M_2", "MART_2", "mart_02"])
    found, faults = merged(public, gold)
    assert found.matched == ("mart_1",)
    assert found.without_gold == ("mart_M_1", "mart_2")
    assert found.without_task == ("MART_2", "mart_02", "mart_M_2")
    assert faults == []
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert lines[1:] == public.read_text().splitlines()[1:], "tasks without gold are kept as they are"


@pytest.mark.parametrize(
    ("value", "kept"),
    [(["SELECT 'mine'"], True), ([GOLD_SQL], False), ([], False), (None, False), ("", False), (..., False)],
)
def test_a_value_that_is_there_is_not_replaced(
    public: Path, gold: Path, tmp_path: Path, value: Any, kept: bool
) -> None:
    edit(public, 1, sol_sql=value)
    _, faults = merged(public, gold)
    row = read_jsonl(tmp_path / "out.jsonl")[0]
    assert row["sol_sql"] == (value if kept else [GOLD_SQL])
    assert row["test_cases"] == GOLD_FIELDS["test_cases"]
    assert [(f.file, f.line, f.field) for f in faults] == ([(str(gold), 3, "sol_sql")] if kept else [])
    assert GOLD_SQL not in repr(faults) and "mine" not in repr(faults), "gold is never shown"


@pytest.mark.parametrize("follow_up", [None, {}, ...])
def test_a_follow_up_that_is_not_there_gets_its_gold(public: Path, gold: Path, tmp_path: Path, follow_up: Any) -> None:
    edit(public, 1, follow_up=follow_up)
    assert merged(public, gold)[1] == []
    got = read_jsonl(tmp_path / "out.jsonl")[0]["follow_up"]
    assert got == {"sol_sql": SECOND_GOLD["sol_sql"]}


def test_gold_that_stands_twice(public: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    other = gold_row("mart_2") | {"sol_sql": ["SELECT 'another'"]}
    write_jsonl(gold, [gold_row("mart_1"), gold_row("mart_1"), gold_row("mart_2"), other])
    found, faults = merged(public, gold)
    assert [(f.line, f.field) for f in faults] == [(2, "instance_id"), (4, "instance_id")]
    assert found.matched == ("mart_1",), "the same content twice is used once; of two contents neither is used"
    assert read_jsonl(tmp_path / "out.jsonl")[2]["sol_sql"] == []


def test_lines_that_cannot_be_read_are_named_and_left_out(public: Path, gold: Path, tmp_path: Path) -> None:
    public.write_text("\n" + public.read_text() + json.dumps(task_row("mart_1")) + "\n{\n")
    gold.write_text(f'{{"instance_id": "mart_9", "sol_sql": {GOLD_SQL}}}\n' + gold.read_text())
    found, faults = merged(public, gold)
    assert [(Path(f.file).name, f.line) for f in faults] == [(TASKS, 1), (TASKS, 5), (TASKS, 6), ("gold.jsonl", 1)]
    assert GOLD_SQL not in "".join(map(str, faults))
    assert found.matched == IDS
    assert [row["instance_id"] for row in read_jsonl(tmp_path / "out.jsonl")] == list(IDS)


@pytest.mark.parametrize(
    "bad", [{"sol_sql": [1]}, {"follow_up": []}, {"external_knowledge": ["a"]}, {"instance_id": 1}]
)
def test_a_gold_row_of_wrong_types(public: Path, gold: Path, bad: dict[str, Any]) -> None:
    edit(gold, 1, **bad)
    found, faults = merged(public, gold)
    assert [(f.line, (f.field or "").split(".")[0]) for f in faults] == [(1, next(iter(bad)))]
    assert found.matched == ("mart_1", "mart_M_1")


@pytest.mark.parametrize("which", ["public", "gold"])
def test_a_file_that_is_not_there(public: Path, gold: Path, tmp_path: Path, which: str) -> None:
    (public if which == "public" else gold).unlink()
    with pytest.raises(SuiteError, match="cannot be read"):
        merged(public, gold)
    assert not (tmp_path / "out.jsonl").exists()


VALUES = st.sampled_from([[], None, "", ["SELECT 1"], ["SELECT 2"], "SELECT 1"])
ROWS = st.dictionaries(st.sampled_from([f"mart_{n}" for n in range(4)]), st.tuples(VALUES, VALUES), max_size=4)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks=ROWS, golds=ROWS)
def test_a_merge_only_fills(
    tmp_path_factory: pytest.TempPathFactory, tasks: dict[str, Any], golds: dict[str, Any]
) -> None:
    """Each value is the public one where there was one, else the gold one; both sides are accounted for."""
    root = tmp_path_factory.mktemp("merge")
    write_jsonl(
        root / TASKS, [task_row(i) | {"sol_sql": a, "follow_up": {"sol_sql": b}} for i, (a, b) in tasks.items()]
    )
    write_jsonl(
        root / "g", [{"instance_id": i, "sol_sql": a, "follow_up": {"sol_sql": b}} for i, (a, b) in golds.items()]
    )
    found, faults = merged(root / TASKS, root / "g")
    differing = 0
    for row in read_jsonl(root / "out.jsonl"):
        pairs = zip(tasks[row["instance_id"]], golds.get(row["instance_id"], (None, None)), strict=True)
        for got, (ours, theirs) in zip((row["sol_sql"], row["follow_up"]["sol_sql"]), pairs, strict=True):
            assert (got or None) == (ours or theirs or None)
            differing += bool(ours and theirs and ours != theirs)
    assert len(faults) == differing
    assert {*found.matched, *found.without_gold} == tasks.keys()
    assert {*found.matched, *found.without_task} == golds.keys()


def test_the_gold_fields_are_those_that_are_published_apart() -> None:
    assert set(FIELDS) == GOLD_FIELDS.keys()
