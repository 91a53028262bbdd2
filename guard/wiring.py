"""Guard: turns the user's choices into built parts. The only place that knows which class stands behind which name."""

import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark_core.chat import Decoding
from benchmark_core.chat_cache import ChatCache
from benchmark_core.digest import digest
from benchmark_core.errors import InputError
from benchmark_core.ports import UserSimulator
from guard.faults import read_faults
from guard.ledger import Header
from guard.scoring import Bench, Plan
from judge.llm_judge import LlmJudge
from judge.rubric import Rubric
from judge.rule_judge import RuleJudge
from judge.verdict import Judge
from simulators.baseline import Baseline
from simulators.controls import Annotations, DoseControl, Fault, LeakyControl, MuteControl, OracleControl, dose
from simulators.function_driven import FunctionDriven
from simulators.prompts_loader import PromptPack, load_pack
from simulators.spec import SimulatorSpec
from suites.load import Suite

if TYPE_CHECKING:
    from benchmark_core.openai_chat import OpenAIChat

MODEL_SIMULATORS = ("baseline", "function-driven")
DOSES = (5, 10, 20)  # percent
DOSE_SEED = 20260101
DOSE_CONTROLS = tuple(f"dose-{fault.replace('_', '-')}-{percent:02d}" for fault in Fault for percent in DOSES)
CONTROLS = ("oracle", "leaky", "mute", *DOSE_CONTROLS)
SIMULATORS = (*MODEL_SIMULATORS, *CONTROLS)


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """Where a model is served. The key is read from the environment variable `api_key_env`, and kept nowhere."""

    model: str
    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    deadline_s: float = 120.0


@dataclass(frozen=True, slots=True)
class SimulatorChoice:
    """The simulator to be scored; `endpoint` is needed by those with a model."""

    name: str
    endpoint: EndpointChoice | None = None
    revision: str | None = None
    decoding: Decoding = field(default_factory=Decoding)
    prompt_pack: str = "v1-open"


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """`rule`, or an LLM judge at `endpoint` under a rubric."""

    endpoint: EndpointChoice | None = None
    rubric: Rubric = Rubric.REFERENCE
    decoding: Decoding = field(default_factory=lambda: Decoding(reasoning_effort=None))

    @property
    def judge_class(self) -> str:
        return "rule" if self.endpoint is None else "llm"


@dataclass(frozen=True, slots=True)
class Choices:
    """Everything that decides what a run is."""

    simulator: SimulatorChoice
    judge: JudgeChoice
    concurrency: int = 8


@dataclass(frozen=True, slots=True)
class Built:
    """The built parts and the identities that the ledger's header names."""

    bench: Bench
    identities: Mapping[str, Any]
    judge_class: str


@asynccontextmanager
async def build(suite: Suite, choices: Choices, cache: Path) -> AsyncIterator[Built]:
    """Build simulator and judge; connections are closed on leaving.

    Raises:
        InputError: for an unknown name, a missing model or key.
    """
    async with AsyncExitStack() as stack:
        rule_judge = RuleJudge(suite.oracles)
        chats = _Chats(stack, cache, choices.concurrency)
        simulator, identity = await _simulator(suite, choices.simulator, chats)
        judge: Judge = rule_judge
        if choices.judge.endpoint is not None:
            chat = await chats.open(choices.judge.endpoint)
            judge = LlmJudge(chat, choices.judge.rubric, choices.judge.decoding)
        bench = Bench(simulator, judge, rule_judge.evidence, suite.oracles, choices.concurrency)
        identities = {
            "simulator": identity,
            "judge": dict(judge.identity),
            "suite": {"name": suite.name, "version": suite.version, "digest": suite.digest},
        }
        yield Built(bench, identities, choices.judge.judge_class)


def header(built: Built, suite: Suite, work: Plan) -> Header:
    """The identity of a run, for its ledger."""
    identities = {**built.identities, "plan": work.identity()}
    core = [q for q in suite.questions if q.stratum == "core"]
    return Header(
        digests={name: digest(identity) for name, identity in identities.items()},
        identities=identities,
        planned=len(work.questions),
        partial=work.partial,
        judge_class=built.judge_class,
        suite_counts={kind: sum(q.kind == kind for q in core) for kind in ("AMB", "LOC", "UNA")},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        excluded_tasks=tuple(sorted(work.scope.excluded_tasks)),
    )


class _Chats:
    """Opens chat clients that share one cache and are closed with the stack."""

    def __init__(self, stack: AsyncExitStack, cache: Path, concurrency: int) -> None:
        self._stack, self._path, self._concurrency = stack, cache, concurrency
        self._cache: ChatCache | None = None

    async def open(self, choice: EndpointChoice) -> "OpenAIChat":
        # a slow import, and controls with the rule judge need none of it
        from benchmark_core.openai_chat import Endpoint, OpenAIChat

        if self._cache is None:
            self._cache = self._stack.enter_context(ChatCache(self._path))
        endpoint = Endpoint(
            base_url=choice.base_url,
            model=choice.model,
            api_key=os.environ.get(choice.api_key_env, ""),
            deadline_s=choice.deadline_s,
            concurrency=self._concurrency,
        )
        return await self._stack.enter_async_context(OpenAIChat(endpoint, self._cache))


async def _simulator(suite: Suite, choice: SimulatorChoice, chats: _Chats) -> tuple[UserSimulator, dict[str, Any]]:
    if choice.name in CONTROLS:
        return _control(suite, choice.name), {"variant": choice.name, "control": True}
    if choice.name not in MODEL_SIMULATORS:
        raise InputError(f"--simulator {choice.name}: expected one of {', '.join(SIMULATORS)}")
    if choice.endpoint is None:
        raise InputError(f"--simulator {choice.name} needs a model: say --model NAME and --base-url URL")
    pack: PromptPack = load_pack(choice.prompt_pack)
    chat = await chats.open(choice.endpoint)
    spec = SimulatorSpec(choice.name, choice.endpoint.model, choice.revision, pack.name, pack.digest, choice.decoding)
    simulator = Baseline if choice.name == "baseline" else FunctionDriven
    return simulator(chat, pack, choice.decoding), spec.identity()


def _control(suite: Suite, name: str) -> UserSimulator:
    annotations = Annotations(suite.questions)
    oracle = OracleControl(annotations)
    if name == "oracle":
        return oracle
    if name == "leaky":
        return LeakyControl(annotations)
    if name == "mute":
        return MuteControl()
    fault_name, percent = name.removeprefix("dose-").rsplit("-", 1)
    pool = [f for f in read_faults(suite) if f.fault == fault_name.replace("-", "_")]
    core = [q for q in suite.questions if q.stratum == "core"]
    try:
        faults = dose(core, pool, int(percent) / 100, random.Random(f"{DOSE_SEED} {name}"))
    except ValueError as error:
        raise InputError(f"--simulator {name}: {error}") from None
    return DoseControl(oracle, annotations, faults)
