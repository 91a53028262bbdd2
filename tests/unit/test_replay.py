"""Recorded replies: how files are read, joined by key, and given again."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from suite_builder import small_suite, write_jsonl

from benchmark_core.errors import InputError, SimulatorError, SimulatorFailure
from benchmark_core.ports import Ask
from simulators.replay import Replay
from simulators.replies import KIND_NAMES, MAX_LINE_BYTES, Replies, read_replies
from suites.load import Suite, load
from suites.questions import Kind, Question

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/replies.jsonl"

Row = dict[str, Any]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return small_suite(tmp_path_factory.mktemp("suite"))


def row(question: Question, response: str | None = None, **more: Any) -> Row:
    """As the public scripts write it, without a kind."""
    return {
        "response": f"about {question.key.question_id} ({question.kind})" if response is None else response,
        "instance_id": question.key.instance_id,
        "selected_database": question.database,
        "question_id": question.key.question_id,
        "question_type": question.key.style.value,
        "clarification_question": question.text,
        "prompt": "You are the user …",
        "model": "somebody's",
        **more,
    }


def read(folder: Path, suite: Suite, *files: Sequence[Row], planned: Sequence[Question] | None = None) -> Replies:
    paths = []
    for number, rows in enumerate(files):
        paths.append(folder / f"replies_{number}.jsonl")
        write_jsonl(paths[-1], list(rows))
    return read_replies(paths, suite.questions, suite.questions if planned is None else planned)


def refused(folder: Path, suite: Suite, *files: Sequence[Row], planned: Sequence[Question] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, suite, *files, planned=planned)
    return str(caught.value)


def answer(replies: Replies, suite: Suite, question: Question) -> str:
    ask = Ask(question.text, suite.oracles[question.key.instance_id])
    return asyncio.run(Replay(replies).answer(ask)).text


def failure(replies: Replies, suite: Suite, question: Question) -> SimulatorError:
    with pytest.raises(SimulatorError) as caught:
        answer(replies, suite, question)
    return caught.value


def test_every_question_gets_its_own_reply_in_any_order_of_rows_and_files(tmp_path: Path, suite: Suite) -> None:
    rows = [row(q) for q in suite.questions]
    straight = read(tmp_path, suite, rows)
    random.Random(1).shuffle(rows)
    mixed = read(tmp_path, suite, rows[:5], rows[5:])
    for question in suite.questions:
        assert answer(mixed, suite, question) == f"about {question.key.question_id} ({question.kind})"
    assert mixed.digest == straight.digest


def test_one_file_a_kind_as_the_public_scripts_make_them(tmp_path: Path, suite: Suite) -> None:
    files = [[row(q) for q in suite.questions if q.kind is kind] for kind in Kind]
    assert all(files)
    assert len(read(tmp_path, suite, *files).by_text) == len(suite.questions)


@pytest.mark.parametrize("field", ["label", "kind", "data_type", "class"])
@pytest.mark.parametrize("name", [*KIND_NAMES, "AMB", "Labeled", "UNA"])
def test_a_stated_kind_must_be_the_questions(tmp_path: Path, suite: Suite, field: str, name: str) -> None:
    [question] = [q for q in suite.questions if q.kind is KIND_NAMES[name.casefold()]][:1]
    assert read(tmp_path, suite, [row(question, **{field: name})], planned=[question])
    other = next(kind for kind in Kind if kind is not question.kind)
    message = refused(tmp_path, suite, [row(question, **{field: other.value})], planned=[])
    assert "1 row(s) " in message


@pytest.mark.parametrize("value", ["maybe", "", 3, ["AMB"], True])
def test_another_kind_is_refused_with_its_place(tmp_path: Path, suite: Suite, value: Any) -> None:
    message = refused(tmp_path, suite, [row(suite.questions[0], kind=value)])
    assert "replies_0.jsonl:1: field 'kind': expected one of amb, labeled" in message


def test_two_kinds_in_one_row_are_refused(tmp_path: Path, suite: Suite) -> None:
    message = refused(tmp_path, suite, [row(suite.questions[0], kind="AMB", label="UNA")])
    assert "replies_0.jsonl:1: label, kind, data_type and class name several kinds: AMB, UNA" in message


def same_text(suite: Suite) -> tuple[Suite, Question, Question]:
    """The suite with an AMB and a UNA question of one task that share id, style and text, as public data may."""
    amb = next(q for q in suite.questions if q.kind is Kind.AMB)
    una = replace(amb, key=replace(amb.key, kind=Kind.UNA))
    return replace(suite, questions=(amb, una)), amb, una


def test_a_kind_that_cannot_be_found_is_asked_for(tmp_path: Path, suite: Suite) -> None:
    twins, amb, una = same_text(suite)
    message = refused(tmp_path, twins, [row(amb), row(una)], planned=[])
    assert "2 row(s) could be of several kinds; add a field `kind`" in message
    assert read(tmp_path, twins, [row(amb, "same", kind="AMB"), row(una, "same", kind="una")])


def test_equal_texts_with_different_replies_are_refused(tmp_path: Path, suite: Suite) -> None:
    twins, amb, una = same_text(suite)
    rows = [row(amb, "one", kind="AMB"), row(una, "other", kind="UNA")]
    assert "have the same text as another question" in refused(tmp_path, twins, rows)
    assert read(tmp_path, twins, rows, planned=[una]).by_text  # nothing to confuse where one alone is asked


@pytest.mark.fault("D6")
def test_a_shuffled_file_is_refused(tmp_path: Path, suite: Suite) -> None:
    first, second = suite.questions[:2]
    rows = [row(first, clarification_question=second.text), row(second, clarification_question=first.text)]
    message = refused(tmp_path, suite, rows, planned=[])
    assert "2 row(s) have another clarification_question than the suite" in message
    assert f"replies_0.jsonl:1: {first.key.instance_id} / {first.key.question_id} / {first.key.style}" in message


def test_blanks_around_the_question_do_not_matter(tmp_path: Path, suite: Suite) -> None:
    [question] = suite.questions[:1]
    rows = [row(question, clarification_question=f" {question.text}\n")]
    assert read(tmp_path, suite, rows, planned=[question]).by_text


def test_everything_that_does_not_join_is_told_at_once(tmp_path: Path, suite: Suite) -> None:
    first, second, third, *rest = suite.questions
    extra = row(first, instance_id="mart_99")
    rows = [row(first), row(first), row(second, clarification_question="?"), extra, *map(row, rest)]
    message = refused(tmp_path, suite, rows)
    assert "1 row(s) stand twice" in message
    assert "replies_0.jsonl:1)" in message, "names where the first one stands"
    assert "1 row(s) are of no question of the suite" in message
    assert "mart_99" in message
    assert "1 row(s) have another clarification_question" in message
    assert "2 question(s) have no reply" in message
    for missing in (second, third):
        assert (
            " / ".join((missing.key.instance_id, missing.key.question_id, missing.key.style, missing.kind)) in message
        )


def test_all_are_counted_and_twenty_named(tmp_path: Path) -> None:
    suite = small_suite(tmp_path / "suite", points=4)
    message = refused(tmp_path, suite, [])
    assert f"{len(suite.questions)} question(s) have no reply" in message
    assert message.count("\n  mart_") == 20
    assert f"… and {len(suite.questions) - 20} more" in message


def test_a_similar_instance_id_is_another_one(tmp_path: Path, suite: Suite) -> None:
    [question] = suite.questions[:1]
    alike = question.key.instance_id.replace("_", "_M_")
    assert "are of no question" in refused(tmp_path, suite, [row(question, instance_id=alike)], planned=[])


def test_rows_outside_the_plan_are_no_fault_and_change_no_identity(tmp_path: Path, suite: Suite) -> None:
    rows = [row(q) for q in suite.questions]
    part = read(tmp_path, suite, rows, planned=suite.questions[:3])
    assert len(part.by_text) == 3
    assert part.digest == read(tmp_path, suite, rows).digest


def test_a_question_id_may_be_a_number(tmp_path: Path, suite: Suite) -> None:
    question = replace(suite.questions[0], key=replace(suite.questions[0].key, question_id="7"))
    numbered = replace(suite, questions=(question,))
    assert read(tmp_path, numbered, [row(question, question_id=7)]).by_text
    assert "stand twice" in refused(tmp_path, numbered, [row(question, question_id=7), row(question)])


@pytest.mark.fault("D1")
@pytest.mark.parametrize("text", ["[ERROR: 429 Client Error: Too Many Requests]", " [ERROR: x]\n", "[SKIPPED]"])
def test_a_recorded_failure_is_no_reply(tmp_path: Path, suite: Suite, text: str) -> None:
    [question] = [q for q in suite.questions if q.kind is Kind.UNA][:1]
    replies = read(tmp_path, suite, [row(question, text)], planned=[question])
    error = failure(replies, suite, question)
    assert error.cause is SimulatorFailure.CRASHED
    assert error.detail.startswith("replies_0.jsonl:1: ")
    assert "429" not in error.detail


@pytest.mark.parametrize("text", ["ERROR: I said no", "[ERROR: 7] is what it shows", "see [ERROR: 1]", "[skipped]"])
def test_a_reply_that_speaks_of_errors_is_a_reply(tmp_path: Path, suite: Suite, text: str) -> None:
    [question] = suite.questions[:1]
    assert answer(read(tmp_path, suite, [row(question, text)], planned=[question]), suite, question) == text


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_response_is_an_empty_failure(tmp_path: Path, suite: Suite, text: str) -> None:
    [question] = suite.questions[:1]
    replies = read(tmp_path, suite, [row(question, text)], planned=[question])
    assert failure(replies, suite, question).cause is SimulatorFailure.EMPTY


def test_null_is_an_empty_response(tmp_path: Path, suite: Suite) -> None:
    [question] = suite.questions[:1]
    replies = read(tmp_path, suite, [row(question) | {"response": None}], planned=[question])
    assert failure(replies, suite, question).cause is SimulatorFailure.EMPTY


def test_a_question_of_a_dialogue_has_no_record(tmp_path: Path, suite: Suite) -> None:
    replies = read(tmp_path, suite, [row(q) for q in suite.questions])
    unknown = replace(suite.questions[0], text="And what else?")
    assert failure(replies, suite, unknown).cause is SimulatorFailure.CRASHED


def test_the_identity_is_what_was_replied(tmp_path: Path, suite: Suite) -> None:
    def identity(change: Callable[[Row], None]) -> dict[str, Any]:
        rows = [row(q) for q in suite.questions]
        change(rows[3])
        return Replay(read(tmp_path, suite, rows)).identity

    same = identity(lambda r: None)
    assert same["variant"] == "replay"
    assert identity(lambda r: r.update(prompt="another", model="b", kind="AMB")) == same
    assert identity(lambda r: r.update(response="another")) != same
    assert identity(lambda r: r.update(response="[ERROR: x]")) != same
    assert identity(lambda r: r.update(response="")) != identity(lambda r: r.update(response="[ERROR: x]"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"instance_id": 5}, "field 'instance_id'"),
        ({"question_id": 1.5}, "field 'question_id'"),
        ({"question_id": True}, "field 'question_id'"),
        ({"question_type": "terse"}, "field 'question_type': Input should be 'concise', 'normal' or 'verbose'"),
        ({"clarification_question": None}, "field 'clarification_question'"),
        ({"response": ["a"]}, "field 'response'"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(
    tmp_path: Path, suite: Suite, change: dict[str, Any], expected: str
) -> None:
    message = refused(tmp_path, suite, [row(suite.questions[0]), row(suite.questions[1]) | change])
    assert f"replies_0.jsonl:2: {expected}" in message


@pytest.mark.parametrize("field", ["instance_id", "question_id", "question_type", "clarification_question", "response"])
def test_a_missing_field_is_named_with_its_place(tmp_path: Path, suite: Suite, field: str) -> None:
    short = row(suite.questions[0])
    del short[field]
    assert f"replies_0.jsonl:1: field '{field}': missing" in refused(tmp_path, suite, [short])


@pytest.mark.parametrize("line", [b"{", b"[]", b"\xff\xfe", b'"text"', b"a,b,c", b'{"instance_id": "\\ud800"}'])
def test_a_line_that_is_no_row_is_refused_with_its_place(tmp_path: Path, suite: Suite, line: bytes) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(json.dumps(row(suite.questions[0])).encode() + b"\n\n" + line + b"\n")
    with pytest.raises(InputError, match=r"broken\.jsonl:3: "):
        read_replies([path], suite.questions, [])


def test_a_line_without_end_is_refused(tmp_path: Path, suite: Suite) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"1" * (MAX_LINE_BYTES + 10))
    with pytest.raises(InputError, match=r"long\.jsonl:1: longer than"):
        read_replies([path], suite.questions, [])


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, suite: Suite, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_replies([tmp_path / name], suite.questions, [])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_lost_doubled_or_moved_is_found(tmp_path: Path, suite: Suite, data: st.DataObject) -> None:
    """Any list of rows either is one row a question, and each gets its own, or is refused with right counts."""
    drawn = data.draw(st.lists(st.sampled_from(suite.questions), max_size=2 * len(suite.questions)))
    if data.draw(st.booleans()):
        drawn = data.draw(st.permutations(suite.questions))
    distinct = {q.key for q in drawn}
    if len(distinct) == len(drawn) == len(suite.questions):
        replies = read(tmp_path, suite, [row(q) for q in drawn])
        assert all(str(q.kind) in answer(replies, suite, q) for q in suite.questions)
        return
    message = refused(tmp_path, suite, [row(q) for q in drawn])
    lost, doubled = len(suite.questions) - len(distinct), len(drawn) - len(distinct)
    assert (f"{lost} question(s) have no reply" in message) is (lost > 0)
    assert (f"{doubled} row(s) stand twice" in message) is (doubled > 0)


def test_the_example_covers_one_task_of_the_open_suite() -> None:
    suite = load()
    planned = [q for q in suite.questions if q.key.instance_id == "bike_depot_1"]
    replies = read_replies([EXAMPLE], suite.questions, planned)
    answers = [answer(replies, suite, q) for q in planned]
    assert len(answers) == len(EXAMPLE.read_text().splitlines()) == len(planned)
