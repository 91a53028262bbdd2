"""Guard: the command line for scoring: which simulator, which judge, what it will take, what it may cost."""

from collections.abc import Iterable

import typer

from benchmark_core.chat import Decoding
from benchmark_core.errors import InputError
from guard import score_flags as flags
from guard.audited import excluded_by
from guard.before import forecast, look_first
from guard.choices import (
    MODEL_SIMULATORS,
    PLUGIN,
    Choices,
    EndpointChoice,
    JudgeChoice,
    Money,
    RemoteChoice,
    Role,
    SimulatorChoice,
)
from guard.options import JsonOption, SuiteOption
from guard.prices import Price
from guard.runs import RunFolder, run
from guard.scoring import Scope
from guard.show import console, show_forecast, show_scorecard, watching
from judge.rubric import Rubric
from simulators.remote_wire import Protocol
from suites.load import OPEN, load
from suites.questions import Kind

OPENAI = "https://api.openai.com/v1"


def score(  # noqa: PLR0913 - one parameter a flag
    simulator: flags.Simulator,
    out_folder: flags.OutFolder,
    suite: SuiteOption = OPEN,
    resume: flags.Resume = False,
    as_json: JsonOption = False,
    model: flags.Model = None,
    base_url: flags.BaseUrl = "",
    api_key_env: flags.ApiKeyEnv = "OPENAI_API_KEY",
    revision: flags.Revision = None,
    temperature: flags.Temperature = 0.0,
    top_p: flags.TopP = 1.0,
    max_tokens: flags.MaxTokens = 1024,
    reasoning_effort: flags.ReasoningEffort = "medium",
    replies: flags.Replies = None,
    url: flags.Url = None,
    protocol: flags.Protocol = Protocol.MINIMAL,
    send_oracle: flags.SendOracle = False,
    remote_key_env: flags.RemoteKeyEnv = "USERSIM_GUARD_REMOTE_KEY",
    name: flags.Name = None,
    option: flags.Option = None,
    judge: flags.Judge = "rule",
    judge_model: flags.JudgeModel = None,
    judge_base_url: flags.JudgeBaseUrl = "",
    judge_api_key_env: flags.JudgeApiKeyEnv = "OPENAI_API_KEY",
    rubric: flags.JudgeRubric = Rubric.REFERENCE,
    kinds: flags.Kinds = None,
    tasks: flags.Tasks = None,
    limit: flags.Limit = None,
    audit: flags.Audit = None,
    dry_run: flags.DryRun = False,
    price: flags.Price = None,
    judge_price: flags.JudgePrice = None,
    max_cost: flags.MaxCost = None,
    preflight: flags.Preflight = True,
    concurrency: flags.Concurrency = 8,
    deadline: flags.Deadline = 120.0,
) -> None:
    """Ask a simulator the labelled questions, have each reply rated, and print its scorecard."""
    chosen = SimulatorChoice(
        simulator,
        _endpoint(model, base_url, api_key_env, deadline),
        revision,
        Decoding(temperature, top_p, max_tokens, None if reasoning_effort == "none" else reasoning_effort),
        label=name,
        replies=tuple(replies or ()),
        remote=RemoteChoice(url, protocol, send_oracle, remote_key_env, deadline) if url else None,
        options=_options(option or []),
    )
    judged = JudgeChoice(_judge_endpoint(judge, judge_model, judge_base_url, judge_api_key_env, deadline), rubric)
    choices = Choices(_not_idle(chosen), judged, concurrency, Money(_prices(price, judge_price), max_cost))
    folder, loaded = RunFolder(out_folder), load(suite)
    scope = Scope(tuple(kinds or Kind), tuple(tasks or ()), limit, excluded_by(audit, loaded))
    if dry_run:
        return show_forecast(forecast(loaded, choices, scope, folder), as_json=as_json)
    _say(look_first(loaded, choices, scope, folder) if preflight else [])
    with watching(resume=resume) as watch:
        counted = run(loaded, choices, scope, folder, watch)
    raise typer.Exit(show_scorecard(counted, folder, as_json=as_json))


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _endpoint(model: str | None, base_url: str, key_env: str, deadline: float) -> EndpointChoice | None:
    return EndpointChoice(model, base_url or OPENAI, key_env, deadline) if model is not None else None


def _judge_endpoint(
    judge: str, model: str | None, base_url: str, key_env: str, deadline: float
) -> EndpointChoice | None:
    if judge == "rule":
        if model is not None:
            raise InputError("--judge-model is given, but the judge is the rule judge; say --judge llm")
        return None
    if judge != "llm":
        raise InputError(f"--judge {judge}: expected rule or llm")
    endpoint = _endpoint(model, base_url, key_env, deadline)
    if endpoint is None:
        raise InputError("--judge llm needs --judge-model, and --judge-base-url for anything but api.openai.com")
    return endpoint


def _options(given: list[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping."""
    options: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier() or name in options:
            raise InputError(f"--option {name}: expected NAME=VALUE, each name once")
        options[name] = value
    return options


def _not_idle(chosen: SimulatorChoice) -> SimulatorChoice:
    """A flag that would do nothing is a misunderstanding: better refused than paid for."""
    plugin = chosen.name.startswith(PLUGIN)
    idle = {
        "--model": chosen.endpoint is not None and chosen.name not in MODEL_SIMULATORS,
        "--replies": bool(chosen.replies) and chosen.name != "replay",
        "--url": chosen.remote is not None and chosen.name != "remote",
        "--option": bool(chosen.options) and not plugin,
        "--name": chosen.label is not None and chosen.name not in ("replay", "remote"),
    }
    if named := [flag for flag, is_idle in idle.items() if is_idle]:
        raise InputError(f"{', '.join(named)}: of no use with --simulator {chosen.name}; leave it out")
    return chosen


def _prices(price: str | None, judge_price: str | None) -> dict[str, Price]:
    given = {Role.SIMULATOR: (price, "--price"), Role.JUDGE: (judge_price, "--judge-price")}
    return {role: Price.parse(text, flag) for role, (text, flag) in given.items() if text is not None}
