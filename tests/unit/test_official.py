"""Unit: official downloads become a sealed suite. What does not fit is named and left out, the rest is verbatim."""

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from official_builder import (
    AMB,
    GOLD_SQL,
    LOC,
    TASKS,
    UNA,
    edit,
    question_row,
    task_row,
    write_database,
    write_gold,
    write_questions,
    write_real_size,
    write_tasks,
)
from suite_builder import read_jsonl, write_jsonl, write_suite

from suites.errors import SuiteError
from suites.imports import Imported, Inputs, import_official
from suites.load import load
from suites.manifest import read_manifest, write_manifest
from suites.official_rows import OfficialAmbiguityRow
from suites.questions import Kind, Stratum
from suites.suite import Part, Suite
from suites.survey import survey
from suites.tasks import Category, FollowUpType, Level

IDS = ("mart_1", "mart_2", "mart_M_7")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "questions", IDS)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks", IDS, databases="databases")


def bring(out: Path, questions: Path, tasks: Path | None = None, gold: Path | None = None) -> Imported:
    return import_official(out, Inputs(str(questions), str(tasks) if tasks else None, gold))


def places(done: Imported) -> list[tuple[str, int | None, str | None]]:
    return [(Path(fault.file).name, fault.line, fault.field) for fault in done.faults]


# --- what is read


def test_questions_tasks_and_databases(tmp_path: Path, questions: Path, tasks: Path) -> None:
    suite = bring(tmp_path / "out", questions, tasks).suite
    assert (suite.official, suite.name) == (True, "official")
    assert {kind: sum(q.kind is kind for q in suite.questions) for kind in Kind} == dict.fromkeys(Kind, 9)
    assert {q.reference for q in suite.questions} == {None}
    assert {q.stratum for q in suite.questions} == {Stratum.CORE}
    assert [task.instance_id for task in suite.tasks] == list(IDS)
    oracle = suite.oracles["mart_M_7"]
    assert [a.level for a in oracle.ambiguities] == [Level.CRITICAL, Level.NON_CRITICAL, Level.KNOWLEDGE]
    assert {(a.meaning, a.flow) for a in oracle.ambiguities} == {("", None)}
    assert (oracle.first.category, oracle.follow_up.category) == (Category.MANAGEMENT, Category.QUERY)
    assert oracle.follow_up.type is FollowUpType.AGGREGATION
    assert oracle.first.sol_sql == ()
    database = suite.databases["mart"]
    assert database.build_sql is None
    assert database.column_meanings["mart|shop|shop_id"] == "key of the shop", "keys count in lower case"
    assert "of the wrapping" in database.column_meanings["mart|sale|details"], "fields of a JSON column are kept"
    assert load(tmp_path / "out").digest == suite.digest


def test_the_brief_holds_nothing_of_the_oracle(tmp_path: Path, questions: Path, tasks: Path) -> None:
    task = bring(tmp_path / "out", questions, tasks, write_gold(tmp_path / "gold", IDS)).suite.tasks[0]
    brief = repr(task.brief)
    assert task.oracle.first.sol_sql == (GOLD_SQL,)
    assert GOLD_SQL not in brief
    assert task.oracle.first.query not in brief
    assert [entry.id for entry in task.brief.knowledge] == [1], "the masked entry must be hidden from the system"
    assert [entry.id for entry in task.oracle.masked_knowledge] == [2]


def test_kept_lines_are_verbatim_and_private(tmp_path: Path, questions: Path, tasks: Path) -> None:
    spaced = json.dumps(question_row(AMB, "mart_2", 77), indent=None, separators=(" ,  ", " :  ")) + "  "
    with (questions / AMB).open("a") as file:
        file.write(spaced)  # and no line end
    out = bring(tmp_path / "out", questions, tasks).suite.root
    assert (out / AMB).read_text() == (questions / AMB).read_text() + "\n"
    assert (out / TASKS).read_bytes() == (tasks / TASKS).read_bytes()
    modes = {stat.S_IMODE(p.stat().st_mode) for p in out.rglob("*") if p.is_file()}
    folders = {stat.S_IMODE(p.stat().st_mode) for p in (out, out / "mart")}
    assert (modes, folders) == ({0o600}, {0o700})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "questions", "tasks"], "nothing else is left behind"


def test_the_manifest_says_where_everything_came_from(tmp_path: Path, questions: Path, tasks: Path) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", IDS)
    done = bring(tmp_path / "out", questions, tasks, gold)
    manifest = read_manifest(done.suite.root)
    assert {part: source.origin for part, source in manifest.sources.items()} == {
        "questions": str(questions),
        "tasks": str(tasks),
        "gold": str(gold),
    }
    assert set(manifest.sources["tasks"].files) == {
        TASKS,
        "mart/mart_schema.txt",
        "mart/mart_column_meaning_base.json",
        "mart/mart_kb.jsonl",
    }
    assert manifest.counts["tasks_management"] == 1
    edit(questions / AMB, 1, clarification_question="Other words?")
    other = bring(tmp_path / "other", questions, tasks, gold).suite
    assert other.version != done.suite.version
    assert other.digest != done.suite.digest


@pytest.mark.parametrize("character", ["\U0001f600", "\x7f", '"', "\\", "ä", "\n"])
def test_any_origin_makes_a_readable_manifest(tmp_path: Path, tasks: Path, character: str) -> None:
    questions = write_questions(tmp_path / f"q{character}q", IDS)
    done = bring(tmp_path / "out", questions, tasks)
    assert read_manifest(done.suite.root).sources["questions"].origin == str(questions)


# --- liberal about what may be there or not


def test_unknown_and_absent_fields_are_kept_and_counted(tmp_path: Path, questions: Path, tasks: Path) -> None:
    edit(tasks / TASKS, 1, conditions=..., follow_up=None, normal_query="x", category=..., clean_up_sqls=..., query=...)
    row = read_jsonl(tasks / TASKS)[1]
    row["knowledge_ambiguity"] = [{"note": "nothing that is known"}]
    row["follow_up"] |= {"category": "management", "type": "Topic pivot"}
    row["sol_sql"] = "SELECT 1"
    edit(tasks / TASKS, 2, **row)
    edit(
        tasks / TASKS, 3, clean_up_sql=["DROP TABLE x"], clean_up_sqls=..., follow_up=row["follow_up"] | {"type": "new"}
    )
    edit(questions / LOC, 4, source="x", question_type="Verbose", question_id="007")
    done = bring(tmp_path / "out", questions, tasks)
    assert done.faults == ()
    first, second, third = (task.oracle for task in done.suite.tasks)
    assert (first.first.category, first.first.query, first.follow_up.query) == (Category.QUERY, "", "")
    assert (second.follow_up.category, second.follow_up.type) == (Category.MANAGEMENT, FollowUpType.TOPIC_PIVOT)
    assert second.first.sol_sql == ("SELECT 1",)
    assert [(a.term, a.sql_snippet, a.deleted_knowledge) for a in second.ambiguities][-1] == ("", "", None)
    assert (third.clean_up_sqls, third.follow_up.type) == (("DROP TABLE x",), None)
    found = survey(done.suite)
    assert found.unknown_fields == {
        f"{TASKS}: normal_query": 1,
        f"{TASKS}: knowledge_ambiguity.note": 1,
        f"{LOC}: source": 1,
    }
    assert found.absent_fields[f"{TASKS}: conditions"] == 1
    assert found.absent_fields[f"{TASKS}: follow_up.conditions"] == 2


@pytest.mark.fault("G35")
@pytest.mark.parametrize("una_file", ["data_una.jsonl", "usersim_una.jsonl", "una_safety.jsonl", UNA])
def test_the_third_file_has_several_names(tmp_path: Path, tasks: Path, una_file: str) -> None:
    questions = write_questions(tmp_path / "questions", IDS, una_file=una_file)
    suite = bring(tmp_path / "out", questions, tasks).suite
    assert sum(q.kind is Kind.UNA for q in suite.questions) == 9


@pytest.mark.parametrize(("field", "value"), [("label", "una"), ("class", "Unanswerable"), ("data_type", "UNA")])
def test_a_kind_field_must_not_contradict_its_file(
    tmp_path: Path, questions: Path, tasks: Path, field: str, value: str
) -> None:
    edit(questions / UNA, 1, **{field: value})
    edit(questions / AMB, 2, **{field: value})
    done = bring(tmp_path / "out", questions, tasks)
    assert places(done) == [(AMB, 2, field)]
    assert survey(done.suite).unknown_fields == {}


# --- what does not fit


@pytest.mark.fault("G16", "G34", "G41", "G42", "E21")
@pytest.mark.parametrize(
    ("file", "changes", "field"),
    [
        (AMB, {"instance_id": ...}, "instance_id"),
        (AMB, {"instance_id": 5}, "instance_id"),
        (AMB, {"instance_id": "../../etc"}, "instance_id"),
        (AMB, {"instance_id": "mart_1\x1b[2J"}, "instance_id"),
        (LOC, {"selected_database": "../mart"}, "selected_database"),
        (LOC, {"selected_database": "other"}, "selected_database"),
        (LOC, {"question_id": True}, "question_id"),
        (LOC, {"question_id": 1.5}, "question_id"),
        (UNA, {"question_type": "short"}, "question_type"),
        (UNA, {"clarification_question": "  "}, "clarification_question"),
        (UNA, {"clarification_question": None}, "clarification_question"),
        (UNA, {"question_type": "normal"}, "question_id"),
        (TASKS, {"amb_user_query": None}, "amb_user_query"),
        (TASKS, {"category": "Managment"}, "category"),
        (TASKS, {"sol_sql": [1]}, "sol_sql"),
        (TASKS, {"knowledge_ambiguity": [{"deleted_knowledge": "two"}]}, "knowledge_ambiguity.0.deleted_knowledge"),
        (TASKS, {"knowledge_ambiguity": [{"deleted_knowledge": [1, 2]}]}, "knowledge_ambiguity.0.deleted_knowledge"),
        (TASKS, {"follow_up": "none"}, "follow_up"),
        (TASKS, {"instance_id": "mart_1"}, "instance_id"),
    ],
)
def test_a_line_that_does_not_fit(
    tmp_path: Path, questions: Path, tasks: Path, file: str, changes: dict[str, Any], field: str
) -> None:
    path = (tasks if file == TASKS else questions) / file
    edit(path, 2, **changes)
    lines = path.read_text().splitlines()
    done = bring(tmp_path / "out", questions, tasks)
    assert [(name, line) for name, line, _ in places(done)] == [(file, 2)]
    assert (places(done)[0][2] or "").startswith(field)
    assert (done.suite.root / file).read_text().splitlines() == [lines[0], *lines[2:]]
    assert read_manifest(done.suite.root).dropped == {file: 1}
    assert not done.complete


BROKEN_LINES = [
    (b"", "blank line"),
    (b"{", "not JSON"),
    (b"[]", "expected a JSON object"),
    (b'{"instance_id": "\xff"}', "not UTF-8"),
    (b'{"instance_id": "a_1", "instance_id": "b_1"}', "stands twice"),
    (b'{"x": NaN}', "NaN"),
    (b'{"x": ' + b"[" * 100_000, "nested too deep"),
    (b'{"x": ' + b"9" * 5000 + b"}", ""),
    (b'{"x": 1e999}', "1e999"),
    (b'{"x": "\\ud800"}', ""),
    (b'"' + b"x" * (9 * 2**20) + b'"', "longer than 8 MiB"),
]


@pytest.mark.fault("G13", "D46")
@pytest.mark.parametrize(("raw", "words"), BROKEN_LINES, ids=range(len(BROKEN_LINES)))
@pytest.mark.parametrize("file", [LOC, TASKS, "mart_kb.jsonl"])
def test_a_broken_line_does_not_take_others_with_it(
    tmp_path: Path, questions: Path, tasks: Path, file: str, raw: bytes, words: str
) -> None:
    path = {LOC: questions / LOC, TASKS: tasks / TASKS}.get(file, tasks / "databases/mart" / file)
    whole = path.read_bytes()
    first, rest = whole.split(b"\n", 1)
    path.write_bytes(first + b"\n" + raw + b"\n" + rest)
    done = bring(tmp_path / "out", questions, tasks)
    assert [(name, line) for name, line, _ in places(done)] == [(file, 2)]
    assert words in done.faults[0].problem
    kept = done.suite.root / (f"mart/{file}" if file.startswith("mart") else file)
    assert kept.read_bytes() == whole


@pytest.mark.fault("D46")
@pytest.mark.parametrize("latex", [r"\text{A}", r"\frac{a}{b}", r"\sum a", r"a \times b", r"\theta", r"\beta", r"\rho"])
def test_latex_in_a_knowledge_line(tmp_path: Path, questions: Path, tasks: Path, latex: str) -> None:
    """`\\text` is even valid JSON: a tab and `ext`. The catalogue goes on without the line."""
    path = tasks / "databases/mart/mart_kb.jsonl"
    good = path.read_text()
    path.write_text(
        good + f'{{"id": 8, "knowledge": "Share", "definition": "{latex}"}}\n' + good.replace('"id": ', '"id": 1')
    )
    done = bring(tmp_path / "out", questions, tasks)
    assert (places(done)[0][0], places(done)[0][1]) == ("mart_kb.jsonl", 3)
    assert "doubled" in done.faults[0].problem
    assert [entry.id for entry in done.suite.databases["mart"].knowledge] == [1, 2, 11, 12]
    escaped = json.dumps({"id": 8, "knowledge": "Share", "definition": f"{latex}\nthen\tnext"})
    path.write_text(good + escaped + "\n")
    assert bring(tmp_path / "again", questions, tasks).faults == (), "doubled backslashes are right"


def test_knowledge_that_is_defined_by_itself(tmp_path: Path, questions: Path, tasks: Path) -> None:
    path = tasks / "databases/mart/mart_kb.jsonl"
    entry = read_jsonl(path)[0]
    children = {1: -1, 2: [1, 99], 3: [4], 4: [5], 5: [4], 2**40: [3]}
    write_jsonl(path, [entry | {"id": i, "children_knowledge": c} for i, c in children.items()] + [entry])
    done = bring(tmp_path / "out", questions, tasks)
    assert places(done) == [("mart_kb.jsonl", 7, "id"), ("mart_kb.jsonl", 4, "children_knowledge")]
    kept = {e.id: e.children_knowledge for e in done.suite.databases["mart"].knowledge}
    assert kept == {1: (), 2: (1,), 3: (), 5: (), 2**40: (3,)}, "children without an entry are not named"


@pytest.mark.parametrize(
    ("name", "content", "places_expected", "meanings"),
    [
        ("mart_column_meaning_base.json", b"{", [None], 0),
        ("mart_column_meaning_base.json", b"[]", [None], 0),
        ("mart_column_meaning_base.json", b'{"mart|a|b": "x", "Mart|A|B": "y"}', ["Mart|A|B"], 1),
        ("mart_column_meaning_base.json", b'{"mart|a": "x", "mart|a|b": "y", "o|a|b": "z"}', ["mart|a", "o|a|b"], 1),
        ("mart_column_meaning_base.json", b'{"mart|a|b": 5}', ["mart|a|b"], 0),
        ("mart_schema.txt", b"\xff", [None], 7),
    ],
)
def test_a_broken_description(
    tmp_path: Path, questions: Path, tasks: Path, name: str, content: bytes, places_expected: list[str], meanings: int
) -> None:
    (tasks / "databases/mart" / name).write_bytes(content)
    done = bring(tmp_path / "out", questions, tasks)
    assert [(place[0], place[2]) for place in places(done)] == [(name, field) for field in places_expected]
    assert len(done.suite.databases["mart"].column_meanings) == meanings
    assert bool(done.suite.lacking[Part.DATABASES]) == (name == "mart_schema.txt")


LINE = st.one_of(
    st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
        max_leaves=4,
    ).map(lambda value: json.dumps(question_row(AMB, "mart_1", 5) | {"question_id": value}).encode()),
    st.fixed_dictionaries(
        {
            "instance_id": st.sampled_from(["mart_1", "mart_M_1", "x"]),
            "question_id": st.sampled_from([1, "1", "q1"]),
            "question_type": st.sampled_from(["normal", "CONCISE"]),
        }
    ).map(lambda row: json.dumps(question_row(AMB, "mart_1") | row).encode()),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.lists(LINE, max_size=8))
def test_every_line_is_kept_or_named(tmp_path_factory: pytest.TempPathFactory, raw: list[bytes]) -> None:
    root = tmp_path_factory.mktemp("any")
    questions = write_questions(root / "questions", ["mart_2"])
    tasks = write_tasks(root / "tasks", ["mart_1"])
    content = b"".join(line + b"\n" for line in raw)
    (questions / AMB).write_bytes(content)
    done = bring(root / "out", questions, tasks)
    kept = (root / "out" / AMB).read_bytes().split(b"\n")[:-1]
    named = [fault.line for fault in done.faults]
    assert kept == [line.removesuffix(b"\r") for n, line in enumerate(raw, 1) if n not in named]
    assert len(kept) == sum(q.kind is Kind.AMB for q in done.suite.questions)
    assert len({q.key for q in done.suite.questions}) == len(done.suite.questions)


@pytest.mark.fault("D8")
def test_keys_are_not_glued(tmp_path: Path, questions: Path) -> None:
    write_jsonl(questions / AMB, [question_row(AMB, "a_1", "1question"), question_row(AMB, "a_11", "question")])
    assert bring(tmp_path / "out", questions).faults == ()


# --- what is lacking


def test_questions_join_the_very_task(tmp_path: Path, questions: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", ["mart_1", "mart_7"])
    done = bring(tmp_path / "out", questions, tasks)
    assert done.faults == ()
    assert done.suite.lacking[Part.TASKS] == ("mart_2", "mart_M_7")
    assert survey(done.suite).without_task == ("mart_2", "mart_M_7 (not joined to mart_7: another task)")
    bare = done.suite.oracles["mart_M_7"]
    assert (bare.user_query, bare.first.sol_sql, bare.ambiguities) == ("", (), ())
    assert survey(done.suite).counts["questions_without_task"] == 18


def test_questions_alone(tmp_path: Path, questions: Path) -> None:
    suite = bring(tmp_path / "out", questions).suite
    assert suite.lacking == dict.fromkeys(Part, IDS)
    assert suite.oracles.keys() == set(IDS)
    assert suite.tasks == ()
    assert suite.databases["mart"].schema == ""


def test_gold_is_merged_by_exact_id(tmp_path: Path, questions: Path, tasks: Path) -> None:
    done = bring(tmp_path / "out", questions, tasks, write_gold(tmp_path / "gold", ["mart_1", "mart_7"]))
    assert done.merged is not None
    assert (done.merged.without_gold, done.merged.without_task) == (("mart_2", "mart_M_7"), ("mart_7",))
    assert not done.complete
    assert done.suite.lacking == {Part.TASKS: (), Part.GOLD: ("mart_2", "mart_M_7"), Part.DATABASES: ()}
    assert done.suite.oracles["mart_1"].follow_up.sol_sql == ("SELECT 2",)
    assert done.suite.oracles["mart_1"].first.external_knowledge == (2,)
    assert GOLD_SQL not in (done.suite.root / "manifest.toml").read_text()


def test_the_open_suite_lacks_nothing() -> None:
    suite: Suite = load()
    assert not suite.official
    assert suite.lacking == {part: () for part in Part}
    found = survey(suite)
    assert found.counts["tasks_with_gold"] == found.counts["tasks"]
    assert (found.unknown_fields, found.missing) == ({}, {})


# --- files and folders


def test_real_size_takes_seconds(tmp_path: Path) -> None:
    questions, tasks, gold = write_real_size(tmp_path)
    start = time.perf_counter()
    done = bring(tmp_path / "out", questions, tasks, gold)
    taken = time.perf_counter() - start
    assert (len(done.suite.questions), len(done.suite.tasks), len(done.suite.databases)) == (2100, 300, 18)
    assert done.complete
    assert taken < 20


def test_links_to_files_are_followed(tmp_path: Path, questions: Path, tasks: Path) -> None:
    """A download cache keeps contents elsewhere, and links to them."""
    cache, linked = tmp_path / "blobs", tmp_path / "snapshot"
    cache.mkdir()
    linked.mkdir()
    for number, name in enumerate((AMB, LOC, UNA)):
        (questions / name).rename(cache / str(number))
        (linked / name).symlink_to(cache / str(number))
    assert len(bring(tmp_path / "out", linked, tasks).suite.questions) == 27


def test_one_folder_for_everything(tmp_path: Path) -> None:
    """As the README of USERSIM-GUARD has it: data/UserSim_Guard, data/bird_interact_data.jsonl, data/databases."""
    data = write_tasks(tmp_path / "data", IDS, databases="databases")
    write_questions(data / "UserSim_Guard", IDS)
    suite = bring(tmp_path / "out", data, data).suite
    assert suite.lacking == {Part.TASKS: (), Part.GOLD: IDS, Part.DATABASES: ()}


@pytest.mark.parametrize("where", ["", "deep", "empty-is-fine"])
def test_the_target_is_new(tmp_path: Path, questions: Path, tasks: Path, where: str) -> None:
    out = tmp_path / "out" / where
    out.mkdir(parents=True)
    if where != "empty-is-fine":
        (out / "mine.txt").write_text("x")
        with pytest.raises(SuiteError, match="expected a new or an empty folder"):
            bring(out, questions, tasks)
        assert [p.name for p in out.iterdir()] == ["mine.txt"]
    else:
        assert bring(out, questions, tasks).suite.root == out


def test_the_target_is_no_link_and_within_no_input(tmp_path: Path, questions: Path, tasks: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "way").symlink_to(tasks)
    for out in (tmp_path / "link", questions / "out", tasks / "a/b", tmp_path / "way" / "out"):
        with pytest.raises(SuiteError, match="expected a"):
            bring(out, questions, tasks)
    assert sorted(p.name for p in tasks.iterdir()) == [TASKS, "databases"]
    assert sorted(p.name for p in questions.iterdir()) == sorted([AMB, LOC, UNA])


def _without_loc(questions: Path, tasks: Path) -> None:
    (questions / LOC).unlink()


def _two_una(questions: Path, tasks: Path) -> None:
    (questions / "data_una.jsonl").write_text("")


def _two_folders(questions: Path, tasks: Path) -> None:
    for name in (AMB, LOC, UNA):
        (questions / name).unlink()
    write_questions(questions / "a", IDS)
    write_questions(questions / "b", IDS)


def _no_question_fits(questions: Path, tasks: Path) -> None:
    for name in (AMB, LOC, UNA):
        (questions / name).write_text("{}\n")


def _no_tasks(questions: Path, tasks: Path) -> None:
    (tasks / TASKS).unlink()


def _two_databases(questions: Path, tasks: Path) -> None:
    write_database(tasks)


def _pipe(questions: Path, tasks: Path) -> None:
    (questions / AMB).unlink()
    os.mkfifo(questions / AMB)


def _huge(questions: Path, tasks: Path) -> None:
    os.truncate(questions / AMB, 2**40)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_without_loc, "no file holds the LOC questions; expected data_unlabeled.jsonl"),
        (_two_una, "data_una.jsonl and data_unanswerable.jsonl both hold UNA questions"),
        (_two_folders, "name one of them"),
        (_no_question_fits, "no question could be read"),
        (_no_tasks, "holds no bird_interact_data.jsonl"),
        (_two_databases, "describes the same database"),
        (_pipe, "no file holds the AMB questions"),
        (_huge, "larger than"),
    ],
)
def test_a_download_that_cannot_be_taken(tmp_path: Path, questions: Path, tasks: Path, spoil: Any, words: str) -> None:
    spoil(questions, tasks)
    with pytest.raises(SuiteError, match=words):
        bring(tmp_path / "out", questions, tasks)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["questions", "tasks"], "nothing is left behind"


# --- sealed


def test_a_sealed_suite_is_pinned_and_can_be_sealed_again(tmp_path: Path, questions: Path, tasks: Path) -> None:
    done = bring(tmp_path / "out", questions, tasks)
    root = done.suite.root
    before = read_manifest(root)
    edit(root / TASKS, 1, query="Other words.")
    with pytest.raises(SuiteError, match=r"differs from manifest"):
        load(root)
    changed = load(root, verify_manifest=False)
    write_manifest(root, before, changed.tasks, changed.questions)
    assert load(root).digest != done.suite.digest
    assert read_manifest(root).sources == before.sources
    assert stat.S_IMODE((root / "manifest.toml").stat().st_mode) == 0o600
    edit(root / TASKS, 1, category="Managment")
    with pytest.raises(SuiteError, match="category"):
        load(root, verify_manifest=False)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "official"', 'name = "mine"', "belongs to suites that"),
        ("revision = ", "revised = ", "expected origin, revision and files"),
        ('revision = ""', "revision = 1", "expected texts"),
        ("[dropped]", "[dropping]", "unknown fields"),
        ("official-suite/1", "official-suite/2", "official-suite/1"),
    ],
)
def test_a_bad_official_manifest(tmp_path: Path, questions: Path, tasks: Path, old: str, new: str, words: str) -> None:
    manifest = bring(tmp_path / "out", questions, tasks).suite.root / "manifest.toml"
    manifest.write_text(manifest.read_text().replace(old, new))
    with pytest.raises(SuiteError, match=words):
        load(manifest.parent)


def test_no_other_suite_calls_itself_official(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    manifest = root / "manifest.toml"
    manifest.write_text(manifest.read_text().replace('name = "mart"', 'name = "official"'))
    with pytest.raises(SuiteError, match="belongs to suites that"):
        load(root)


def test_a_raw_download_is_no_suite_yet(tmp_path: Path, questions: Path, tasks: Path) -> None:
    for folder in (questions, tasks):
        with pytest.raises(SuiteError, match="usersim-guard data import"):
            load(folder)


def test_control_characters_of_names_are_not_printed(tmp_path: Path, questions: Path, tasks: Path) -> None:
    edit(tasks / TASKS, 1, **{"\x1b[2J": 1})
    done = bring(tmp_path / "out", questions, tasks)
    assert list(survey(done.suite).unknown_fields) == [f"{TASKS}: \\x1b[2J"]
    (tasks / "databases/mart/mart_column_meaning_base.json").write_text('{"\\u001b[2J": "x"}')
    (fault,) = bring(tmp_path / "again", questions, tasks).faults
    assert "\x1b" not in str(fault)


def test_a_task_row_has_none_of_our_own_fields() -> None:
    """The builder writes what is published, so that these tests say something about official data."""
    assert not {"environmental_ambiguity", "post_conditions", "label", "stratum"} & task_row("mart_1").keys()


@pytest.mark.parametrize("written", [2, "2", " 2 ", 2.0])
def test_an_id_that_an_export_turned_into_something_else_is_read(written: object) -> None:
    row = OfficialAmbiguityRow.model_validate({"term": "t", "deleted_knowledge": written})
    assert row.build(Level.KNOWLEDGE).deleted_knowledge == 2
