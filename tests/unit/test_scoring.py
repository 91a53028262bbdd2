"""Unit: scoring joins by key, loses no row to another's failure, and never turns a failure into a rating."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, ChatServer, completion
from ledgers import last_attempts, read
from suite_builder import seal, small_suite, write_suite

from benchmark_core.errors import InputError, LedgerError, SimulatorFailure
from benchmark_core.ports import Action, Ask, Reply
from guard.asking import Bench, score_one, target_hit
from guard.certify import certify_run
from guard.choices import Choices, EndpointChoice, JudgeChoice, SimulatorChoice
from guard.reasons import Code
from guard.runs import Counted, RunFolder, Watch, run
from guard.scorecard import expected_keys, tally
from guard.scoring import GIVE_UP_AFTER, MAX_ATTEMPTS, EndpointLost, Scope, plan, plan_of
from judge.rule_judge import RuleJudge
from judge.verdict import Judged, UnjudgedCause
from suites.load import Suite, load
from suites.questions import Kind, Question, QuestionKey, Style

QUIET = Watch(lambda _plan, _done: lambda _item: None)
AGAIN = replace(QUIET, resume=True)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return small_suite(tmp_path / "s", tasks=2, points=2)


def backbone(server: ChatServer, **changes: Any) -> Choices:
    endpoint = EndpointChoice("backbone", server.base_url, deadline_s=10)
    return Choices(SimulatorChoice("baseline", endpoint, **changes), JudgeChoice(), concurrency=8)


def go(suite: Suite, choices: Choices, folder: Path, watch: Watch = QUIET) -> Counted:
    return run(suite, choices, Scope(), RunFolder(folder), watch)


@pytest.mark.fault("D6", "D8", "G15", "G25", "G26", "G32")
def test_replies_are_joined_by_key_whatever_their_order(suite: Suite, tmp_path: Path) -> None:
    """Each reply names its question; delays shuffle their order."""
    rng = random.Random(7)
    texts = [q.text for q in suite.questions]

    def script(body: Mapping[str, Any]) -> Answer:
        prompt = body["messages"][-1]["content"]
        (asked,) = [text for text in texts if text in prompt]
        return Answer(completion(f"You ask: {asked}"), delay_s=rng.uniform(0, 0.05))

    with ChatServer(script) as server:
        go(suite, backbone(server), tmp_path / "r")
    items = last_attempts(tmp_path / "r" / "ledger.jsonl")
    assert {q.key: f"You ask: {q.text}" for q in suite.questions} == {key: i.reply for key, i in items.items()}


@pytest.mark.fault("D8", "G15")
def test_keys_cannot_run_together() -> None:
    keys = [QuestionKey("zoo_1", "1q", Style.NORMAL, Kind.AMB), QuestionKey("zoo_11", "q", Style.NORMAL, Kind.AMB)]
    assert len(set(keys)) == 2


@pytest.mark.fault("G17", "G27", "G29", "G35")
def test_one_rows_failure_costs_that_row_alone(suite: Suite, tmp_path: Path) -> None:
    unlucky = suite.questions[3]

    def script(body: Mapping[str, Any]) -> Any:
        null = unlucky.text in body["messages"][-1]["content"]
        return completion(None if null else "Sorry, I cannot say.")

    with ChatServer(script) as server:
        counted = go(suite, backbone(server), tmp_path / "r")
    items = last_attempts(counted.ledger)
    assert items[unlucky.key].failure is SimulatorFailure.EMPTY
    assert sum(item.rating is not None for item in items.values()) == len(suite.questions) - 1


def test_a_completion_that_was_of_no_use_is_in_the_books(suite: Suite, tmp_path: Path) -> None:
    """Cut replies and cut verdicts cost tokens too: twice each, once with the doubled budget."""
    with ChatServer(lambda _: completion("Everything sin", finish="length")) as server:
        failed = go(suite, backbone(server), tmp_path / "simulator").scorecard.usage["simulator"]
        endpoint = EndpointChoice("j", server.base_url)
        unjudged = go(suite, Choices(SimulatorChoice("oracle"), JudgeChoice(endpoint)), tmp_path / "judge")
    for usage in (failed, unjudged.scorecard.usage["judge"]):
        assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (72, 72 * 12, 72 * 3)


@pytest.mark.fault("G18")
def test_missing_rows_stay_in_the_denominator(suite: Suite, tmp_path: Path) -> None:
    counted = go(suite, Choices(SimulatorChoice("oracle"), JudgeChoice()), tmp_path / "r")
    fewer = [item for item in read(counted.ledger)[1] if item.key.style is not Style.VERBOSE]
    found = tally(fewer, counted.header, expected_keys(plan_of(suite, counted.header).questions))
    for score in found.kinds.values():
        assert (score.total.rows, score.missing, score.rate) == (12, 4, 8 / 12)


@pytest.mark.fault("D7", "G37")
def test_resume_sends_the_failed_rows_and_no_other(suite: Suite, tmp_path: Path) -> None:
    calls: Counter[str] = Counter()
    sick = {q.text for q in suite.questions[:3]}

    def script(body: Mapping[str, Any]) -> Any:
        (asked,) = [q.text for q in suite.questions if q.text in body["messages"][-1]["content"]]
        calls[asked] += 1
        return completion("" if asked in sick else "Sorry, I cannot say.")

    with ChatServer(script) as server:
        first = last_attempts(go(suite, backbone(server), tmp_path / "r").ledger)
        healthy = {text: n for text, n in calls.items() if text not in sick}
        assert set(healthy.values()) == {1}
        sick.clear()
        second = go(suite, backbone(server), tmp_path / "r", AGAIN)
    assert sum(i.failure is not None for i in first.values()) == 3
    assert all(i.rating for i in last_attempts(second.ledger).values())
    assert {text: calls[text] for text in healthy} == healthy, "no paid call is repeated"
    assert [i.attempt for i in read(second.ledger)[1]].count(2) == 3
    assert sum(score.retried for score in second.scorecard.kinds.values()) == 3


def test_what_keeps_failing_is_tried_a_limited_number_of_times(suite: Suite, tmp_path: Path) -> None:
    with ChatServer(lambda _: completion("")) as server:
        for watch in (QUIET, *[AGAIN] * 5):
            counted = go(suite, backbone(server), tmp_path / "r", watch)
    assert {item.attempt for item in last_attempts(counted.ledger).values()} == {MAX_ATTEMPTS}


def test_a_lost_endpoint_stops_the_run_and_is_tried_again_without_limit(suite: Suite, tmp_path: Path) -> None:
    down = True

    def script(_: Mapping[str, Any]) -> Any:
        return Answer("no", status=401) if down else completion("Sorry, I cannot say.")

    with ChatServer(script) as server:
        for watch in (QUIET, *[AGAIN] * MAX_ATTEMPTS):
            with pytest.raises(EndpointLost, match="--resume"):
                go(suite, backbone(server), tmp_path / "r", watch)
        assert server.paid <= (GIVE_UP_AFTER + 8) * (MAX_ATTEMPTS + 1)
        down = False
        counted = go(suite, backbone(server), tmp_path / "r", AGAIN)
    assert all(item.rating for item in last_attempts(counted.ledger).values())


@pytest.mark.fault("G33")
def test_a_kind_without_questions_is_no_crash_and_no_certificate(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s", tasks=12, points=3)
    (root / "data_unanswerable.jsonl").write_text("")
    seal(root)
    suite = load(root)
    go(suite, Choices(SimulatorChoice("oracle"), JudgeChoice()), tmp_path / "r")
    document = certify_run(suite, RunFolder(tmp_path / "r"))
    assert document["decision"] == "not_decided"
    assert Code.PARTIAL_RUN in {reason["code"] for reason in document["reasons"]}


@pytest.mark.fault("D20")
def test_a_missing_confidence_is_missing(suite: Suite, tmp_path: Path) -> None:
    with ChatServer(lambda _: completion('{"reason": "x", "rating": "A"}')) as server:
        choices = Choices(SimulatorChoice("oracle"), JudgeChoice(EndpointChoice("j", server.base_url)))
        counted = go(suite, choices, tmp_path / "r")
    assert {item.confidence for item in read(counted.ledger)[1]} == {None}


class _Crashing:
    """A simulator, and a judge, with a fault of its own."""

    identity: Mapping[str, object] = {"kind": "crashing"}

    async def answer(self, ask: Ask) -> Reply:
        raise ZeroDivisionError(ask.text)

    async def grade(self, question: Question, reply: str) -> Judged:
        raise KeyError(reply)


def test_a_crash_of_foreign_code_is_a_value(suite: Suite) -> None:
    rule, question = RuleJudge(suite.oracles), suite.questions[0]
    crashed = asyncio.run(score_one(Bench(_Crashing(), rule, rule.evidence, suite.oracles, 1), question))
    assert (crashed.failure, crashed.rating) == (SimulatorFailure.CRASHED, None)

    class Talking:
        async def answer(self, ask: Ask) -> Reply:
            return Reply("Since February.")

    unjudged = asyncio.run(score_one(Bench(Talking(), _Crashing(), rule.evidence, suite.oracles, 1), question))
    assert (unjudged.unjudged, unjudged.rating) == (UnjudgedCause.CRASHED, None)


def test_a_two_stage_simulator_has_a_confusion_matrix_and_target_accuracy(suite: Suite, tmp_path: Path) -> None:
    """Stage 1 calls everything a question about `recently`: right for AMB, wrong for the rest."""

    def script(body: Mapping[str, Any]) -> str:
        stage_1 = "Choose one action" in body["messages"][-1]["content"]
        return '<s>labeled("recently")</s>' if stage_1 else "Everything since the first of February 2024."

    with ChatServer(script) as server:
        endpoint = EndpointChoice("backbone", server.base_url)
        counted = go(suite, Choices(SimulatorChoice("function-driven", endpoint), JudgeChoice()), tmp_path / "r")
    kinds = counted.scorecard.kinds
    assert all(score.chosen == {"AMB": 12} for score in kinds.values())
    assert {kind: score.targets for kind, score in kinds.items()} == {
        Kind.AMB: (12, 12),
        Kind.LOC: (0, 0),
        Kind.UNA: (0, 0),
    }
    assert [score.total.accepted for score in kinds.values()] == [12, 0, 0]
    assert {call.role for item in read(counted.ledger)[1] for call in item.calls} == {"simulator"}
    assert counted.scorecard.usage["simulator"].calls == 2 * 36


def test_a_limited_plan_is_stratified_and_the_same_again(suite: Suite) -> None:
    limited = plan(suite, Scope(limit=9))
    assert Counter(q.kind for q in limited.questions) == dict.fromkeys(Kind, 3)
    assert Counter(q.key.style for q in limited.questions) == dict.fromkeys(Style, 3)
    assert limited.partial
    assert plan(suite, Scope(limit=9)) == limited
    assert not plan(suite, Scope()).partial


def test_excluded_tasks_are_kept_out_of_every_rate(suite: Suite, tmp_path: Path) -> None:
    scope = Scope(excluded_tasks=("mart_1",))
    counted = run(suite, Choices(SimulatorChoice("oracle"), JudgeChoice()), scope, RunFolder(tmp_path / "r"), QUIET)
    assert {item.key.instance_id for item in read(counted.ledger)[1]} == {"mart_2"}
    assert counted.header.excluded_tasks == ("mart_1",)
    assert not counted.header.partial


def test_the_plan_of_another_suite_is_refused(suite: Suite, tmp_path: Path) -> None:
    counted = go(suite, Choices(SimulatorChoice("mute"), JudgeChoice()), tmp_path / "r")
    with pytest.raises(InputError, match="--suite"):
        plan_of(small_suite(tmp_path / "other", tasks=3), counted.header)


@pytest.mark.parametrize("change", [{}, {"tasks": 5}, {"kinds": ["XYZ"]}, {"limit": 3}, {"keys": "sha256:0"}])
def test_a_changed_plan_in_the_header_is_refused(suite: Suite, tmp_path: Path, change: dict[str, Any]) -> None:
    header = go(suite, Choices(SimulatorChoice("mute"), JudgeChoice()), tmp_path / "r").header
    plan_of(suite, header)
    was = header.identities["plan"] | change if change else {}
    with pytest.raises(LedgerError, match="plan"):
        plan_of(suite, replace(header, identities={**header.identities, "plan": was}))


def test_target_accuracy(suite: Suite) -> None:
    by_kind = {question.kind: question for question in suite.questions}
    amb, loc, una = by_kind[Kind.AMB], by_kind[Kind.LOC], by_kind[Kind.UNA]
    assert target_hit(amb, Action(Kind.AMB, "recently")) is True
    assert target_hit(amb, Action(Kind.AMB, "big sales")) is False
    assert target_hit(amb, Action(Kind.LOC, "recently")) is None
    assert target_hit(loc, Action(Kind.LOC, "order by  BIG_TOTAL desc")) is True
    assert target_hit(loc, Action(Kind.LOC, "GROUP BY s.shop_name")) is False
    assert target_hit(una, Action(Kind.UNA)) is None
    assert target_hit(amb, None) is None


def test_an_ask_carries_no_kind_and_no_label() -> None:
    assert set(Ask.__dataclass_fields__) == {"text", "oracle", "history", "trial"}
