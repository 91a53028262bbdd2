"""Guard: turns the user's choices into built parts. The only place that knows which class stands behind which name."""

import os
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmark_core.digest import digest
from benchmark_core.errors import InputError
from benchmark_core.ports import Ask, Reply, UserSimulator
from guard.asking import Bench
from guard.chats import Chats
from guard.choices import CONTROLS, MODEL_SIMULATORS, PLUGIN, Choices, JudgeChoice, Role, SimulatorChoice
from guard.faults import read_faults
from guard.lacking import demand
from guard.ledger import Header
from guard.scoring import Plan
from judge.llm_judge import LlmJudge
from judge.rule_judge import RuleJudge
from judge.verdict import Judge
from simulators.baseline import Baseline
from simulators.controls import Annotations, DoseControl, LeakyControl, MuteControl, OracleControl, dose
from simulators.function_driven import FunctionDriven
from simulators.plugin import load_plugin
from simulators.prompts_loader import load_pack
from simulators.replay import Replay
from simulators.replies import read_replies
from simulators.spec import SimulatorSpec
from suites.load import Suite

DOSE_SEED = 20260101
Simulator = tuple[UserSimulator, dict[str, Any]]
"""A simulator and its identity."""


@dataclass(frozen=True, slots=True)
class Built:
    """The built parts and the identities that the ledger's header names."""

    bench: Bench
    identities: Mapping[str, Any]
    judge_class: str


class Silent:
    """A `UserSimulator` of a rehearsal: stands in for one whose calls are not ours to count."""

    async def answer(self, ask: Ask) -> Reply:
        """The same few words to everybody."""
        return Reply("I cannot say.")


async def build(suite: Suite, work: Plan, choices: Choices, chats: Chats, stack: AsyncExitStack) -> Built:
    """Build simulator and judge on the clients that `chats` opens; connections are closed with the stack.

    Raises:
        InputError: for an unknown name, a missing model or file, or data that the suite lacks.
    """
    demand(suite, work, choices)
    simulator, identity = await _simulator(suite, work, choices, chats, stack)
    rule_judge = RuleJudge(suite.oracles)
    judge: Judge = rule_judge
    if choices.judge.endpoint is not None:
        judge = await _llm_judge(choices.judge, chats)
    identities = {
        "simulator": identity,
        "judge": dict(judge.identity),
        "suite": {"name": suite.name, "version": suite.version, "digest": suite.digest},
    }
    bench = Bench(simulator, judge, rule_judge.evidence, suite.oracles, choices.concurrency)
    return Built(bench, identities, choices.judge.judge_class)


async def rehearsal(suite: Suite, work: Plan, choices: Choices, chats: Chats) -> Bench:
    """The bench of a rehearsal: as `build`, but nobody else's simulator is asked or loaded."""
    demand(suite, work, choices)
    simulator: UserSimulator = Silent()
    if choices.simulator.name in MODEL_SIMULATORS:
        simulator, _ = await _with_model(choices.simulator, chats)
    rule_judge = RuleJudge(suite.oracles)
    judge: Judge = rule_judge if choices.judge.endpoint is None else await _llm_judge(choices.judge, chats)
    return Bench(simulator, judge, rule_judge.evidence, suite.oracles, choices.concurrency)


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


async def _llm_judge(choice: JudgeChoice, chats: Chats) -> LlmJudge:
    assert choice.endpoint is not None
    return LlmJudge(await chats.open(Role.JUDGE, choice.endpoint), choice.rubric, choice.decoding)


async def _simulator(suite: Suite, work: Plan, choices: Choices, chats: Chats, stack: AsyncExitStack) -> Simulator:
    choice = choices.simulator
    if choice.name in CONTROLS:
        return _control(suite, choice.name), {"variant": choice.name, "control": True}
    if choice.name in MODEL_SIMULATORS:
        return await _with_model(choice, chats)
    if choice.name == "replay":
        if not choice.replies:
            raise InputError("--simulator replay needs --replies FILE")
        replay = Replay(read_replies(choice.replies, suite.questions, work.questions))
        return replay, replay.identity | {"name": choice.label}
    if choice.name == "remote":
        return await _remote(choice, stack, choices.concurrency)
    plugin, identity = load_plugin(choice.name.removeprefix(PLUGIN), choice.options)
    return await stack.enter_async_context(plugin), identity


async def _with_model(choice: SimulatorChoice, chats: Chats) -> Simulator:
    if choice.endpoint is None:
        raise InputError(f"--simulator {choice.name} needs a model: say --model NAME and --base-url URL")
    pack = load_pack(choice.prompt_pack)
    chat = await chats.open(Role.SIMULATOR, choice.endpoint)
    spec = SimulatorSpec(choice.name, choice.endpoint.model, choice.revision, pack.name, pack.digest, choice.decoding)
    simulator = Baseline if choice.name == "baseline" else FunctionDriven
    return simulator(chat, pack, choice.decoding), spec.identity()


async def _remote(choice: SimulatorChoice, stack: AsyncExitStack, concurrency: int) -> Simulator:
    if choice.remote is None:
        raise InputError("--simulator remote needs --url")
    from benchmark_core.json_http import JsonHttp  # slow imports, that only this needs
    from simulators.remote import Remote, RemoteSpec

    there = choice.remote
    key = os.environ.get(there.api_key_env, "")
    client = JsonHttp(there.url, api_key=key, deadline_s=there.deadline_s, concurrency=concurrency)
    http = await stack.enter_async_context(client)
    remote = Remote(http, RemoteSpec(there.protocol, choice.label or "", choice.revision, there.sends_oracle))
    await remote.check()
    return remote, remote.identity


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
