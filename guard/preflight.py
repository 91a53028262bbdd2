"""Guard: looks at the endpoints before the first paid call, so that a run does not find out after 2,000 of them.

Free: is the server there, does it take the key, does it list the model, does the longest prompt fit. One tiny paid
call for an LLM judge: does the server keep the verdict's schema (servers have ignored it, refused it, padded it with
blanks until the budget was gone, or put the answer into a reasoning field).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmark_core.chat import Decoding, Message
from benchmark_core.errors import InputError
from guard.choices import Role
from guard.finding import Finding, line
from guard.preflight_checks import EndpointReport, Target, check_endpoint, constraint_finding, probe_constraint
from guard.scoring import EndpointLost

SCHEMA = "usersim-guard/preflight/1"


@dataclass(frozen=True, slots=True)
class Load:
    """What a run will send to an endpoint.

    Attributes:
        longest: the longest prompt; None when it is not known.
        max_tokens: budget of one completion.
    """

    target: Target
    longest: Sequence[Message] | None
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Preflight:
    """All endpoints of a run."""

    endpoints: tuple[EndpointReport, ...]

    @property
    def findings(self) -> list[Finding]:
        return [finding for endpoint in self.endpoints for finding in endpoint.findings]

    @property
    def failed(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "fail"]

    def to_json(self) -> dict[str, Any]:
        """`usersim-guard/preflight/1`."""
        return {"schema": SCHEMA, "endpoints": [endpoint.to_json() for endpoint in self.endpoints]}


def raise_for(report: Preflight) -> None:
    """Do nothing when the run can start.

    Raises:
        InputError: with every failed finding and its repair.
        EndpointLost: the same, when all that fails is that endpoints are away.
    """
    if report.failed:
        away = all(endpoint.away for endpoint in report.endpoints if _fails(endpoint))
        says = ["the endpoints cannot carry the run; no question was asked:", *map(line, report.failed)]
        raise (EndpointLost if away else InputError)("\n".join(says))


def _fails(report: EndpointReport) -> bool:
    return any(finding.level == "fail" for finding in report.findings)


def lines(report: Preflight) -> list[str]:
    """The report for people, a line a finding."""
    return [line(finding) for finding in report.findings]


async def preflight(loads: Sequence[Load], judge_decoding: Decoding | None) -> Preflight:
    """Look at the endpoints of a run, all at once.

    Args:
        judge_decoding: of an LLM judge that asks for a schema; it is tried once when nothing else fails.
    """
    checked = await asyncio.gather(*(check_endpoint(load.target, load.longest, load.max_tokens) for load in loads))
    report = Preflight(tuple(checked))
    if judge_decoding is None or report.failed:
        return report
    tried = [
        await _with_constraint(endpoint, load.target, judge_decoding) if endpoint.role is Role.JUDGE else endpoint
        for endpoint, load in zip(checked, loads, strict=True)
    ]
    return Preflight(tuple(tried))


async def _with_constraint(report: EndpointReport, target: Target, decoding: Decoding) -> EndpointReport:
    tried = await probe_constraint(target, decoding)
    return replace(report, findings=(*report.findings, constraint_finding(target, tried)), constrained=tried)
