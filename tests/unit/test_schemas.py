"""Unit: the schemas describe the real files, notice what does not fit, and change only with their version."""

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from schema_faults import faults
from scored_run import GOOD_JUDGE, make_run, rows_of
from suite_builder import read_jsonl, write_suite

from benchmark_core.digest import digest
from benchmark_core.errors import InputError, SimulatorFailure
from benchmark_core.grading.outcome import Outcome
from benchmark_core.ports import Action, Ask
from guard import document, export, grades, ledger
from guard.certificate import Issue, seal
from guard.ledger import Call, ScoredItem, dump_header, dump_item
from guard.schemas import SCHEMAS, identifier, json_schema
from judge.calibration import load_calibration
from judge.rubric import Rating
from judge.verdict import Evidence, EvidenceKind, UnjudgedCause
from simulators.remote_wire import remote_request
from suites.load import OPEN, load
from suites.questions import Kind, Style
from suites.tasks import Category

EXAMPLES = Path(__file__).parents[2] / "examples"
SHAPES = {
    "usersim-guard/ledger-header/2": "sha256:8c86acb98743e4dfaaf6461dc4030d78fdc9617e84874fdedab6eb1227254099",
    "usersim-guard/ledger-item/2": "sha256:8fd738baf48afb2e5d659fcf98a68b62dfa84ce46be89fe3e756dbce0daa39ac",
    "usersim-guard/scorecard/1": "sha256:ab2433d964791c58815e1a884a6a280e66cbc000bf49d3d5652647a211ecb93e",
    "usersim-guard/certificate/1": "sha256:7e3d4161cd7e74351a9d07767aaad20a6c9a3825e3fb9c356b3667933c596dd5",
    "usersim-guard/calibration/1": "sha256:72dbdb9f5c93da1d4d37819efd00201fd24779bfe4be8ceb9d09073a8ccfc1d9",
    "usersim-guard/task/1": "sha256:7de36d58a9444743c16e6b6b316d8ece711bec4c4e6b764b489c72d1e0336e7c",
    "usersim-guard/question-amb/1": "sha256:4a7ee8a2f3391eff3de77252f437cd4fda78dd16af7a1adfdfcecbcddc24c8ad",
    "usersim-guard/question-loc/1": "sha256:9d00e8e268f69cf8394b00840a51fbb7bad5f906bce2a474d9193898e10d9b6a",
    "usersim-guard/question-una/1": "sha256:5614b3a0d099019b0532c48679a9452971ba383c7949a3d3a1d662a06f65cbf4",
    "usersim-guard/knowledge/1": "sha256:46253ed560a11753dd166b1c193d40f666fa50808c9b5b984209040ff4b071b6",
    "usersim-guard/reply/1": "sha256:45eb0b15c02962136968fe5920f212de5980761cbed7c937b17c6ae86487eea3",
    "usersim-guard/remote-request/1": "sha256:43f14b4c5ccc1d89d3b346a634f8969a90a1667427e06b6e99165b3695769e00",
    "usersim-guard/remote-response/1": "sha256:02761370ab437d9869e2ae3ad4bd2f6163a274c733651bb6acb3b8dc84045389",
    "usersim-guard/submission/1": "sha256:04a9e78077c35fe421e5399211f3aa85017dd0201977d07b0ac1243f3c685cea",
    "usersim-guard/grade/1": "sha256:2f1ee4a27be27ed66ae76dce392c439ef5eb7ddcf0ec15d8ae8e166fcb72ceac",
    "usersim-guard/export-row/1": "sha256:63b5a0057340222fa1539a629727d0dcde5f67afee1913cb0ea836c15ecabac7",
}
"""`$id` -> digest of the shape. Where one differs, readers of that format break: give it a new version, and a reader of
the old, or take the change back. Only a shape that was never released may change under its version."""


def shape_of(schema: Any, *, names: bool = False) -> Any:
    """A schema without the words for people. `names`: whether the keys at hand are names of fields, not keywords."""
    if isinstance(schema, list):
        return [shape_of(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    for_people = () if names else ("title", "description", "$id")
    return {
        key: shape_of(inner, names=key in ("properties", "$defs") and not names)
        for key, inner in schema.items()
        if key not in for_people
    }


ITEM = ScoredItem(
    key=next(iter(make_run(tasks=1, rows=1).expected[Kind.AMB])),
    database="mart",
    reply="since february",
    action=Action(Kind.AMB, "recently"),
    target_hit=True,
    rating=Rating.B,
    reason="fine",
    confidence=0.5,
    evidence=(Evidence(EvidenceKind.CODE, "since", 0, 5),),
    calls=(Call("simulator", "m", None, None, 3, 1, False, 0.25),),
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """By schema, values as they stand in files."""
    root = write_suite(tmp_path_factory.mktemp("schemas") / "suite")
    run = make_run(rows_of(Kind.UNA, range(9), rating=None, unjudged=UnjudgedCause.TIMEOUT, confidence=None))
    bad = make_run(rows_of(Kind.LOC, range(200), rating=None, failure=SimulatorFailure.EMPTY, reply=None, action=None))
    issue = Issue(datetime(2026, 12, 1, tzinfo=UTC), 1, calibration=GOOD_JUDGE)
    sealed = [seal(each.decide(GOOD_JUDGE), each.tally(), each.header, issue) for each in (make_run(), run, bad)]
    assert {each["kind"] for each in sealed} == {"certificate", "refusal"}
    names = {
        "task": "bird_interact_data.jsonl",
        "question-amb": "data_labeled.jsonl",
        "question-loc": "data_unlabeled.jsonl",
        "question-una": "data_unanswerable.jsonl",
    }
    return {
        "ledger-header": [json.loads(dump_header(run.header))],
        "ledger-item": [json.loads(dump_item(item)) for item in (ITEM, *run.items[-9:], *bad.items[240:480])],
        "scorecard": [json.loads(json.dumps(each.tally().to_json())) for each in (run, bad, make_run(tasks=1, rows=1))],
        "certificate": sealed,
        "calibration": [GOOD_JUDGE.to_json()],
        "knowledge": [
            row for folder in (root, OPEN) for path in folder.glob("*/*_kb.jsonl") for row in read_jsonl(path)
        ],
        "export-row": [export_row()],
        "reply": read_jsonl(EXAMPLES / "replies.jsonl"),
        "submission": read_jsonl(EXAMPLES / "submissions.jsonl"),
        "grade": grade_lines(tmp_path_factory.mktemp("grades") / "grades.jsonl"),
        "remote-request": [
            remote_request(Ask(question.text, load(root).oracles[question.key.instance_id]), with_oracle=oracle)
            for question in load(root).questions
            for oracle in (True, False)
        ],
        "remote-response": [{"reply": "No."}, {"reply": "No.", "model": "m", "usage": {"prompt_tokens": 3}}],
        **{name: read_jsonl(root / file) + read_jsonl(OPEN / file) for name, file in names.items()},
    }


def grade_lines(path: Path) -> list[Any]:
    file = grades.GradeFile.open(path, {}, resume=False)
    for outcome in Outcome:
        kept = grades.Kept(outcome, "what a system may be told", "what only the operator may know")
        file.append(
            grades.GradedItem(grades.Key("mart_1", 1, 2), Category.QUERY, kept, kept, recorded=True, seconds=0.1)
        )
    file.close()
    return read_jsonl(path)[1:]


def export_row() -> dict[str, Any]:
    """A row with everything set, by way of JSON."""
    row = export.ExportRow(
        instance_id="mart_1",
        database="mart",
        question_id="q1",
        style=Style.NORMAL,
        kind=Kind.AMB,
        question="How far back?",
        reply="since february",
        rating=Rating.A,
        accepted=True,
        unjudged=None,
        failure=None,
        action_kind=Kind.AMB,
        target_hit=True,
        reason="fine",
        confidence=0.5,
        evidence_kinds=(EvidenceKind.CODE,),
        evidence_texts=("since",),
        attempts=1,
        calls=2,
        prompt_tokens=10,
        completion_tokens=None,
        cached_calls=0,
        latency_s=0.5,
        models=("m",),
    )
    values: dict[str, Any] = json.loads(json.dumps(asdict(row)))
    return values


def test_real_files_fit(real: dict[str, list[Any]]) -> None:
    assert real.keys() == SCHEMAS.keys(), "a schema without a real file that proves it"
    for name, values in real.items():
        schema = json_schema(name)
        assert values, name
        for value in values:
            assert list(faults(value, schema)) == [], name


def test_what_does_not_fit_is_noticed(real: dict[str, list[Any]]) -> None:
    """Each required field taken away, and each field with a value of no type that any of them has."""
    for name, values in real.items():
        schema = json_schema(name)
        for field in schema["required"]:
            assert list(faults({**values[0], field: ...}, schema)), f"{name}.{field}"
            without = {key: value for key, value in values[0].items() if key != field}
            assert list(faults(without, schema)) == [f"$.{field}: missing"]
        if name not in (
            "scorecard",
            "reply",
            "submission",
        ):  # one is only written; the others hold what public ones add
            assert list(faults({**values[0], "more": 1}, schema)) == ["$.more: unknown"]


def test_the_types_that_read_agree(real: dict[str, list[Any]], tmp_path: Path) -> None:
    """The schema's required fields are those without which the strict reader refuses a file."""
    required = json_schema("certificate")["required"]
    assert set(required) == set(real["certificate"][0])
    assert document.parse(real["certificate"][0]).decision == "pass"
    path = tmp_path / "calibration.json"
    for field in json_schema("calibration")["required"]:
        path.write_text(json.dumps({key: value for key, value in real["calibration"][0].items() if key != field}))
        with pytest.raises(InputError, match=field):
            load_calibration(path)
    header = tmp_path / "ledger.jsonl"
    header.write_text(json.dumps(real["ledger-header"][0]) + "\n")
    assert ledger.read_header(header).planned == real["ledger-header"][0]["planned"]


def test_a_schema_names_itself_and_its_version() -> None:
    for name in SCHEMAS:
        schema = json_schema(name)
        assert schema["$id"] == identifier(name)
        assert re.fullmatch(rf"usersim-guard/{name}/[0-9]+", schema["$id"])
        json.dumps(schema, allow_nan=False)
    assert json_schema("ledger-header")["properties"]["format"]["const"] == ledger.FORMAT
    assert "schema" in json_schema("scorecard")["required"]


def test_a_changed_shape_has_a_new_version() -> None:
    found = {identifier(name): digest(shape_of(json_schema(name))) for name in SCHEMAS}
    assert found == SHAPES


def test_words_for_people_are_no_part_of_a_shape_but_fields_of_that_name_are() -> None:
    row = json_schema("knowledge")
    assert "description" in shape_of(row)["properties"]
    assert shape_of({**row, "description": "other words"}) == shape_of(row)


@pytest.mark.parametrize(("name", "says"), [("ledger-itm", "did you mean ledger-item?"), ("../x", "--list")])
def test_an_unknown_schema_is_named(name: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        json_schema(name)
