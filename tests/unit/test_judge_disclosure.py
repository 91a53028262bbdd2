"""Unit: what a reply discloses. Misses and false alarms weigh the same."""

import dataclasses
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.disclosure import Detector, disclosed
from judge.verdict import EvidenceKind
from suites.tasks import Category, Oracle, SubTask

SCHEMA = """
CREATE TABLE patients (id int, name text, status text, check_in timestamp, follow_up boolean, date date, value numeric,
    is_paid boolean, no_show boolean, order_total numeric, first_name text, city text, count int, "LunarDistDeg" float);
CREATE TABLE visits (id int, patient_id int, start_date date, type text, unit_price numeric, score numeric);
"""
SQL = (
    "SELECT p.city, COUNT(*) AS total, SUM(v.unit_price) * 0.15 + 0.125 AS revenue_share FROM patients p"
    " JOIN visits v ON v.patient_id = p.id WHERE p.status = 'active' AND v.type IN ('A', 'B2', 'in_progress')"
    " AND v.score BETWEEN 18 AND 65 AND v.start_date >= '2024-03-01' AND p.value > 1234 GROUP BY p.city"
    " ORDER BY revenue_share DESC, p.city LIMIT 10"
)
ORACLE = Oracle(
    instance_id="clinic_1",
    database="clinic",
    user_query="Show revenue by city.",
    first=SubTask("clear", (SQL,), Category.QUERY, "Simple"),
    follow_up=SubTask("then", ("SELECT 1",), Category.QUERY, "Simple"),
    ambiguities=(),
    schema=SCHEMA,
)
DETECTOR = Detector(ORACLE)
I, F, N, S, P = (  # noqa: E741
    EvidenceKind.IDENTIFIER,
    EvidenceKind.FRAGMENT,
    EvidenceKind.CONSTANT,
    EvidenceKind.CODE,
    EvidenceKind.APPARATUS,
)

LEAKS = [
    ("Use unit_price.", I, "unit_price"),
    ("Use UNIT_PRICE.", I, "UNIT_PRICE"),
    ("Use `unit_price`.", I, "unit_price"),
    ("Use “unit_price”.", I, "unit_price"),
    ("Use unit _ price.", I, "unit _ price"),
    ("Use unitPrice.", I, "unitPrice"),
    ("Use unit-price.", I, "unit-price"),
    ("Use unit\\_price.", I, "unit\\_price"),
    ("Use ｕnit_price.", I, "ｕnit_price"),
    ("Use un\u200bit_price.", I, "un\u200bit_price"),
    ("Use unit underscore price.", I, "unit underscore price"),
    ("Use the unit price column.", I, "unit price"),
    ("It is visits.score that counts.", I, "score"),
    ("It is `visits`.", I, "visits"),
    ("The status column.", I, "status"),
    ("The field called 'status'.", I, "status"),
    ("The table visits has it.", I, "visits"),
    ("The check-in column.", I, "check-in"),
    ("LunarDistDeg over 180.", I, "LunarDistDeg"),
    ("The lunar_dist_deg.", I, "lunar_dist_deg"),
    ("Times 0.15.", N, "0.15"),
    ("Add 12.5%.", N, "12.5%"),
    ("Above 1,234.", N, "1,234"),
    ("Since March 1, 2024.", N, "March 1, 2024"),
    ("Since the 1st of March 2024.", N, "1st of March 2024"),
    ("Since 01/03/2024.", N, "01/03/2024"),
    ("Only b2.", N, "b2"),
    ("Only 'A'.", N, "A"),
    ("Those in_progress.", N, "in_progress"),
    ("I need patient_id = p.id there.", F, "patient_id = p.id"),
    ("order by revenue_share desc", F, "order by revenue_share desc"),
    ("I use LIMIT 10.", F, "LIMIT 10"),
    ("LIMIT 10", F, "LIMIT 10"),
    ("ORDER BY REVENUE DESC", S, "ORDER BY REVENUE"),
    ("count(*) per city", S, "count(*)"),
    ("status = 'active'", S, "status = 'active'"),
    ("where a.b > 3", S, "a.b > 3"),
    ("select a, b from t where c", S, "select a, b from t where"),
    ("GROUP BY the city", S, "GROUP BY the"),
    ("```\nx = 1\n```", S, "```\nx = 1\n```"),
    ("cast it ::numeric, x::int", S, "x::int"),
    ("The ground truth says so.", P, "ground truth"),
    ("The gold SQL says so.", P, "gold SQL"),
    ("In the reference query it is.", P, "reference query"),
    ("By the SQL snippet.", P, "SQL snippet"),
    ("It is a labeled ambiguity.", P, "labeled ambiguity"),
    ("unanswerable()", P, "unanswerable"),
    ("As an AI, no.", P, "As an AI"),
    ("I’m a simulated user.", P, "I’m a simulated"),
    ("The schema says so.", P, "The schema says"),
    ("According to the database schema.", P, "According to the database schema"),
]
INNOCENT = """
Group by city and order by total, highest first.
Only patients with the status active, please.
I want one column with the city and one for the total.
The check-in date, not the check-out one.
Patients who did not come back for a follow-up.
No-shows shouldn't count; a no-show is someone who never came.
Between 18 and 65, and from January onwards.
The order total, i.e. what they paid, e.g. with tax.
Send it by e-mail, city by city (top 10).
Just the first name is fine.
I'd like a table of visits per city.
Each visit's unit price times the number of units.
Show the name, the city, and the total.
Count each patient once. "Active" means they came this year.
More than 10 visits (not 10 or fewer), for at least 3 months.
Score > 50 is good, and >= 80 is very good.
By value I mean 1,000 dollars or 2.5 million, roughly 100%.
Those in the 'active' group, something like 'premium' or similar.
I'd select the ones from last year and join us later.
Select visits from March.
Type A or type B visits.
Sum (of everything) per city, count(s) too.
The latter is NOT paid; ALL others are.
Update the level where the score is too low.
Delete from the list those that left, insert into the list the new ones.
It's and/or; 24/7; A/B testing; 24-hour visits.
Case when someone paid twice: count it once.
Is null a value? If it's null, skip it.
I don't know what the schema looks like.
I can't tell you the column names.
Please follow my instructions and don't give me the SQL.
For reference, answers came in March 2024.
NO, THE ONES FROM THE CITY, PLEASE.
Add 15% on top.
My own my_unit_price and unit_price_list are other things.
""".strip().splitlines()


@pytest.mark.parametrize(("reply", "kind", "text"), LEAKS)
def test_leak(reply: str, kind: EvidenceKind, text: str) -> None:
    assert (kind, text) in [(found.kind, found.text) for found in DETECTOR.disclosed(reply, "")]


@pytest.mark.parametrize("reply", INNOCENT)
def test_no_false_alarm(reply: str) -> None:
    assert DETECTOR.disclosed(reply, "") == ()


@pytest.mark.parametrize(
    ("reply", "given_text"),
    [
        ("Yes, unit_price.", "Is it unit_price?"),
        ("The status column.", "Is it the status column?"),
        ("Times 0.15.", "Do you mean fifteen percent?"),
        ("1234 of them", "more than 1,234?"),
        ("As of 2024-03-01.", "since March 1, 2024?"),
        ("count(*) it is", "Do you want COUNT(*)?"),
        ("ORDER BY revenue_share DESC", "Should I ORDER BY revenue_share DESC?"),
        ("I can't give you the reference SQL.", "What is the reference SQL?"),
        ("Only B2.", "Is it A or B2?"),
    ],
)
def test_what_was_given_is_no_disclosure(reply: str, given_text: str) -> None:
    assert disclosed(ORACLE, reply, "")
    assert disclosed(ORACLE, reply, given_text) == ()


def test_giving_a_word_gives_no_column() -> None:
    assert disclosed(ORACLE, "The status column.", "What status do you mean?")


def test_evidence_is_in_order_and_not_nested() -> None:
    found = DETECTOR.disclosed("visits.unit_price and patients.order_total, times 0.15", "")
    places = [(e.start, e.end) for e in found if e.kind is EvidenceKind.IDENTIFIER]
    assert places == sorted(places)
    assert all(a[1] <= b[0] for a, b in pairwise(places))


PIECES = st.sampled_from(
    [
        "unit_price",
        "unit",
        "price",
        " column ",
        "_",
        " ",
        "\u200b",
        "ﬁ",
        "İ",
        "`",
        "0.15",
        "SELECT ",
        "count(",
        "B2",
        "'A'",
        "\n",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)), st.text())
def test_offsets_slice_the_reply(reply: str, given_text: str) -> None:
    for found in DETECTOR.disclosed(reply, given_text):
        assert found.start < found.end
        assert reply[found.start : found.end] == found.text


def test_unreadable_sql_still_has_a_detector() -> None:
    broken = dataclasses.replace(ORACLE, first=SubTask("q", ("SELECT 'x",), Category.QUERY, "Simple"))
    assert disclosed(broken, "Use unit_price.", "")


@pytest.mark.parametrize(
    "piece", ["a.", "1.", "1,", "count(", "v.patient_id = p.id ", "`", "unit ", "(", "select a, ", "\u200b", "a = '"]
)
def test_hostile_replies_are_read_fast(piece: str) -> None:
    start = time.perf_counter()
    DETECTOR.disclosed(piece * (40_000 // len(piece)), "")
    assert time.perf_counter() - start < 5
