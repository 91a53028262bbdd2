"""Integration: what must never be certified, over real HTTP; each beside a twin, all else equal, that certifies."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, ChatServer, Entry, completion, error
from ledgers import latest, read
from suite_builder import small_suite

from guard.certify import certify_run
from guard.choices import Choices, EndpointChoice, JudgeChoice, SimulatorChoice
from guard.reasons import Code
from guard.runs import RunFolder, Watch, run
from guard.scoring import EndpointLost, Scope
from suites.load import Suite

QUIET = Watch(lambda _plan, _done: lambda _item: None)
GOOD = '{"reason": "fine", "rating": "A"}'


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Large enough that a perfect simulator is certified: 15 tasks of 9 rows a kind."""
    return small_suite(tmp_path_factory.mktemp("suite") / "s", tasks=15, points=3)


def certificate(suite: Suite, folder: Path, choices: Choices, scope: Scope | None = None) -> dict[str, Any]:
    """Score, resume nothing, decide."""
    with suppress(EndpointLost):
        run(suite, choices, scope or Scope(), RunFolder(folder), QUIET)
    return dict(certify_run(suite, RunFolder(folder)))


def judged_at(server: ChatServer, simulator: str = "oracle", deadline_s: float = 20) -> Choices:
    endpoint = EndpointChoice("judge-model", server.base_url, deadline_s=deadline_s)
    return Choices(SimulatorChoice(simulator), JudgeChoice(endpoint), concurrency=16)


def codes(document: dict[str, Any]) -> set[str]:
    return {reason["code"] for reason in document["reasons"]}


def test_the_twin_of_all_certifies(suite: Suite, tmp_path: Path) -> None:
    with ChatServer(lambda _body: GOOD) as server:
        document = certificate(suite, tmp_path / "r", judged_at(server))
    assert (document["decision"], document["class"], codes(document)) == ("pass", "provisional", set())
    assert server.paid == 15 * 3 * 3 * 3


BAD_JUDGES: dict[str, tuple[str, Callable[[dict[str, Any]], Entry]]] = {
    "429": ("rate_limited", lambda _: Answer(error("Too Many Requests"), status=429, headers={"Retry-After": "0"})),
    "503": ("unavailable", lambda _: Answer("Service Unavailable: A", status=503, headers={"Retry-After": "0"})),
    "401": ("rejected", lambda _: Answer(error("A key is missing"), status=401)),
    "error text as content": ("unparsed", lambda _: "[ERROR: 429 Client Error: Too Many Requests]"),
    "truncated": ("truncated", lambda _: completion('{"reason": "A long', finish="length")),
    "truncated thought": ("unparsed", lambda _: "<think>The user leaked the table name so this is bad"),
    "empty": ("empty", lambda _: completion("")),
    "null, verdict in the reasoning": ("empty", lambda _: completion(None, reasoning_content=GOOD)),
    "refused": ("refused", lambda _: completion(None, refusal="I cannot rate this.")),
    "filtered": ("filtered", lambda _: completion("", finish="content_filter")),
    "html": ("malformed", lambda _: Answer("<html>A</html>")),
    "off the menu": ("unparsed", lambda _: '{"reason": "x", "rating": "D"}'),
    "words for a grade": ("unparsed", lambda _: "perfect"),
    "whitespace to the limit": ("truncated", lambda _: completion("\n" * 2000, finish="length")),
}


@pytest.mark.fault("D1", "D2", "D4", "D12", "D17", "D23", "D26", "G10", "G11")
@pytest.mark.parametrize(("cause", "script"), BAD_JUDGES.values(), ids=BAD_JUDGES)
def test_a_dead_judge_certifies_nothing(
    suite: Suite, tmp_path: Path, cause: str, script: Callable[[dict[str, Any]], Entry]
) -> None:
    with ChatServer(script) as server:
        document = certificate(suite, tmp_path / "r", judged_at(server))
    items = latest(read(tmp_path / "r" / "ledger.jsonl")[1]).values()
    assert items
    assert {item.rating for item in items} == {None}, "not one row may be graded"
    assert {item.unjudged for item in items} == {cause}
    assert document["decision"] == "not_decided"
    assert Code.UNJUDGED_SHARE in codes(document)


@pytest.mark.fault("D12", "D17")
@pytest.mark.parametrize(("every", "decision"), [(200, "pass"), (40, "not_decided")])
def test_one_percent_unjudged_is_the_limit(suite: Suite, tmp_path: Path, every: int, decision: str) -> None:
    """Twins: the same judge loses one verdict in 200, or one in 40."""
    seen = iter(range(1, 10_000))

    def script(_body: dict[str, Any]) -> Entry:
        return completion("no verdict") if next(seen) % every == 0 else completion(GOOD)

    with ChatServer(script) as server:
        document = certificate(suite, tmp_path / "r", judged_at(server))
    assert document["decision"] == decision, document["reasons"]
    assert (Code.UNJUDGED_SHARE in codes(document)) is (decision == "not_decided")


@pytest.mark.fault("D9", "G40")
@pytest.mark.parametrize(
    ("failure", "script"),
    [
        ("unavailable", lambda _: Answer("down", status=503, headers={"Retry-After": "0"})),
        ("empty", lambda _: completion("")),
        ("filtered", lambda _: completion("", finish="content_filter")),
        ("truncated", lambda _: completion("Sorry, I can", finish="length")),
    ],
)
def test_a_dead_simulator_is_failed_not_judged(
    suite: Suite, tmp_path: Path, failure: str, script: Callable[[dict[str, Any]], Entry]
) -> None:
    """A provider's outage is no reply: not shown to the judge, not a refusal in UNA, not replaced by a sentence."""
    with ChatServer(script) as backbone, ChatServer(lambda _body: GOOD) as judge:
        endpoint = EndpointChoice("backbone", backbone.base_url, deadline_s=20)
        choices = Choices(
            SimulatorChoice("baseline", endpoint), JudgeChoice(EndpointChoice("j", judge.base_url)), concurrency=16
        )
        document = certificate(suite, tmp_path / "r", choices)
        assert judge.paid == 0
    items = read(tmp_path / "r" / "ledger.jsonl")[1]
    assert {(item.failure, item.rating, item.reply) for item in items} == {(failure, None, None)}
    # an outage stops the run early, so rows are missing; the other failures go through all rows and sink the rate
    lost = failure == "unavailable"
    assert document["decision"] == ("not_decided" if lost else "fail")
    assert codes(document) >= ({Code.INCOMPLETE_RUN} if lost else {Code.BELOW_FLOOR, f"simulator_{failure}"})


def test_a_live_simulator_with_the_same_judge_certifies(suite: Suite, tmp_path: Path) -> None:
    """The twin of the dead ones."""
    with ChatServer(lambda _body: "Everything since February.") as backbone, ChatServer(lambda _body: GOOD) as judge:
        endpoint = EndpointChoice("backbone", backbone.base_url)
        choices = Choices(
            SimulatorChoice("baseline", endpoint), JudgeChoice(EndpointChoice("j", judge.base_url)), concurrency=16
        )
        document = certificate(suite, tmp_path / "r", choices)
    assert document["decision"] == "pass"


def test_a_partial_run_never_certifies(suite: Suite, tmp_path: Path) -> None:
    with ChatServer(lambda _body: GOOD) as server:
        document = certificate(suite, tmp_path / "r", judged_at(server), Scope(limit=400))
    assert document["decision"] == "not_decided"
    assert codes(document) == {Code.PARTIAL_RUN}


@pytest.mark.parametrize(("tasks", "decision"), [(9, "not_decided"), (15, "pass")])
def test_too_few_tasks_decide_nothing(tmp_path: Path, tasks: int, decision: str) -> None:
    few = small_suite(tmp_path / "s", tasks=tasks, points=3)
    with ChatServer(lambda _body: GOOD) as server:
        document = certificate(few, tmp_path / "r", judged_at(server))
    assert document["decision"] == decision
    assert codes(document) == ({Code.TOO_FEW_CLUSTERS} if decision == "not_decided" else set())


def test_a_leak_is_refused_and_named(suite: Suite, tmp_path: Path) -> None:
    """Rule judge; its twin is the oracle control with the same judge."""
    document = certificate(suite, tmp_path / "leaky", Choices(SimulatorChoice("leaky"), JudgeChoice()))
    assert document["decision"] == "fail"
    assert codes(document) == {Code.BELOW_FLOOR, Code.FAILS_BY_DISCLOSURE}
    twin = certificate(suite, tmp_path / "oracle", Choices(SimulatorChoice("oracle"), JudgeChoice()))
    assert (twin["decision"], twin["class"]) == ("pass", "provisional")
