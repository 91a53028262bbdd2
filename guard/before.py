"""Guard: what happens before the first paid call: what the run will take, and whether the endpoints can carry it."""

import asyncio
import json
import re
from collections.abc import Mapping

from guard.choices import Choices, EndpointChoice, Role
from guard.forecast import Forecast, Needed, Rehearsal, StandIn, sum_up
from guard.preflight import Load, Preflight, lines, preflight, raise_for
from guard.preflight_checks import Target
from guard.runs import RunFolder, rehearse, write_atomically
from guard.scoring import Scope, plan, standings, todo
from suites.load import Suite

FAMILIES = (
    "claude",
    "command",
    "deepseek",
    "gemini",
    "gemma",
    "glm",
    "gpt",
    "grok",
    "kimi",
    "llama",
    "mistral",
    "qwen",
)
"""Names that stand for a family wherever they stand in a model's name; else its first word does."""


def forecast(suite: Suite, choices: Choices, scope: Scope, folder: RunFolder) -> Forecast:
    """What is still to be done in a folder; sends nothing.

    Raises:
        InputError, LedgerError: see `wiring.rehearsal` and `ledger.stream`.
    """
    needed, _ = asyncio.run(_needed(suite, choices, scope, folder))
    return sum_up(needed, choices.models, choices.money.prices, choices.concurrency)


def look_first(suite: Suite, choices: Choices, scope: Scope, folder: RunFolder) -> list[str]:
    """Ask the endpoints of a run whether they can carry it; writes `preflight.json`.

    Returns:
        What was found, a line a finding; nothing for a run that asks no model of ours.

    Raises:
        InputError, EndpointLost: with everything that fails and its repair.
    """
    if not choices.models:
        return []
    report = asyncio.run(_look(suite, choices, scope, folder))
    folder.root.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.preflight, json.dumps(report.to_json(), indent=1))
    raise_for(report)
    return [*lines(report), *kin(choices.models)]


def kin(models: Mapping[str, str]) -> list[str]:
    """A warning when simulator and judge seem to be of one family: judges favour their kin (FastChat #3911)."""
    families = {_family(model) for model in models.values()}
    if len(models) < 2 or len(families) > 1:
        return []
    return [
        f"warn: judge: of the simulator's family ({families.pop()}), and judges favour their kin; compare with another"
    ]


def _family(model: str) -> str:
    name = model.rpartition("/")[2].casefold()
    return next((family for family in FAMILIES if family in name), re.split(r"[^a-z]", name)[0] or name)


async def _needed(
    suite: Suite, choices: Choices, scope: Scope, folder: RunFolder
) -> tuple[list[tuple[Needed, ...]], Rehearsal]:
    work = plan(suite, scope)
    rehearsal = await rehearse(suite, work, choices)
    done = standings(folder.ledger) if folder.ledger.exists() else {}
    return [await rehearsal.needs(question) for question, _ in todo(work, done)], rehearsal


async def _look(suite: Suite, choices: Choices, scope: Scope, folder: RunFolder) -> Preflight:
    _, rehearsal = await _needed(suite, choices, scope, folder)
    ends = {Role.SIMULATOR: choices.simulator.endpoint, Role.JUDGE: choices.judge.endpoint}
    loads = [_load(role, end, choices, rehearsal.stand_ins) for role, end in ends.items() if end is not None]
    return await preflight(loads, choices.judge.decoding if choices.judge.endpoint else None)


def _load(role: Role, end: EndpointChoice, choices: Choices, stand_ins: Mapping[str, StandIn]) -> Load:
    decoding = choices.simulator.decoding if role is Role.SIMULATOR else choices.judge.decoding
    return Load(Target.of(role, end), stand_ins[role].longest or None, decoding.max_tokens)
