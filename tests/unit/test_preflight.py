"""The preflight against real servers: what it finds, what it costs, and what it never shows."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from chat_server import Answer, completion, error
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_server import CHAT, OpenAIServer, Route, models

from benchmark_core.chat import Decoding, Message
from benchmark_core.errors import InputError
from benchmark_core.openai_chat import Endpoint
from benchmark_core.probe import Outcome, probing
from guard.choices import EndpointChoice, Role
from guard.finding import Finding
from guard.preflight import Load, Preflight, lines, preflight, raise_for
from guard.preflight_checks import EndpointReport, Target, check_endpoint, constraint_finding, probe_constraint

KEY = "sk-a-key-that-must-never-show"
PROMPT = (Message("system", "You are a user."), Message("user", "the secret prompt " * 100))
VERSION: dict[str, Route] = {"/version": {"version": "0.32.0"}}
JUDGE_DECODING = Decoding(max_tokens=77, reasoning_effort=None)


def target(server: OpenAIServer, role: Role = Role.SIMULATOR, *, key: str = KEY, model: str = "a-model") -> Target:
    return Target(role, Endpoint(server.base_url, model, key, deadline_s=5), "MY_KEY")


def look(routes: Mapping[str, Route], *, max_tokens: int = 100, **of_target: Any) -> EndpointReport:
    with OpenAIServer(routes) as server:
        report = asyncio.run(check_endpoint(target(server, **of_target), PROMPT, max_tokens))
        assert not server.paid_calls, "the free part must be free"
    return report


def named(report: EndpointReport, name: str) -> Finding:
    return next(finding for finding in report.findings if finding.name.endswith(name))


def test_a_healthy_vllm_is_counted_and_recorded() -> None:
    def tokenize(request: Any) -> dict[str, Any]:
        assert request.body["messages"][1]["content"] == PROMPT[1].content
        return {"count": 612, "max_model_len": 4096, "tokens": [1] * 612}

    report = look({"/v1/models": models("a-model", max_model_len=4096), "/tokenize": tokenize, **VERSION})
    assert [finding.level for finding in report.findings] == ["ok", "ok", "ok"]
    written = report.to_json()
    assert written["server_version"] == "0.32.0"
    assert (written["prompt_tokens"], written["prompt_tokens_are"], written["context_length"]) == (612, "counted", 4096)
    assert (
        "612 tokens (counted by the server); with 100 for the reply it needs 712 of 4096"
        in named(report, "context").seen
    )


def test_nothing_that_is_written_or_said_holds_key_or_prompt() -> None:
    echo = Answer({"error": {"message": f"bad key {KEY} for {PROMPT[1].content}"}}, status=401)
    for routes in ({"/v1/models": echo}, {"/v1/models": models(f"x{KEY}"), CHAT: echo, **VERSION}):
        with OpenAIServer(routes) as server:
            judge = target(server, Role.JUDGE)
            report = Preflight((asyncio.run(check_endpoint(judge, PROMPT, 10)),))
            tried = asyncio.run(probe_constraint(judge, JUDGE_DECODING))
        said = json.dumps(report.to_json()) + str(lines(report)) + repr(judge) + str(constraint_finding(judge, tried))
        with pytest.raises(InputError) as raised:
            raise_for(report)
        assert KEY not in said + str(raised.value)
        assert "secret prompt" not in said + str(raised.value)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_variable(status: int) -> None:
    found = named(look({"/v1/models": Answer(error("Incorrect API key"), status)}, role=Role.JUDGE), "endpoint")
    assert found.level == "fail"
    assert "does not take the key in MY_KEY" in found.seen
    assert "--judge-api-key-env" in found.repair


def test_a_missing_key_is_told_from_a_wrong_one() -> None:
    found = named(look({"/v1/models": Answer(error("no key"), 401)}, key=""), "endpoint")
    assert "wants a key, and there is none in MY_KEY" in found.seen


def test_an_unreachable_server_says_what_to_look_at() -> None:
    with OpenAIServer({}) as server:
        gone = target(server, Role.JUDGE)
    report = asyncio.run(check_endpoint(gone, PROMPT, 100))
    [found] = report.findings
    assert found.level == "fail"
    assert "--judge-base-url" in found.repair and f"curl {gone.endpoint.base_url}/models" in found.repair


def test_a_hanging_server_fails_within_its_deadline() -> None:
    with OpenAIServer({"/v1/models": Answer({}, delay_s=30)}) as server:
        slow = Target(Role.SIMULATOR, Endpoint(server.base_url, "m", deadline_s=0.3), "MY_KEY")
        started = time.monotonic()
        [found] = asyncio.run(check_endpoint(slow, PROMPT, 100)).findings
    assert time.monotonic() - started < 5
    assert found.level == "fail" and "0.3 s" in found.seen


def test_a_redirect_is_not_followed_and_a_loading_server_is_not_used() -> None:
    moved = look({"/v1/models": Answer("", 302, {"Location": "http://127.0.0.1:1/v1/models"})})
    assert named(moved, "endpoint").level == "fail" and "redirects" in named(moved, "endpoint").seen
    loading = look({"/v1/models": Answer(error("Loading model"), 503)})
    assert named(loading, "endpoint").level == "fail" and "503" in named(loading, "endpoint").seen


def test_an_unknown_model_gets_the_nearest_names() -> None:
    listed = models("embedder-1", "qwen3-32b-instruct", "qwen3-32b", "other")
    found = named(look({"/v1/models": listed}, model="qwen3-32"), "model")
    assert found.level == "fail"
    assert found.repair.startswith("give --model one that it lists: qwen3-32b, ")


@pytest.mark.parametrize(
    "listed",
    [
        models("a-model"),
        models("models/a-model"),
        models("a-model:latest"),
        models("weights.gguf", aliases=["a-model"]),
        Answer(json.dumps([{"id": "a-model"}])),
    ],
    ids=["exact", "gemini", "ollama", "llama.cpp", "together"],
)
def test_ways_to_list_a_model(listed: Route) -> None:
    assert named(look({"/v1/models": listed}), "model").level == "ok"


@pytest.mark.parametrize(
    "listed",
    [
        Answer({"detail": "Not Found"}, 404),
        models(),
        {"object": "list", "data": None},
        Answer("<html>hello</html>"),
        {**models("another"), "has_more": True},
    ],
    ids=["no /models", "empty", "null", "html", "first page"],
)
def test_what_cannot_be_checked_does_not_stop_a_run(listed: Route) -> None:
    report = look({"/v1/models": listed})
    assert named(report, "model").level == "warn"
    raise_for(Preflight((report,)))


@pytest.mark.parametrize(
    ("fields", "length"),
    [
        ({"max_model_len": 512}, 512),
        ({"context_length": 512}, 512),
        ({"context_window": 512}, 512),
        ({"max_context_length": 512}, 512),
        ({"meta": {"n_ctx": 512, "n_ctx_train": 8192}}, 512),
        ({"meta": {"n_ctx_train": 512}}, 512),
        ({"max_model_len": None, "context_length": 512}, 512),
        ({"max_model_len": -1}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": "512"}, None),
        ({"meta": [512]}, None),
        ({}, None),
    ],
)
def test_context_lengths_as_servers_name_them(fields: dict[str, Any], length: int | None) -> None:
    report = look({"/v1/models": models("a-model", **fields)})
    assert report.context_length == length
    assert named(report, "context").level == ("fail" if length else "skipped")


def test_a_prompt_that_is_too_long_names_numbers_and_flag() -> None:
    characters = sum(len(message.content) for message in PROMPT)
    needed = -(-characters // 3) + 100
    fits = look({"/v1/models": models("a-model", context_length=needed)})
    assert named(fits, "context").level == "ok"
    # llama.cpp has a /tokenize that knows no messages: it answers 200 without a count
    report = look({"/v1/models": models("a-model", context_length=needed - 1), "/tokenize": {"tokens": []}})
    found = named(report, "context")
    assert found.level == "fail" and report.to_json()["prompt_tokens_are"] == "estimated"
    assert f"it needs {needed} of {needed - 1} tokens" in found.seen
    assert "lower --max-tokens" in found.repair and f"--max-model-len {needed}" in found.repair


def test_the_servers_own_limit_counts_before_the_lists() -> None:
    served = {"/v1/models": models("a-model", max_model_len=9999), "/tokenize": {"count": 50, "max_model_len": 120}}
    found = named(look(served), "context")
    assert found.level == "fail" and "150 of 120" in found.seen


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "data", "meta", "n_ctx", "aliases", "max_model_len"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None)
@given(listed=anything, counted=anything, version=anything)
def test_whatever_a_server_lists_there_is_a_report(anything_goes: OpenAIServer, **said: Any) -> None:
    anything_goes.routes = {
        "/v1/models": Answer(json.dumps(said["listed"])),
        "/tokenize": Answer(json.dumps(said["counted"])),
        "/version": Answer(json.dumps({"version": said["version"]})),
    }
    report = asyncio.run(check_endpoint(target(anything_goes), PROMPT, 10))
    assert len(report.findings) == 3
    assert all(char.isprintable() for finding in report.findings for char in finding.seen + finding.repair)
    json.dumps(report.to_json())


@pytest.fixture(scope="module")
def anything_goes() -> Iterator[OpenAIServer]:
    with OpenAIServer({}) as server:
        yield server


def test_paths_stand_beside_v1_or_below_a_base_without_it() -> None:
    async def ask(base: str) -> str | None:
        async with probing(Endpoint(base, "a-model"), 5) as probe:
            assert (await probe.models()).cards
            return await probe.version()

    listed = models("a-model")
    with OpenAIServer({"/api/models": listed, "/api/version": {"version": "2"}}) as server:
        assert asyncio.run(ask(f"{server.url}/api")) == "2"
        server.routes = {"/x/v1/models": listed, "/x/version": {"version": "3"}}
        assert asyncio.run(ask(f"{server.url}/x/v1/")) == "3"


REFUSED = Answer(error("response_format: json_schema is not supported by this model"), 400)
KEPT = completion('{"rating": "A"}')


@pytest.mark.fault("D23", "D24", "D25", "D26")
@pytest.mark.parametrize(
    ("answer", "outcome", "level"),
    [
        (KEPT, Outcome.RESPECTED, "ok"),
        (completion('<think>must I say "Z"?</think>\n{"rating": "B"}'), Outcome.RESPECTED, "ok"),
        (completion('{"rating": "Z"}'), Outcome.IGNORED, "fail"),
        (completion('{"rating": "A", "why": "-"}'), Outcome.IGNORED, "fail"),
        (completion("Z"), Outcome.IGNORED, "fail"),
        (completion("{A"), Outcome.IGNORED, "fail"),
        (REFUSED, Outcome.REFUSED, "fail"),
        (completion("{" + "\n" * 70, finish="length"), Outcome.TRUNCATED, "fail"),
        (completion(None, reasoning='{"rating": "A"}'), Outcome.REASONING_ONLY, "fail"),
        (completion(None, reasoning_content='{"rating": "A"}'), Outcome.REASONING_ONLY, "fail"),
        (completion(None, reasoning=" "), Outcome.UNUSABLE, "fail"),
        (completion("", refusal="I will not"), Outcome.UNUSABLE, "fail"),
        (Answer("<html>"), Outcome.UNUSABLE, "fail"),
        (Answer(error("busy"), 503), Outcome.UNANSWERED, "warn"),
        (Answer(error("slow down"), 429), Outcome.UNANSWERED, "warn"),
        (Answer(raw=b""), Outcome.UNANSWERED, "warn"),
    ],
)
def test_what_becomes_of_a_schema(answer: Route, outcome: Outcome, level: str) -> None:
    with OpenAIServer({CHAT: answer}) as server:
        judge = target(server, Role.JUDGE)
        tried = asyncio.run(probe_constraint(judge, JUDGE_DECODING))
        [sent] = server.paid_calls
    assert tried.outcome is outcome
    found = constraint_finding(judge, tried)
    assert found.level == level
    assert bool(found.repair) is (level != "ok")
    body = sent.body
    assert (body["max_tokens"], body["temperature"]) == (77, 0.0)
    assert body["response_format"]["json_schema"]["schema"]["properties"]["rating"]["enum"] == ["A", "B"]
    assert '"Z"' in body["messages"][0]["content"]
    assert "reasoning_effort" not in body


def test_the_books_of_the_paid_call_are_kept() -> None:
    with OpenAIServer({CHAT: completion('{"rating": "Z"}')}) as server:
        tried = asyncio.run(probe_constraint(target(server, Role.JUDGE), JUDGE_DECODING)).to_json()
    assert (tried["model"], tried["system_fingerprint"]) == ("served-model", "fp-1")
    assert tried["usage"]["prompt_tokens"] == 12
    assert 0 < tried["latency_s"] < 5


def test_a_refused_request_says_why() -> None:
    with OpenAIServer({CHAT: REFUSED}) as server:
        judge = target(server, Role.JUDGE)
        found = constraint_finding(judge, asyncio.run(probe_constraint(judge, JUDGE_DECODING)))
    assert "json_schema is not supported by this model" in found.seen


def run_preflight(server: OpenAIServer, judge_decoding: Decoding | None) -> Preflight:
    loads = [Load(target(server, role), PROMPT, 100) for role in (Role.SIMULATOR, Role.JUDGE)]
    return asyncio.run(preflight(loads, judge_decoding))


def test_the_paid_call_is_made_once_for_the_judge_when_nothing_else_fails() -> None:
    with OpenAIServer({"/v1/models": models("a-model"), CHAT: KEPT}) as server:
        report = run_preflight(server, JUDGE_DECODING)
        assert len(server.paid_calls) == 1
        raise_for(report)
        written = report.to_json()
        assert written["schema"] == "usersim-guard/preflight/1"
        assert [end["role"] for end in written["endpoints"]] == ["simulator", "judge"]
        assert [bool(end["constrained"]) for end in written["endpoints"]] == [False, True]
        run_preflight(server, None)
        assert len(server.paid_calls) == 1
        server.routes["/v1/models"] = models("another")
        assert run_preflight(server, JUDGE_DECODING).failed
        assert len(server.paid_calls) == 1


def test_all_failures_are_raised_at_once_each_with_its_repair() -> None:
    with OpenAIServer({"/v1/models": models("another", max_model_len=20)}) as server:
        server.routes["/tokenize"] = {"count": 500, "max_model_len": 200}
        report = run_preflight(server, JUDGE_DECODING)
    with pytest.raises(InputError) as raised:
        raise_for(report)
    said = str(raised.value)
    assert said.count("fail: ") == len(report.failed) == 4
    assert "--model" in said and "--judge-model" in said
    assert [text for text in lines(report) if text.startswith("ok: simulator endpoint")]


def test_a_choice_becomes_a_target_with_the_key_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    made = Target.of(Role.JUDGE, EndpointChoice("m", "http://127.0.0.1:1/v1", "MY_KEY"))
    assert made.endpoint.api_key == KEY
    assert KEY not in repr(made)
    with pytest.raises(InputError, match="base_url"):
        Target.of(Role.JUDGE, EndpointChoice("m", "localhost:1", "MY_KEY"))
