"""Guard: the flags of `score`, in groups as its help shows them."""

from pathlib import Path
from typing import Annotated

import typer

from judge.rubric import Rubric
from simulators.remote_wire import Protocol as RemoteProtocol
from suites.questions import Kind

_MODEL, _OWN, _JUDGE = "Model", "Your own simulator", "Judge"
_PART, _COST = "Part of the suite", "Before and during the run"

Simulator = Annotated[
    str,
    typer.Option(help="baseline, function-driven, replay, remote, plugin:NAME, or a control: oracle, leaky, mute, …"),
]
OutFolder = Annotated[Path, typer.Option("--out", help="Run folder to create, or to resume.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
Model = Annotated[str | None, typer.Option(help="Model behind the simulator (the backbone).", rich_help_panel=_MODEL)]
BaseUrl = Annotated[
    str, typer.Option(help="Its OpenAI-compatible endpoint.", envvar="OPENAI_BASE_URL", rich_help_panel=_MODEL)
]
ApiKeyEnv = Annotated[str, typer.Option(help="Environment variable that holds its key.", rich_help_panel=_MODEL)]
Revision = Annotated[
    str | None, typer.Option(help="Revision of model or simulator, for its identity.", rich_help_panel=_MODEL)
]
Temperature = Annotated[float, typer.Option(min=0.0, rich_help_panel=_MODEL)]
TopP = Annotated[float, typer.Option(min=0.0, max=1.0, rich_help_panel=_MODEL)]
MaxTokens = Annotated[
    int, typer.Option(min=1, help="Budget of one reply, hidden reasoning included.", rich_help_panel=_MODEL)
]
ReasoningEffort = Annotated[
    str, typer.Option(help="Sent as it is; `none` sends no such field.", rich_help_panel=_MODEL)
]
Replies = Annotated[list[Path] | None, typer.Option(help="replay: file of replies (repeat).", rich_help_panel=_OWN)]
Url = Annotated[str | None, typer.Option(help="remote: address of the simulator.", rich_help_panel=_OWN)]
Protocol = Annotated[RemoteProtocol, typer.Option(help="remote: ours, or the ADK's.", rich_help_panel=_OWN)]
SendOracle = Annotated[
    bool, typer.Option("--send-oracle", help="remote: send it the reference SQL too.", rich_help_panel=_OWN)
]
RemoteKeyEnv = Annotated[str, typer.Option(help="remote: variable with its key.", rich_help_panel=_OWN)]
Name = Annotated[str | None, typer.Option(help="replay, remote: its name in reports.", rich_help_panel=_OWN)]
Option = Annotated[list[str] | None, typer.Option(help="plugin: NAME=VALUE (repeat).", rich_help_panel=_OWN)]
Judge = Annotated[str, typer.Option(help="rule (no model) or llm.", rich_help_panel=_JUDGE)]
JudgeModel = Annotated[str | None, typer.Option(help="Model of the LLM judge.", rich_help_panel=_JUDGE)]
JudgeBaseUrl = Annotated[
    str, typer.Option(help="Its endpoint.", envvar="USERSIM_GUARD_JUDGE_BASE_URL", rich_help_panel=_JUDGE)
]
JudgeApiKeyEnv = Annotated[str, typer.Option(help="Variable with its key.", rich_help_panel=_JUDGE)]
JudgeRubric = Annotated[Rubric, typer.Option(help="Rubric of the LLM judge.", rich_help_panel=_JUDGE)]
Kinds = Annotated[
    list[Kind] | None, typer.Option(help="Only these kinds (repeat); the run is partial.", rich_help_panel=_PART)
]
Tasks = Annotated[
    list[str] | None, typer.Option(help="Only these tasks (repeat); the run is partial.", rich_help_panel=_PART)
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="A stratified sample; the run is partial.", rich_help_panel=_PART)
]
Audit = Annotated[
    Path | None, typer.Option(help="Report of `audit gold`: ungradable tasks are kept out.", rich_help_panel=_PART)
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Calls, tokens, price and time; sends nothing.", rich_help_panel=_COST)
]
Price = Annotated[
    str | None, typer.Option(help="PROMPT/COMPLETION in US dollars per million tokens.", rich_help_panel=_COST)
]
JudgePrice = Annotated[str | None, typer.Option(help="The same of the judge's model.", rich_help_panel=_COST)]
MaxCost = Annotated[
    float | None,
    typer.Option(min=0.0, help="US dollars over all resumes; stops before it is passed.", rich_help_panel=_COST),
]
Preflight = Annotated[
    bool,
    typer.Option("--preflight/--no-preflight", help="Ask the endpoints before the first call.", rich_help_panel=_COST),
]
Concurrency = Annotated[int, typer.Option(min=1, max=512, rich_help_panel=_COST)]
Deadline = Annotated[
    float, typer.Option(min=1, help="Seconds for one completion, retries included.", rich_help_panel=_COST)
]
