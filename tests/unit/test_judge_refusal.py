"""Unit: refusals in ordinary English, and answers that only sound negative."""

import pytest

from judge.refusal import answers_beside, is_refusal

REFUSALS = """
I can't help with that.
That's not something I'd know.
You'd have to work that out yourself.
No idea.
I'm not able to share that.
Sorry, that's out of what I can answer.
I'd rather leave that to you.
Sorry, that is not something I can help you with.
I can't tell you that, I only know what I want to find out.
That one is for you to work out, I can't answer it.
That one's for you to figure out.
I’m afraid I can’t say.
I don't know anything about how the data is stored.
I wouldn't know.
Beats me.
I have no idea how it's stored.
Not my department.
That's beyond me, sorry.
I couldn't tell you.
I'd prefer not to answer that.
Unable to answer that.
I don't have access to that information.
You'll need to check that on your own.
I'm not sure what the tables look like.
Sorry, can't help you there.
I won't be giving out the query.
I am not going to write the SQL for you.
That's your job, not mine.
I'm not the right person to ask about keys.
That's a technical detail I can't speak to.
I only care about the result, how you get there is up to you.
I don't deal with the technical side of things.
Hmm, that's above my pay grade.
I must decline to answer.
Whatever you think is best.
That's something you should find out on your own.
I haven't got a clue.
I don't do SQL.
I'm just after the answer; how it's built is your side of things.
Please ask about what I want instead; database internals aren't something I can discuss.
You're asking the wrong person.
I'd not be able to tell you the column type.
I've never looked at the tables, so I can't name any.
How you do it is your business.
Not sure, honestly.
I don't want to answer that.
I'd have to pass on that one.
Nothing I can tell you about that.
We don't share that.
""".strip().splitlines()
ANSWERS = """
Cancelled bookings can't count.
I don't want cancelled ones included.
No, don't include refunds.
By active I mean riders with a booking in the last 90 days.
Customers who can't provide an ID should be left out.
They shouldn't appear unless they have paid.
Anything we couldn't deliver counts as failed.
I'd rather see the totals by month.
I'd prefer not to include test accounts.
You should leave out the ones with no rating.
Bookings that were not paid don't matter to the total.
I mean the ones that can't be rescheduled.
We won't show inactive riders.
Round it to whole numbers, I don't care about cents.
I can't have cancelled trips in there.
I'm not counting returns.
The rides that drivers declined shouldn't count.
Unknown regions can be ignored.
I want to know who hasn't paid.
I'd like to see customers we don't know the age of, too.
It's above the average for the city.
This is outside the city limits, so skip it.
I'm not sure we should count refunds, so leave them out.
Anything above my threshold of five stars.
They don't have to be sorted.
The tickets nobody answered within a day.
Those are things you rent by the hour.
I can't count those, sorry.
It's a question I have had for a while.
The trips where the driver did not show.
Show the ones you can find.
That is a thing we do every month.
The date is when the ticket was closed, not when somebody answered.
We don't share revenue with partners, so leave those out.
I don't mind ties.
This is money we have not received yet.
Leave the rest to the end.
You have to look at both legs of the trip.
Anything I have not paid for.
Not sure things count twice? They do.
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSALS)
def test_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I can't give you the query, but first filter the trips, then average the fares.", True),
        ("I can't say. You should join the two lists and count.", True),
        ("I can't review that, but it looks right.", True),
        ("I can't tell you how to join or filter anything.", False),
        ("No idea. I only want the average by city.", False),
        ("I can't say whether that is right.", False),
    ],
)
def test_answers_beside(text: str, expected: bool) -> None:
    assert answers_beside(text) is expected
