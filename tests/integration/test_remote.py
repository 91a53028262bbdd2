"""A simulator behind HTTP, by both protocols, against real servers."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, Received
from json_server import JsonServer
from suite_builder import small_suite

from benchmark_core.chat import Usage
from benchmark_core.digest import digest
from benchmark_core.errors import InputError, SimulatorError, SimulatorFailure
from benchmark_core.json_http import JsonHttp
from benchmark_core.ports import Ask, Reply, Turn
from simulators.remote import Remote, RemoteSpec
from simulators.remote_wire import REMOTE_FORMAT, Protocol, RemoteRequest
from suites.load import Suite
from suites.questions import AmbReference, Kind, LocReference, UnaReference

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-remote-0123456789"
MINIMAL = RemoteSpec(Protocol.MINIMAL, "somebody's")
ADK = RemoteSpec(Protocol.ADK, "their service")
AT_ONCE = {"Retry-After": "0"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return small_suite(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="module")
def ask(suite: Suite) -> Ask:
    question = next(q for q in suite.questions if q.kind is Kind.AMB)
    return Ask(question.text, suite.oracles[question.key.instance_id], (Turn("earlier?", "yes"),))


def with_remote(url: str, spec: RemoteSpec, do: Callable[[Remote], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with JsonHttp(url, **options) as http:
            return await do(Remote(http, spec))

    return asyncio.run(main())


def reply(server: JsonServer, spec: RemoteSpec, ask: Ask, **options: Any) -> Reply:
    found = with_remote(server.url, spec, lambda remote: remote.answer(ask), **options)
    assert isinstance(found, Reply)
    return found


def failed(server: JsonServer, spec: RemoteSpec, ask: Ask, **options: Any) -> SimulatorError:
    with pytest.raises(SimulatorError) as caught:
        reply(server, spec, ask, **options)
    return caught.value


def adk_service(request: Received) -> Answer | dict[str, Any]:
    """As BIRD-Interact-ADK's user simulator answers (451fe2c), the model left out."""
    match request.path:
        case "/init_task":
            return {"status": "ok", "task_id": request.body["task_id"]}
        case "/ask":
            return {"answer": f"about {request.body['question']}"}
        case "/health":
            return {"status": "healthy", "service": "user_simulator"}
        case _:
            return Answer({"detail": "Not Found"}, status=404)


def test_minimal_sends_the_question_and_nothing_of_the_oracle(ask: Ask) -> None:
    with JsonServer({"reply": "since February"}) as server:
        assert reply(server, MINIMAL, ask, api_key=KEY) == Reply("since February")
    [request] = server.received
    assert request.path == "/answer"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "format": REMOTE_FORMAT,
        "instance_id": ask.oracle.instance_id,
        "database": "mart",
        "question": ask.text,
        "history": [{"question": "earlier?", "reply": "yes"}],
        "user_query": ask.oracle.user_query,
        "trial": 0,
    }


def test_minimal_sends_the_oracle_where_the_user_asks_for_it(ask: Ask) -> None:
    with JsonServer({"reply": "since February"}) as server:
        reply(server, replace(MINIMAL, sends_oracle=True), ask)
    sent = RemoteRequest.model_validate_json(json.dumps(server.received[0].body))
    assert sent.oracle is not None
    assert sent.oracle.sol_sql == list(ask.oracle.first.sol_sql)
    assert sent.oracle.clear_query == ask.oracle.first.query
    assert sent.oracle.database_schema == ask.oracle.schema
    assert [a.term for a in sent.oracle.ambiguities] == [a.term for a in ask.oracle.ambiguities]
    assert [k.id for k in sent.oracle.masked_knowledge] == [2]


@pytest.mark.parametrize("protocol", list(Protocol))
def test_without_leave_nothing_private_is_sent(suite: Suite, protocol: Protocol) -> None:
    with JsonServer(lambda r: adk_service(r) if protocol is Protocol.ADK else {"reply": "a"}) as server:
        for question in suite.questions:
            reply(server, RemoteSpec(protocol, "n"), Ask(question.text, suite.oracles[question.key.instance_id]))
    sent = json.dumps([request.body for request in server.received])
    for task in suite.tasks:
        oracle = task.oracle
        private = [*oracle.first.sol_sql, *oracle.follow_up.sol_sql, oracle.first.query, oracle.schema]
        private += [part for a in oracle.ambiguities for part in (a.sql_snippet, a.meaning)]
        assert not [text for text in private if json.dumps(text)[1:-1] in sent]


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("sends_oracle", [False, True])
def test_kind_question_id_and_reference_are_never_sent(suite: Suite, protocol: Protocol, sends_oracle: bool) -> None:
    """With one of them a server could score full marks without understanding a question."""
    labelled = ("AMB", "LOC", "UNA", "labeled", "unanswerable", "kind", "label", "question_id", "reference", "facts")
    with JsonServer(lambda r: adk_service(r) if protocol is Protocol.ADK else {"reply": "a"}) as server:
        spec = RemoteSpec(protocol, "n", sends_oracle=sends_oracle)
        for question in suite.questions:
            reply(server, spec, Ask(question.text, suite.oracles[question.key.instance_id]))
    texts = {text for q in suite.questions for text in _reference_texts(q.reference)}
    assert len(texts) >= 3
    for request in server.received:
        words = set(_words(request.body))
        assert not words & set(labelled)
        assert not [text for text in texts if text in json.dumps(request.body)]


def _reference_texts(reference: object) -> list[str]:
    match reference:
        case AmbReference(answer=answer) | LocReference(answer=answer):
            return [answer]
        case UnaReference(asks_for=asks_for, sub_kind=sub_kind):
            return [asks_for, sub_kind.value]
    raise AssertionError(reference)


def _words(value: Any) -> Iterator[str]:
    """Every field name and every text."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str):
        yield value


def test_model_and_usage_go_to_the_books(ask: Ask) -> None:
    body = {"reply": "a", "model": "m-1", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    with JsonServer(body) as server:
        [completion] = reply(server, MINIMAL, ask).completions
    assert (completion.model, completion.usage) == ("m-1", Usage(7, 2, None))
    assert completion.latency_s > 0


def test_usage_without_model_is_booked_under_the_given_name(ask: Ask) -> None:
    with JsonServer({"reply": "a", "usage": {"prompt_tokens": 7}}) as server:
        [completion] = reply(server, MINIMAL, ask).completions
    assert (completion.model, completion.usage) == ("somebody's", Usage(7, None, None))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reply"),
        ({"reply": None}, "reply"),
        ({"reply": 3}, "reply"),
        ({"reply": ["a"]}, "reply"),
        ({"reply": "a", "kind": "AMB"}, "kind"),
        ({"reply": "a", "model": ""}, "model"),
        ({"reply": "a", "usage": {"prompt_tokens": -1}}, "usage.prompt_tokens"),
        ({"reply": "a", "usage": {"prompt_tokens": "7"}}, "usage.prompt_tokens"),
        ({"error": "the model is down"}, "reply"),
    ],
)
def test_another_shape_is_malformed(ask: Ask, body: dict[str, Any], field: str) -> None:
    with JsonServer(body) as server:
        error = failed(server, MINIMAL, ask)
    assert error.cause is SimulatorFailure.MALFORMED
    assert f"/answer: field '{field}'" in error.detail


@pytest.mark.parametrize("body", ["[]", '"a"', "3", "<html>", ""])
def test_a_body_that_is_no_object_is_malformed(ask: Ask, body: str) -> None:
    with JsonServer(Answer(body)) as server:
        assert failed(server, MINIMAL, ask).cause is SimulatorFailure.MALFORMED


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_reply_without_text_is_empty_and_its_calls_are_booked(ask: Ask, text: str) -> None:
    with JsonServer({"reply": text, "usage": {"prompt_tokens": 7}}) as server:
        error = failed(server, MINIMAL, ask)
    assert error.cause is SimulatorFailure.EMPTY
    assert len(error.completions) == 1


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (Answer("", status=401), SimulatorFailure.REJECTED),
        (Answer("", status=404), SimulatorFailure.REJECTED),
        (Answer("", status=307, headers={"Location": "/other"}), SimulatorFailure.REJECTED),
        (Answer("", status=429, headers=AT_ONCE), SimulatorFailure.RATE_LIMITED),
        (Answer("", status=503, headers=AT_ONCE), SimulatorFailure.UNAVAILABLE),
        (Answer({"reply": "late"}, delay_s=30), SimulatorFailure.TIMEOUT),
    ],
)
@pytest.mark.parametrize("spec", [MINIMAL, ADK])
def test_failures_of_the_transport_keep_their_cause(
    ask: Ask, spec: RemoteSpec, answer: Answer, cause: SimulatorFailure
) -> None:
    with JsonServer(answer) as server:
        assert failed(server, spec, ask, deadline_s=0.5).cause is cause


def test_a_short_outage_is_no_failure(ask: Ask) -> None:
    with JsonServer(Answer("", status=503, headers=AT_ONCE), Answer(raw=b""), {"reply": "a"}) as server:
        assert reply(server, MINIMAL, ask).text == "a"


def test_a_key_that_is_echoed_in_a_field_name_is_not_shown(ask: Ask) -> None:
    with JsonServer({"reply": "a", KEY: 1}) as server:
        error = failed(server, MINIMAL, ask, api_key=KEY)
    assert "[api key]" in error.detail
    assert KEY not in str(error)


def test_adk_starts_a_fresh_task_a_question(suite: Suite) -> None:
    asks = [Ask(q.text, suite.oracles[q.key.instance_id]) for q in suite.questions]
    with JsonServer(adk_service) as server:

        async def all_of_them(remote: Remote) -> list[Reply]:
            return await asyncio.gather(*map(remote.answer, [*asks, asks[0]]))

        replies = with_remote(server.url, ADK, all_of_them)
    assert [r.text for r in replies[:-1]] == [f"about {a.text}" for a in asks]
    asked = [r for r in server.received if r.path == "/ask"]
    ids = [r.body["task_id"] for r in asked]
    assert len(set(ids)) == len(asks) + 1, "the same question again is another task"
    assert sorted(ids) == sorted(r.body["task_id"] for r in server.received if r.path == "/init_task")
    assert not [i for i in ids if any(q.key.instance_id in i or q.key.question_id in i for q in suite.questions)]
    assert {frozenset(r.body) for r in asked} == {frozenset({"task_id", "question"})}


def test_adk_task_data_has_the_public_names(ask: Ask) -> None:
    with JsonServer(adk_service) as server:
        reply(server, ADK, ask)
        reply(server, replace(ADK, sends_oracle=True), ask)
    without, with_oracle = (r.body["task_data"] for r in server.received if r.path == "/init_task")
    assert without == {
        "selected_database": "mart",
        "amb_user_query": ask.oracle.user_query,
        "sol_sql": [],
        "user_query_ambiguity": {"critical_ambiguity": [], "non_critical_ambiguity": []},
        "knowledge_ambiguity": [],
        "follow_up": {},
    }
    assert with_oracle["query"] == ask.oracle.first.query
    assert with_oracle["sol_sql"] == list(ask.oracle.first.sol_sql)
    [critical] = with_oracle["user_query_ambiguity"]["critical_ambiguity"]
    assert critical["term"] == "recently"
    assert critical.keys() == {"term", "sql_snippet", "is_mask", "type", "deleted_knowledge"}
    assert [a["deleted_knowledge"] for a in with_oracle["knowledge_ambiguity"]] == [2]


@pytest.mark.parametrize("path", ["/init_task", "/ask"])
def test_adk_answers_of_another_shape_are_malformed(ask: Ask, path: str) -> None:
    with JsonServer(lambda r: {"status": "error"} if r.path == path else adk_service(r)) as server:
        error = failed(server, ADK, ask)
    assert (error.cause, path in error.detail) == (SimulatorFailure.MALFORMED, True)


def test_adk_an_empty_answer_is_empty(ask: Ask) -> None:
    with JsonServer(lambda r: {"answer": ""} if r.path == "/ask" else adk_service(r)) as server:
        assert failed(server, ADK, ask).cause is SimulatorFailure.EMPTY


def test_health_of_the_right_service_is_fine() -> None:
    with JsonServer(adk_service) as server:
        with_remote(server.url, ADK, lambda remote: remote.check())
        with_remote(server.url, MINIMAL, lambda remote: remote.check())
    assert server.paths == ["/health"], "the minimal protocol has nothing to ask"


@pytest.mark.parametrize(
    "answer",
    [{"status": "healthy", "service": "db_environment"}, {"ok": True}, Answer("", status=404), Answer("hello")],
)
def test_another_service_is_found_out_before_the_first_question(answer: Answer | dict[str, Any]) -> None:
    with JsonServer(answer) as server, pytest.raises(InputError, match="port 6001"):
        with_remote(server.url, ADK, lambda remote: remote.check())


def test_health_of_nobody_is_unavailable() -> None:
    with JsonServer({}) as server:
        url = server.url
    with pytest.raises(SimulatorError) as caught:
        with_remote(url, ADK, lambda remote: remote.check())
    assert caught.value.cause is SimulatorFailure.UNAVAILABLE


def test_the_identity_is_what_the_user_states() -> None:
    specs = [
        MINIMAL,
        ADK,
        replace(MINIMAL, name="another"),
        replace(MINIMAL, revision="2"),
        replace(MINIMAL, sends_oracle=True),
    ]
    http = JsonHttp("http://127.0.0.1:1")
    assert len({digest(Remote(http, spec).identity) for spec in specs}) == len(specs)
    assert Remote(JsonHttp("http://elsewhere:2"), MINIMAL).identity == Remote(http, MINIMAL).identity


def test_a_remote_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="name"):
        Remote(JsonHttp("http://127.0.0.1:1"), replace(MINIMAL, name=" "))


def test_the_example_server_answers(ask: Ask, suite: Suite) -> None:
    una = next(q for q in suite.questions if q.kind is Kind.UNA)
    command = [sys.executable, str(ROOT / "examples/remote_server.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()

            async def three(remote: Remote) -> list[str]:
                asks = [ask, Ask(una.text, ask.oracle), replace(ask, text="What is big sales?")]
                return [(await remote.answer(a)).text for a in asks]

            told = with_remote(url, replace(MINIMAL, sends_oracle=True), three)
            untold = with_remote(url, MINIMAL, three)
        finally:
            process.terminate()
    assert told == [
        "By that I mean since the first of February 2024.",
        "I can't help you with that.",
        "By that I mean sales of more than sixty euros.",
    ]
    assert set(untold) == {"I can't help you with that."}
