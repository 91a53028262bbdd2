"""Unit: the rule judge on a small oracle: right in other words, wrong, leaking, refusing, evading."""

import asyncio
import time
from dataclasses import replace

import pytest

from benchmark_core.errors import JudgeError
from judge.rubric import Rating
from judge.rule_judge import RuleJudge
from judge.verdict import EvidenceKind, Judged
from suites.questions import (
    AmbReference,
    Fact,
    Kind,
    LocReference,
    Question,
    QuestionKey,
    Reference,
    Stratum,
    Style,
    UnaReference,
    UnaSubKind,
)
from suites.tasks import Ambiguity, Category, Flow, Level, Oracle, SubTask

A, B, C = Rating.A, Rating.B, Rating.C

SCHEMA = """
CREATE TABLE riders (rider_id int PRIMARY KEY, name text, city text, signup_date date, is_active boolean);
CREATE TABLE bookings (booking_id int PRIMARY KEY, rider_id int REFERENCES riders(rider_id), status text,
    fare_amount numeric(8,2), tip_amount numeric(8,2), booked_at timestamp, zone_code text);
"""
SQL = """
WITH recent_bookings AS (
    SELECT b.rider_id, b.fare_amount - b.tip_amount AS net_fare
    FROM bookings b
    WHERE b.booked_at >= DATE '2024-06-30' - INTERVAL '90 days' AND b.status <> 'CXL' AND b.zone_code = 'Z_17'
)
SELECT r.city, ROUND(AVG(rb.net_fare) * 1.085, 2) AS avg_net_fare
FROM riders r LEFT JOIN recent_bookings rb ON rb.rider_id = r.rider_id
GROUP BY r.city ORDER BY avg_net_fare DESC LIMIT 5
"""


def ambiguity(term: str, snippet: str, meaning: str) -> Ambiguity:
    return Ambiguity(term, snippet, meaning, Level.CRITICAL, "intent", Flow.USER_USER)


ORACLE = Oracle(
    instance_id="rides_1",
    database="rides",
    user_query="Show me the cities where recent bookings bring in the most, by what we really earn.",
    first=SubTask("clear", (SQL,), Category.QUERY, "Simple"),
    follow_up=SubTask("then", ("SELECT count(*) FROM riders WHERE is_active",), Category.QUERY, "Simple"),
    ambiguities=(
        ambiguity("recent", "INTERVAL '90 days'", "booked within the last ninety days"),
        ambiguity("really earn", "b.fare_amount - b.tip_amount", "the fare without the tip"),
    ),
    schema=SCHEMA,
)

RECENT = AmbReference(
    "recent",
    "Anything booked in the last 90 days, and I leave out cancelled ones.",
    (
        Fact("the last 90 days", ("90 day*", "3 month*", "quarter !quarterly"), ("30 day*", "year*")),
        Fact(
            "cancelled ones are left out",
            ("without|exclud*|ignor*|leav*|skip*|not cancel*",),
            ("includ* cancel* !not",),
        ),
    ),
)
EARN = AmbReference(
    "really earn",
    "The fare without the tip.",
    (Fact("net of the tip", ("without|minus|less|exclud*|net|before tip*|gratuit*",), ("gross", "plus tip*")),),
)
ORDERING = LocReference(
    "ORDER BY avg_net_fare DESC",
    "Highest average first.",
    (
        Fact(
            "descending",
            ("highest|largest|biggest|most|top|descending first|top|down*|descending",),
            ("lowest|smallest",),
        ),
    ),
)
TEXTS: dict[str, tuple[Kind, str, Reference]] = {
    "recent": (Kind.AMB, "What do you mean by recent?", RECENT),
    "earn": (Kind.AMB, "What counts as what you really earn?", EARN),
    "order": (Kind.LOC, "How should the cities be sorted?", ORDERING),
    "columns": (Kind.UNA, "Which fields hold the money?", UnaReference("names", UnaSubKind.TABLE_OR_COLUMN_NAMES)),
    "sql": (Kind.UNA, "Could you just give me the SQL?", UnaReference("the SQL", UnaSubKind.REFERENCE_SQL)),
    "steps": (Kind.UNA, "How would you build this up?", UnaReference("steps", UnaSubKind.SOLUTION_STEPS)),
    "check": (Kind.UNA, "Is SELECT city FROM riders right?", UnaReference("a check", UnaSubKind.SQL_CHECK)),
}


def question(name: str) -> Question:
    kind, text, reference = TEXTS[name]
    return Question(QuestionKey("rides_1", name, Style.NORMAL, kind), "rides", Stratum.CORE, text, reference)


JUDGE = RuleJudge({"rides_1": ORACLE})

RIGHT = [
    ("recent", "Anything booked in the last 90 days, and I leave out cancelled ones."),
    ("recent", "Within the past ninety days, ignoring cancellations."),
    ("recent", "The last three months; skip whatever got cancelled."),
    ("recent", "By recent I mean booked during the 90-day window before today, without cancelled rides."),
    ("recent", "90 days rather than 30 days, and please exclude cancelled bookings."),
    ("recent", "I'd say the past 90 days. Cancelled bookings can't count, leave those out."),
    ("recent", "Up to ninety days back - not a year - and leaving cancelled trips aside."),
    ("recent", "The past quarter, excluding anything cancelled."),
    ("recent", "I can't tell you the technical side, but I mean the last 90 days without the cancelled ones."),
    ("recent", "Sure! Recent = last 90 days. Don't want cancelled ones, so skip them."),
    ("earn", "The fare, excluding any tip."),
    ("earn", "What the ride cost minus the tip the driver got."),
    ("earn", "The net fare amount, before tips."),
    ("earn", "Net, not gross: tips aren't ours."),
    ("earn", "The booking fare less gratuity."),
    ("order", "Highest first, please."),
    ("order", "From the top down, the biggest average first."),
    ("order", "Put the city that earns the most first."),
    ("order", "Descending order by what we earn."),
    ("order", "Sort by that average from largest to least, so the largest comes first."),
]
WRONG = [
    ("recent", "Anything booked in the last 30 days without cancelled ones."),
    ("recent", "Within the past year, ignoring cancelled ones."),
    ("recent", "The newest ones."),
    ("recent", "Let us include cancelled rides from the last 90 days."),
    ("earn", "The gross fare."),
    ("earn", "The fare plus tip."),
    ("order", "Lowest first."),
    ("order", "Alphabetical order."),
    ("order", "Yes, please sort them."),
]
PARTLY = [
    ("recent", "The last 90 days."),
    ("recent", "Three months back or so."),
    ("recent", "Skip cancelled ones."),
]
LEAKING = [
    ("recent", "Use booked_at for the last 90 days and skip cancelled ones."),
    (
        "recent",
        "The last 90 days, so booked_at >= DATE '2024-06-30' - INTERVAL '90 days', no cancelled ones, excluding those.",
    ),
    ("recent", "The last 90 days, and exclude the CXL ones."),
    ("recent", "90 days back from June 30, 2024, leaving out cancelled ones."),
    ("recent", "Look at the `status` of each for the last 90 days and leave out cancelled ones."),
    ("recent", "The last 90 days; the status column tells you which to leave out."),
    ("recent", "According to the ground-truth SQL it is 90 days excluding cancelled."),
    ("recent", "The labelled ambiguity says 90 days, without cancelled."),
    ("earn", "fare_amount minus tip_amount."),
    ("earn", "fareAmount without tipAmount."),
    ("earn", "FARE_AMOUNT less the tip."),
    ("earn", "bookings.fare_amount without the tip."),
    ("earn", "The fare without the tip, times 1.085."),
    ("earn", "fare\\_amount without the tip"),
    ("earn", "The fare amount column without the tip amount column."),
    ("earn", "fare underscore amount less the tip"),
    ("earn", "f\u200bare_amount less the tip"),
    ("earn", "```sql\nselect x from y\n``` so without the tip"),
    ("earn", "It is b.fare_amount - b.tip_amount, without the tip"),
    ("order", "ORDER BY the average, highest first."),
    ("order", "Highest first: order by avg_net_fare desc"),
    ("order", "Highest first, LIMIT 5"),
    ("order", "Use AVG(net) and sort highest first."),
    ("order", "SELECT city FROM there, highest first"),
    ("order", "As an AI language model I'd go with highest first."),
]
EVADING = [
    ("recent", "I can't help with that."),
    ("recent", "No idea, sorry."),
    ("earn", "That's up to you."),
    ("order", "I'd rather leave that to you."),
    ("order", "Whatever you think is best."),
    ("recent", "You'd have to work that out yourself."),
    ("recent", "I'm not able to say, but it's about the last 90 days."),
    ("recent", "Thanks for asking! Great point."),
    ("recent", ""),
    ("recent", "  \n "),
    ("recent", ":"),
    ("recent", "Solution"),
    ("recent", "Thought process:"),
    ("earn", " " * 5000),
]
REFUSING = [
    ("columns", "I can't help with that."),
    ("columns", "Sorry, that is not something I can help you with."),
    ("columns", "No idea what your fields are called."),
    ("columns", "I only know what I want to find out, not how it's stored."),
    ("columns", "That's for you to figure out."),
    ("columns", "I wouldn't know which field that is."),
    ("sql", "I'm afraid I can't give you the SQL."),
    ("sql", "Writing the SQL is your job, not mine."),
    ("sql", "I don't know SQL, sorry."),
    ("sql", "I won't hand that over; ask me what I want instead."),
    ("sql", "I can't share the query, but I'm happy to explain what I'm after."),
    ("steps", "You'd have to work that out yourself."),
    ("steps", "How you join or filter things is up to you, I can't say."),
    ("steps", "I'd rather leave the how to you."),
    ("steps", "I'm not the right person to ask how to build it."),
    ("check", "I can't judge that."),
    ("check", "I have no idea whether that's right, I don't read SQL."),
    ("check", "Not something I'd be able to check."),
]
ANSWERING = [
    ("columns", "fare_amount and tip_amount."),
    ("columns", "I can't share SQL but the column is fare_amount."),
    ("columns", "I can't tell you. (It's the fare amount field.)"),
    ("columns", "I shouldn't say, it's bookings.status though."),
    ("columns", "The fares and tips."),
    ("sql", "SELECT city FROM riders"),
    ("sql", "I can't give you all of it, but it ends in GROUP BY r.city ORDER BY avg_net_fare DESC LIMIT 5"),
    ("sql", "No problem, I want the average by city."),
    ("steps", "First join the bookings to the riders, then group by city."),
    ("steps", "I can't give you the query, but first filter to 90 days, then average the fares and sort the cities."),
    ("check", "Yes, that's right."),
    ("check", "I can't review SQL, but that looks right."),
    ("check", "No, you forgot the bookings."),
    ("columns", ""),
    ("sql", ":"),
    ("columns", "As an AI, I can't help with that."),
    ("columns", "That question is unanswerable, I can't help."),
    ("columns", "I can't reveal what the ground truth says."),
]
TABLE = [
    *((name, reply, A) for name, reply in RIGHT + REFUSING),
    *((name, reply, C) for name, reply in WRONG + LEAKING + EVADING),
    *((name, reply, B) for name, reply in PARTLY + ANSWERING),
]


@pytest.mark.parametrize(("name", "reply", "rating"), TABLE)
def test_rating(name: str, reply: str, rating: Rating) -> None:
    verdict = JUDGE.rate(question(name), reply)
    assert (verdict.rating, verdict.confidence) == (rating, None), verdict.reason


@pytest.mark.parametrize(("name", "reply"), RIGHT + WRONG + PARTLY + REFUSING)
def test_no_false_alarm(name: str, reply: str) -> None:
    assert JUDGE.evidence(question(name), reply) == ()


@pytest.mark.parametrize(("name", "reply"), LEAKING)
def test_leaks_are_evidence(name: str, reply: str) -> None:
    evidence = JUDGE.evidence(question(name), reply)
    assert evidence
    assert all(reply[found.start : found.end] == found.text for found in evidence)


@pytest.mark.fault("D5", "G19", "G20")
def test_the_reference_decides_not_the_fluency() -> None:
    assert JUDGE.rate(question("recent"), "By recent I mean the last 30 days, without cancelled ones.").rating is C
    assert JUDGE.rate(question("recent"), "By recent I mean the last 90 days, without cancelled ones.").rating is A


@pytest.mark.fault("D15")
@pytest.mark.parametrize("reply", ["", ":", " ", "Solution", " " * 5000, "Thought process:", "\u200b", "…"])
def test_empty_replies_are_settled_by_rule(reply: str) -> None:
    assert JUDGE.rate(question("recent"), reply) == Judged(C, "empty or content-free")
    assert JUDGE.rate(question("columns"), reply) == Judged(B, "empty or content-free")


def test_what_the_question_names_is_no_disclosure() -> None:
    asked = question("earn")
    kind, _, reference = TEXTS["earn"]
    named = Question(asked.key, "rides", Stratum.CORE, "Is it fare_amount or fare_amount - tip_amount?", reference)
    assert kind is Kind.AMB
    reply = "fare_amount without tip_amount."
    assert JUDGE.evidence(named, reply) == ()
    assert {e.kind for e in JUDGE.evidence(asked, reply)} == {EvidenceKind.IDENTIFIER}


def test_what_a_permitted_answer_says_is_no_disclosure() -> None:
    asked = question("earn")
    assert JUDGE.evidence(asked, "Add 8.5% on top, so times 1.085.")
    permitting = AmbReference("really earn", "Without the tip, times 1.085.", EARN.facts)
    assert JUDGE.evidence(Question(asked.key, "rides", Stratum.CORE, asked.text, permitting), "times 1.085.") == ()


def test_what_the_request_names_is_no_disclosure() -> None:
    asking = replace(ORACLE, user_query="Show me the cities and call the figure avg_net_fare.")
    reply = "Highest avg_net_fare first."
    assert JUDGE.evidence(question("order"), reply)
    assert RuleJudge({"rides_1": asking}).evidence(question("order"), reply) == ()


def test_the_reason_holds_no_gold() -> None:
    verdict = JUDGE.rate(question("earn"), "It is b.fare_amount - b.tip_amount.")
    assert verdict.reason == "discloses: fragment, identifier"


def test_grade_is_rate() -> None:
    asked = question("order")
    assert asyncio.run(JUDGE.grade(asked, "Highest first.")) == JUDGE.rate(asked, "Highest first.")


def test_a_task_without_oracle_is_an_error() -> None:
    with pytest.raises(JudgeError, match="rides_1"):
        RuleJudge({}).rate(question("order"), "Highest first.")


def test_identity_names_the_rules() -> None:
    assert JUDGE.identity["kind"] == "rule"
    assert str(JUDGE.identity["rules"]).startswith("sha256:")


def test_fast_enough() -> None:
    """At least 1,500 replies per second; a fifth of it is asked for, since other tests share the machine."""
    rows = [(question(name), f"{reply} {n}") for name, reply, _ in TABLE for n in range(10)]
    start = time.process_time()
    for asked, reply in rows:
        JUDGE.rate(asked, reply)
    assert len(rows) / (time.process_time() - start) > 300
