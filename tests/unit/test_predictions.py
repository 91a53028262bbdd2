"""Tests of recorded predictions: every format, every fault named with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmark_core.errors import InputError
from guard.predictions import EPISODE, Prediction, read_predictions

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "c_interact_samples.json"


def rows(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def adk(path: Path, *calls: tuple[str, str], key: str = "results") -> Path:
    trajectory = [{"type": "tool", "tool": "ask_user", "args": {"question": "?"}, "result": "Phase 1 correct!"}]
    trajectory += [
        {"type": "tool", "tool": "submit_sql", "args": {"sql": text}, "result": result} for text, result in calls
    ]
    path.write_text(
        json.dumps({"mode": "c-interact", key: [{"task_id": "t_1", "tool_trajectory": trajectory}]}, indent=2)
    )
    return path


def test_submission_rows(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "p.jsonl",
        {"instance_id": "t_2", "pred_sqls": "SELECT 1"},
        {"instance_id": "t_1", "pred_sqls": ["A", "B"], "sub_task": 2, "passed": False},
        {"instance_id": "t_1", "pred_sqls": ["C"], "sub_task": 1, "passed": False},
        {"instance_id": "t_1", "pred_sqls": ["D"], "passed": True},
    )
    assert read_predictions(path) == (
        Prediction("t_2", 1, 1, ("SELECT 1",)),
        Prediction("t_1", 1, 1, ("C",), recorded=False),
        Prediction("t_1", 1, 2, ("D",), recorded=True),
        Prediction("t_1", 2, 1, ("A", "B"), ("D",), recorded=False),
    )


def test_an_only_first_submission_is_what_the_follow_up_builds_on(tmp_path: Path) -> None:
    line = {"instance_id": "t", "pred_sqls": "A"}
    path = rows(tmp_path / "p.jsonl", line, {**line, "sub_task": 2, "pred_sqls": "B"})
    assert [one.before for one in read_predictions(path)] == [(), ("A",)]


def test_rows_of_the_public_programs_carry_their_task(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "p.jsonl", {"instance_id": "t", "selected_database": "d", "sol_sql": ["S"], "pred_sqls": ["P"]}
    )
    assert read_predictions(path) == (Prediction("t", 1, 1, ("P",)),)


def test_episodes(tmp_path: Path) -> None:
    submissions = [{"pred_sqls": ["A"], "passed": True}, {"sub_task": 2, "pred_sqls": ["B"]}]
    path = rows(tmp_path / "e.jsonl", {"format": EPISODE, "instance_id": "t", "submissions": submissions, "turns": []})
    assert [(one.statements, one.before, one.recorded) for one in read_predictions(path)] == [
        (("A",), (), True),
        (("B",), ("A",), None),
    ]


@pytest.mark.parametrize("key", ["results", "samples"])
def test_an_adk_file_says_which_sub_task_was_graded(tmp_path: Path, key: str) -> None:
    path = adk(
        tmp_path / "r.json",
        ("A", "SQL failed Phase 1. Your SQL is not correct."),
        ("B", "Phase 1 correct! (Reward: 0.7). Moving to Phase 2."),
        ("B2", "Phase 1 correct! (Reward: 0.7). Moving to Phase 2."),
        ("C", "Error: timed out"),
        ("D", "SQL failed Phase 2. Your SQL is not correct."),
        key=key,
    )
    assert [
        (one.sub_task, one.number, *one.statements, one.before, one.recorded) for one in read_predictions(path)
    ] == [
        (1, 1, "A", (), False),
        (1, 2, "B", (), True),
        (1, 3, "B2", (), True),
        (2, 1, "C", ("B",), None),
        (2, 2, "D", ("B",), False),
    ]


@pytest.mark.skipif(not SAMPLES.exists(), reason=f"no {SAMPLES}")
def test_published_trajectories_are_read() -> None:
    found = read_predictions(SAMPLES)
    assert len({one.instance_id for one in found}) == 10
    # one trajectory was graded for sub-task 2 without ever passing sub-task 1
    assert {one.instance_id for one in found if one.sub_task == 2 and not one.before} == {"alien_2"}
    assert sum(one.recorded is True for one in found) == 10


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([{"pred_sqls": ["A"]}], "p.jsonl:1: field 'instance_id': missing"),
        ([{"instance_id": "t", "pred_sqls": []}], "field 'pred_sqls'"),
        ([{"instance_id": "t", "pred_sqls": [7]}], "field 'pred_sqls.0'"),
        (
            [{"instance_id": "t", "pred_sqls": "A"}, {"instance_id": "t", "pred_sqls": "A", "sub_task": 3}],
            "p.jsonl:2: field",
        ),
        ([{"instance_id": "t", "pred_sqls": "A", "subtask": 2}], "unknown field 'subtask'"),
        ([{"instance_id": "t", "format": "other", "submissions": []}], "field 'format'"),
        ([{"instance_id": "t", "format": EPISODE, "submissions": [{}]}], "field 'submissions.0.pred_sqls': missing"),
        ([{"results": 7}], "field 'results'"),
        ([{"results": [{"tool_trajectory": []}]}], "task 1: field 'task_id': missing"),
        ([], "holds no submission"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, lines: list[Any], named: str) -> None:
    with pytest.raises(InputError, match=named.replace("(", r"\(")):
        read_predictions(rows(tmp_path / "p.jsonl", *lines))


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = rows(tmp_path / "p.jsonl", {"instance_id": "t", "pred_sqls": "A"})
    path.write_text(path.read_text() + "{broken\n")
    with pytest.raises(InputError, match="2"):
        read_predictions(path)
    with pytest.raises(InputError, match=r"cannot be read|no-such"):
        read_predictions(tmp_path / "no-such")
