"""Unit: words in one spelling, and the pattern language of datasets/README.md."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.facts import contradicted, conveyed
from judge.words import content_free, normalise
from suites.questions import Fact


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ninety days", "90 days"),
        ("ninety-nine", "99"),
        ("twenty one or twenty-two", "21 or 22"),
        ("two hundred and fifty", "250"),
        ("a hundred", "100"),
        ("between one hundred and two hundred", "between 100 and 200"),
        ("between one thousand and two thousand", "between 1000 and 2000"),
        ("two thousand five hundred and six", "2506"),
        ("five hundred thousand", "500000"),
        ("one million two hundred thousand and three", "1200003"),
        ("1.5 million", "1500000"),
        ("5k", "5000"),
        ("two dozen", "24"),
        ("one point five", "1.5"),
        ("50% or fifty per cent", "50 percent or 50 percent"),
        ("0.50 and .5 and 1,234,567.00", "0.5 and 0.5 and 1234567"),
        ("90days", "90 days"),
        ("half a quarter", "half a quarter"),
        ("Don’t, can't, cannot; the rider's", "dont cant cant the rider"),
        ("sign-up", "sign up"),
        ("2024-03-01", "2024 3 1"),
        ("$5 (five)!", "5 5"),
        ("hundreds of thousands", "hundreds of thousands"),
        ("hundred " * 3, "hundred hundred hundred"),
        ("Straße ＡＢ", "strasse ab"),
    ],
)
def test_normalise(text: str, words: str) -> None:
    assert " ".join(normalise(text)) == words


DAYS = ("90 day*", "3 month*", "quarter !quarterly")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in the last ninety days", True),
        ("90-day window", True),
        ("about three months", True),
        ("one quarter back", True),
        ("the quarterly figure of the quarter", False),
        ("quarterly", False),
        ("30 days", False),
        ("190 days", False),
        ("", False),
    ],
)
def test_conveyed(text: str, expected: bool) -> None:
    assert conveyed(Fact("90 days", DAYS), text) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("net|without tip*", "without the tips", True),
        ("net|without tip*", "net fare", False),
        ("sign-up", "at sign up", True),
        ("sign-up", "sign them up", False),
        ("1,000", "a thousand", True),
        ("ninety", "90", True),
        ("don't", "don’t", True),
        ("15%", "fifteen percent", True),
        ("", "anything", False),
        ("*", "anything", False),
        ("!cancel*", "only paid ones", True),
        ("!cancel*", "cancelled ones", False),
    ],
)
def test_terms(pattern: str, text: str, expected: bool) -> None:
    assert conveyed(Fact("f", (pattern,)), text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the last 30 days", True),
        ("90 days, not 30 days", False),
        ("90 days rather than 30 days", False),
        ("90 days instead of the 30 days", False),
        ("not 90 days, it is 30 days", True),
        ("not 30 days - well, 30 days after all", True),
        ("I do not count cancelled ones", True),
    ],
)
def test_contradicted(text: str, expected: bool) -> None:
    assert contradicted(Fact("f", (), ("30 day*", "not cancel*")), text) is expected


@pytest.mark.parametrize(
    "text", ["", ":", "  ", "Solution", "Thought process:", "Let me solve this step by step.", "…"]
)
def test_content_free(text: str) -> None:
    assert content_free(text)


@pytest.mark.parametrize("text", ["Yes.", "No", "none", "5", "Of course.", "ja"])
def test_short_answers_have_content(text: str) -> None:
    assert not content_free(text)


@given(st.text(), st.text())
def test_nothing_raises(pattern: str, text: str) -> None:
    fact = Fact("f", (pattern,), (pattern,))
    conveyed(fact, text)
    contradicted(fact, text)


@given(st.text())
def test_normalising_twice_changes_no_number(text: str) -> None:
    assert all(word == word.casefold() for word in normalise(text))


@pytest.mark.parametrize("text", ["one hundred ", "9", "a", "9,999,", "thousand two ", "one point one ", "((a+)+)+"])
def test_time_is_linear(text: str) -> None:
    start = time.perf_counter()
    conveyed(Fact("f", ("a* b", "(a+)+$ x|y*")), text * (40_000 // len(text)))
    assert time.perf_counter() - start < 3
