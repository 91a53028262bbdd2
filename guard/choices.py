"""Guard: what a user chooses for a run, as data. Reads nothing, builds nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from benchmark_core.chat import Decoding
from guard.prices import Price
from judge.rubric import Rubric
from simulators.controls import Fault
from simulators.remote_wire import Protocol

MODEL_SIMULATORS = ("baseline", "function-driven")
DOSES = (5, 10, 20)  # percent
DOSE_CONTROLS = tuple(f"dose-{fault.replace('_', '-')}-{percent:02d}" for fault in Fault for percent in DOSES)
CONTROLS = ("oracle", "leaky", "mute", *DOSE_CONTROLS)
PLUGIN = "plugin:"
SIMULATORS = (*MODEL_SIMULATORS, "replay", "remote", f"{PLUGIN}NAME", *CONTROLS)


class Role(StrEnum):
    """Who asks a model."""

    SIMULATOR = "simulator"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """Where a model is served. The key is read from the environment variable `api_key_env`, and kept nowhere."""

    model: str
    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    deadline_s: float = 120.0


@dataclass(frozen=True, slots=True)
class RemoteChoice:
    """Somebody's simulator behind HTTP.

    Attributes:
        sends_oracle: whether it is sent reference SQL, clear query and ambiguities.
    """

    url: str
    protocol: Protocol = Protocol.MINIMAL
    sends_oracle: bool = False
    api_key_env: str = "USERSIM_GUARD_REMOTE_KEY"
    deadline_s: float = 120.0


@dataclass(frozen=True, slots=True)
class SimulatorChoice:
    """The simulator to be scored.

    Attributes:
        label: what `replay` and `remote` simulators are called in reports.
        endpoint: of those with a model of ours.
        replies: files of `replay`.
        options: of a plugin.
    """

    name: str
    endpoint: EndpointChoice | None = None
    revision: str | None = None
    decoding: Decoding = field(default_factory=Decoding)
    prompt_pack: str = "v1-open"
    label: str | None = None
    replies: tuple[Path, ...] = ()
    remote: RemoteChoice | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The rule judge, or an LLM judge at `endpoint` under a rubric."""

    endpoint: EndpointChoice | None = None
    rubric: Rubric = Rubric.REFERENCE
    decoding: Decoding = field(default_factory=lambda: Decoding(reasoning_effort=None))

    @property
    def judge_class(self) -> str:
        return "rule" if self.endpoint is None else "llm"


@dataclass(frozen=True, slots=True)
class Money:
    """Prices by role, and what the run may cost over all resumes, in US dollars; None: no limit."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """Everything that decides what a run is; `money` and `concurrency` are no part of its identity."""

    simulator: SimulatorChoice
    judge: JudgeChoice
    concurrency: int = 8
    money: Money = Money()

    @property
    def models(self) -> dict[str, str]:
        """Role -> model, of the roles that ask a model of ours."""
        ends = {Role.SIMULATOR: self.simulator.endpoint, Role.JUDGE: self.judge.endpoint}
        return {role: end.model for role, end in ends.items() if end is not None}
