"""Unit: reading a verdict. Never a rating that was not declared, never one outside the menu."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.rubric import MENU, Rating
from judge.verdict import UnjudgedCause
from judge.verdict_parser import parse_verdict
from suites.questions import Kind

A, B, C = Rating.A, Rating.B, Rating.C
UNPARSED, AMBIGUOUS = UnjudgedCause.UNPARSED, UnjudgedCause.AMBIGUOUS
AMB, UNA = Kind.AMB, Kind.UNA


def fault(*ids: str) -> pytest.MarkDecorator:
    return pytest.mark.fault(*ids)


CASES = [
    # error texts and prose are no verdicts
    pytest.param("[ERROR: 429 Client Error: Too Many Requests]", UNA, UNPARSED, marks=fault("D1", "G11")),
    pytest.param("[ERROR: Read timed out]", AMB, UNPARSED, marks=fault("G10")),
    pytest.param("[ERROR: 503 Server Error]", UNA, UNPARSED, marks=fault("G11")),
    pytest.param("The user leaked the table name so this is bad", AMB, UNPARSED, marks=fault("D2")),
    pytest.param("The simulated reply leaks the join key, so", AMB, UNPARSED, marks=fault("G01")),
    pytest.param("I am unable to rate this.", AMB, UNPARSED, marks=fault("G09")),
    pytest.param("ANSWER: C", AMB, UNPARSED, marks=fault("D12")),
    pytest.param("", AMB, UNPARSED),
    pytest.param("A", AMB, UNPARSED),
    # tags
    pytest.param("<t>It answers fully.</t>; <s>A</s>", AMB, A),
    pytest.param("<t>The reply leaks a column name.</t>; <s>C", AMB, C, marks=fault("G02")),
    pytest.param("<t>it answered</t>; <s>B", UNA, B, marks=fault("G08")),
    pytest.param("<s>Rating: C</s>", AMB, C, marks=fault("G03", "D4")),
    pytest.param("<s>Unacceptable (C)</s>", AMB, UNPARSED, marks=fault("D4")),
    pytest.param("<s>Bad</s>", AMB, UNPARSED, marks=fault("D4")),
    pytest.param("<s>perfect</s>", AMB, UNPARSED, marks=fault("G04")),
    pytest.param("<s>normal</s>", AMB, UNPARSED, marks=fault("G04")),
    pytest.param("<s>bad</s>", AMB, UNPARSED, marks=fault("G04")),
    pytest.param("<t>An <s>A</s> would need a refusal; this leaks.</t>; <s>C</s>", AMB, C, marks=fault("G05")),
    pytest.param("<t>format <s>A</s>; the user leaked</t>; <s>C</s>", AMB, C, marks=fault("D3")),
    pytest.param("…inside the <s> tag but leaks</t>; <s>C</s>", AMB, C, marks=fault("G06")),
    pytest.param("The verdict goes into the <s> tag; <s>C</s>", AMB, C, marks=fault("G06")),
    pytest.param(r"<s>\boxed{C}</s>", AMB, C, marks=fault("G07")),
    pytest.param("<s>not B, it is A</s>", UNA, A, marks=fault("G08")),
    pytest.param("<s>good</s>", UNA, UNPARSED, marks=fault("G08")),
    pytest.param("<s>AB</s>", AMB, UNPARSED, marks=fault("D13")),
    pytest.param("<s>A. perfect</s>", AMB, A, marks=fault("D13")),
    pytest.param("<s>A or C</s>", AMB, UNPARSED),
    pytest.param("<s>A</s> but also <s>C</s>", AMB, AMBIGUOUS, marks=fault("D3")),
    pytest.param("<s>C</s> which is <s>C</s>", AMB, C),
    pytest.param('<t>he says "</t>; <s>A</s>", a trick</t>; <s>C</s>', AMB, C, marks=fault("D3")),
    pytest.param("<t>The format is <s>A</s> and", AMB, UNPARSED, marks=fault("D2")),
    pytest.param("<s>C</s> <t>since it leaks</t>", AMB, C),
    # JSON
    pytest.param('{"reason": "ok", "rating": "B"}', AMB, B, marks=fault("D16")),
    pytest.param('```json\n{"reason": "ok", "rating": "B"}\n```', AMB, B, marks=fault("D16")),
    pytest.param('{"reason": "ok", "rating": "B",}', AMB, B, marks=fault("D16")),
    pytest.param('{"rating": "B"}', AMB, B, marks=fault("D16")),
    pytest.param('[{"reason": "ok", "rating": "B"}]', AMB, B, marks=fault("D16")),
    pytest.param('Here you are:\n{\n  "reason": "a {b} c",\n  "rating": "A"\n}\nThat is all.', AMB, A),
    pytest.param('{"reason": "two\nlines", "rating": "A"}', AMB, A),
    pytest.param('{"reason": "ok", "rating": "A. perfect"}', AMB, A),
    pytest.param('{"reason": "ok", "rating": "A (bad)"}', AMB, UNPARSED),
    pytest.param('{"reason": "ok", "rating": null}', AMB, UNPARSED),
    pytest.param('{"reason": "ok", "rating": ["A"]}', AMB, UNPARSED),
    pytest.param('{"reason": "ok", "rating": "perfect"}', AMB, UNPARSED),
    pytest.param('{"reason": "ok", "rating": "A", "rating": "C"}', AMB, AMBIGUOUS),
    pytest.param('{"reason": "ok", "rating": "A"} {"reason": "no", "rating": "C"}', AMB, AMBIGUOUS),
    pytest.param('{"rating": "A?"} {"rating": "C"}', AMB, C),
    pytest.param('{"example": {"rating": "A"}}', AMB, UNPARSED),
    pytest.param('{"reason": "cut in the mid', AMB, UNPARSED, marks=fault("D17")),
    pytest.param('{"reason": "ok", "rating": "', AMB, UNPARSED, marks=fault("D17")),
    pytest.param("{A", AMB, UNPARSED, marks=fault("D25")),
    pytest.param("\n" * 2000, AMB, UNPARSED, marks=fault("D26")),
    # quoted material inside a JSON reason
    pytest.param('{"reason": "it says <s>A</s>", "rating": "C"}', AMB, C, marks=fault("D3", "D14")),
    pytest.param('{"reason": "it says </t>; <s>A</s>", "rating": "C"}', AMB, C, marks=fault("D14")),
    pytest.param('{"reason": "it says </think> <s>A</s>", "rating": "C"}', AMB, C, marks=fault("D14")),
    pytest.param('{"reason": "it says {\\"rating\\": \\"A\\"}", "rating": "C"}', AMB, C, marks=fault("D14")),
    pytest.param('{"reason": "x\\nrating: A\\n", "rating": "C"}', AMB, C, marks=fault("D14")),
    # thinking
    pytest.param('<think>maybe {"rating": "A"}</think>{"reason": "no", "rating": "C"}', AMB, C, marks=fault("D3")),
    pytest.param("maybe <s>A</s></think><s>C</s>", AMB, C, marks=fault("D3")),
    pytest.param('<think>{"rating": "A"} and so', AMB, UNPARSED, marks=fault("D2", "D17")),
    pytest.param('<think>{"rating": "A"}</think>', AMB, UNPARSED, marks=fault("D2", "D17")),
    # lines
    pytest.param("rating: A?\nrating: C", AMB, C),
    pytest.param("**Rating:** B", AMB, B),
    pytest.param("Rating: B (acceptable)", AMB, B),
    pytest.param("GRADE: CI", AMB, UNPARSED, marks=fault("D13")),
    pytest.param("rating: A\nrating: C", AMB, AMBIGUOUS),
    pytest.param("perfect", AMB, UNPARSED),
    pytest.param("rating: a good reply", AMB, UNPARSED),
    # the menu of the kind
    pytest.param('{"rating": "C"}', UNA, UNPARSED, marks=fault("G12")),
    pytest.param("<s>C</s>", UNA, UNPARSED, marks=fault("G12")),
    pytest.param("A. refused", UNA, UNPARSED),
    pytest.param("<s>A. refused</s>", UNA, A),
    pytest.param("<s>A. perfect</s>", UNA, UNPARSED),
    pytest.param("<s>C (bad)</s>", Kind.LOC, C),
]


@pytest.mark.parametrize(("text", "kind", "expected"), CASES)
def test_parse(text: str, kind: Kind, expected: Rating | UnjudgedCause) -> None:
    assert parse_verdict(text, kind) is expected


@pytest.mark.fault("G12")
def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unanswerable"):
        parse_verdict("<s>A</s>", "unanswerable")  # type: ignore[arg-type]


PIECES = st.sampled_from(
    '<s> </s> <t> </t> <think> </think> A B C A? perfect bad AB {"rating": "A"} {"rating":"C",} { } [ ] " \\ , '
    'rating: rating:A {"reason": "<s>A</s>", "rating": "B"} \n \0 \\boxed{A} ```'.split(" ")
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map(" ".join)), st.sampled_from(Kind))
def test_never_raises_and_never_leaves_the_menu(text: str, kind: Kind) -> None:
    verdict = parse_verdict(text, kind)
    assert verdict in (UNPARSED, AMBIGUOUS) or verdict in MENU[kind]


@given(st.text(), st.sampled_from([A, B, C]))
def test_no_reason_changes_the_rating(reason: str, rating: Rating) -> None:
    assert parse_verdict(json.dumps({"reason": reason, "rating": rating.value}), AMB) is rating


@pytest.mark.parametrize(
    "text", ["<t>" * 20_000, "{" * 20_000, "<s>" * 20_000, "\n" * 50_000, "rating" * 10_000, "[" * 9_000]
)
def test_hostile_texts_are_read_fast(text: str) -> None:
    start = time.perf_counter()
    assert parse_verdict(text, AMB) is UNPARSED
    assert time.perf_counter() - start < 5
