"""Unit: the loader reads a good suite and names file, line and field of a bad one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from suite_builder import read_jsonl, seal, small_suite, write_jsonl, write_suite

from suites.errors import SuiteError
from suites.load import load
from suites.questions import Kind
from suites.tasks import Level

Row = dict[str, Any]


def test_reads_tasks_and_questions(tmp_path: Path) -> None:
    suite = small_suite(tmp_path / "s", tasks=3, points=2)
    assert [t.instance_id for t in suite.tasks] == ["mart_1", "mart_2", "mart_3"]
    assert {kind: sum(q.kind is kind for q in suite.questions) for kind in Kind} == dict.fromkeys(Kind, 18)
    oracle = suite.oracles["mart_1"]
    assert [a.level for a in oracle.ambiguities] == [Level.CRITICAL, Level.KNOWLEDGE]
    assert oracle.number_of_ambiguities == 2


def test_the_brief_holds_nothing_of_the_oracle(tmp_path: Path) -> None:
    task = small_suite(tmp_path / "s").tasks[0]
    brief = repr(task.brief)
    assert task.oracle.first.query not in brief
    assert task.oracle.first.sol_sql[0] not in brief
    assert [k.id for k in task.brief.knowledge] == [1], "the masked entry must be hidden from the system"
    assert [k.id for k in task.oracle.masked_knowledge] == [2]


def _edit(root: Path, name: str, change: Callable[[list[Row]], None]) -> None:
    rows = read_jsonl(root / name)
    change(rows)
    write_jsonl(root / name, rows)


def _set(path: str, value: Any) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        *parents, last = path.split(".")
        node: Any = rows[1]
        for part in parents:
            node = node[int(part)] if part.isdigit() else node[part]
        if value is ...:
            del node[last]
        else:
            node[last] = value

    return change


TASKS, AMB, LOC, UNA = (
    "bird_interact_data.jsonl",
    "data_labeled.jsonl",
    "data_unlabeled.jsonl",
    "data_unanswerable.jsonl",
)


@pytest.mark.fault("G16", "G34", "G35", "G41", "G42")
@pytest.mark.parametrize(
    ("file", "path", "value", "field", "words"),
    [
        (TASKS, "querry", "x", "querry", "unknown field"),
        (TASKS, "sol_sql", ..., "sol_sql", "missing"),
        (TASKS, "sol_sql", [], "sol_sql", "at least 1"),
        (TASKS, "category", "Managment", "category", "'Management'"),
        (TASKS, "follow_up.type", "other", "follow_up.type", "constraint_change"),
        (TASKS, "follow_up.category", "Management", "follow_up.post_conditions", "at least one post-condition"),
        (TASKS, "external_knowledge", [99], "external_knowledge", "99"),
        (TASKS, "amb_user_query", "How much?", "ambiguity 'recently'", "does not stand in"),
        (TASKS, "knowledge_ambiguity.0.deleted_knowledge", 77, "ambiguity 'big sales'", "77"),
        (TASKS, "instance_id", "mart_1", "instance_id", "stands already at line 1"),
        (TASKS, "instance_id", "../../etc", "instance_id", "pattern"),
        (TASKS, "high_level", "yes", "high_level", "boolean"),
        (AMB, "label", "LOC", "label", "'AMB'"),
        (AMB, "response", "OLD", "response", "unknown field"),
        (AMB, "clarification_question", 5, "clarification_question", "string"),
        (AMB, "clarification_question", None, "clarification_question", "string"),
        (AMB, "question_type", "short", "question_type", "'concise'"),
        (AMB, "instance_id", "mart_M_1", "instance_id", "no task has the id mart_M_1"),
        (AMB, "selected_database", "other", "selected_database", "mart"),
        (AMB, "reference.ambiguity", "big", "reference.ambiguity", "'big sales'"),
        (AMB, "reference.facts", [], "reference.facts", "at least 1"),
        (AMB, "question_type", "concise", "question_id", "stands already at line 1"),
        (
            AMB,
            "clarification_question",
            "How far back does recently go? (mart_1, q1, concise)",
            "clarification_question",
            "line 1",
        ),
        (AMB, "clarification_question", "   ", "clarification_question", "at least 1"),
        (LOC, "reference.answer", "Other.", "reference", "differs from the same point at line 1"),
        (UNA, "reference.sub_kind", "names", "reference.sub_kind", "table_or_column_names"),
        (UNA, "stratum", "soft", "stratum", "'core'"),
    ],
)
def test_names_file_line_and_field(tmp_path: Path, file: str, path: str, value: Any, field: str, words: str) -> None:
    root = write_suite(tmp_path / "s")
    load(root, verify_manifest=False)
    _edit(root, file, _set(path, value))
    with pytest.raises(SuiteError) as caught:
        load(root, verify_manifest=False)
    assert (Path(caught.value.file).name, caught.value.line, caught.value.field) == (file, 2, field)
    assert words in caught.value.problem


@pytest.mark.fault("G13")
@pytest.mark.parametrize("text", ["\n", "{\n", "[]\n", "null\n", '"text"\n'])
def test_a_line_that_is_no_object_is_named(tmp_path: Path, text: str) -> None:
    root = write_suite(tmp_path / "s")
    file = root / UNA
    file.write_text(file.read_text() + text)
    with pytest.raises(SuiteError) as caught:
        load(root, verify_manifest=False)
    assert caught.value.line == 7


def test_not_utf8(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    (root / AMB).write_bytes(b'{"instance_id": "\xff"}\n')
    with pytest.raises(SuiteError, match="not UTF-8"):
        load(root, verify_manifest=False)


@pytest.mark.parametrize(
    ("children", "words"), [([9], "no entry has the id 9"), ([2], "cycle"), ([1, 1], "distinct ids")]
)
def test_the_knowledge_base_is_a_dag(tmp_path: Path, children: list[int], words: str) -> None:
    root = write_suite(tmp_path / "s")
    _edit(root, "mart/mart_kb.jsonl", _set("children_knowledge", children))
    with pytest.raises(SuiteError, match=words):
        load(root, verify_manifest=False)


def test_a_long_knowledge_cycle_is_found(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    entry = read_jsonl(root / "mart/mart_kb.jsonl")[0]
    ring = [entry | {"id": i, "children_knowledge": [i % 5000 + 1]} for i in range(1, 5001)]
    write_jsonl(root / "mart/mart_kb.jsonl", ring)
    with pytest.raises(SuiteError, match="cycle"):
        load(root, verify_manifest=False)


def test_column_meanings_are_keyed_in_lower_case(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    (root / "mart/mart_column_meaning_base.json").write_text(json.dumps({"mart|Shop|shop_id": "x"}))
    with pytest.raises(SuiteError, match=r"mart\|table\|column"):
        load(root, verify_manifest=False)


def test_the_manifest_pins_every_file(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    before = load(root).digest
    (root / "extra.txt").write_text("x")
    with pytest.raises(SuiteError, match="not named in manifest"):
        load(root)
    (root / "extra.txt").unlink()
    build = root / "mart/mart_build.sql"
    build.write_text(build.read_text() + "-- changed\n")
    with pytest.raises(SuiteError, match=r"differs from manifest"):
        load(root)
    seal(root)
    assert load(root).digest != before
    build.unlink()
    with pytest.raises(SuiteError, match="missing"):
        load(root)


def test_the_manifests_counts_are_counted(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    manifest = root / "manifest.toml"
    manifest.write_text(manifest.read_text().replace("questions_una = 6", "questions_una = 700"))
    with pytest.raises(SuiteError, match="counted"):
        load(root)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("suite/1", "suite/9", "suite/1"), ("format", "extra = 1\nformat", "unknown"), ('name = "mart"', "", "name")],
)
def test_a_bad_manifest(tmp_path: Path, old: str, new: str, words: str) -> None:
    root = write_suite(tmp_path / "s")
    manifest = root / "manifest.toml"
    manifest.write_text(manifest.read_text().replace(old, new))
    with pytest.raises(SuiteError, match=words):
        load(root)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="no such folder"):
        load(tmp_path / "none")
