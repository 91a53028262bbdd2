"""Guard: the vocabulary of decisions: classes, reason codes, and what would mend or decide each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from suites.questions import Kind


class Class(StrEnum):
    """How much a certificate is worth; `refused` when there is none."""

    FULL = "full"
    PROVISIONAL = "provisional"
    REFUSED = "refused"


class Code(StrEnum):
    """Why there is no certificate, or what explains it."""

    PARTIAL_RUN = "partial_run"
    INCOMPLETE_RUN = "incomplete_run"
    UNJUDGED_SHARE = "unjudged_share"
    TOO_FEW_CLUSTERS = "too_few_clusters"
    JUDGE_UNINFORMATIVE = "judge_uninformative"
    JUDGE_KAPPA_LOW = "judge_kappa_low"
    INTERVAL_OUTSIDE_UNIT = "interval_outside_unit"
    BELOW_FLOOR = "below_floor"
    NOT_DECIDED_INTERVAL = "not_decided_interval"
    FAILS_BY_DISCLOSURE = "fails_by_disclosure"
    SIMULATOR_UNAVAILABLE = "simulator_unavailable"
    SIMULATOR_RATE_LIMITED = "simulator_rate_limited"
    SIMULATOR_TIMEOUT = "simulator_timeout"
    SIMULATOR_REJECTED = "simulator_rejected"
    SIMULATOR_TRUNCATED = "simulator_truncated"
    SIMULATOR_EMPTY = "simulator_empty"
    SIMULATOR_REFUSED = "simulator_refused"
    SIMULATOR_FILTERED = "simulator_filtered"
    SIMULATOR_MALFORMED = "simulator_malformed"
    SIMULATOR_PROTOCOL_ERROR = "simulator_protocol_error"
    SIMULATOR_ACTION_AS_REPLY = "simulator_action_as_reply"
    SIMULATOR_CRASHED = "simulator_crashed"


class ClassCode(StrEnum):
    """Why a certificate is provisional."""

    CONTROL = "control"
    RULE_JUDGE = "rule_judge"
    UNCALIBRATED_JUDGE = "uncalibrated_judge"
    SMALL_SUITE = "small_suite"
    EXCLUDED_TASKS = "excluded_tasks"
    NOT_OFFICIAL_OR_FULL_OPEN = "not_official_or_full_open"


MEND: Mapping[Code, str] = {
    Code.PARTIAL_RUN: "run the whole core stratum, without --limit or --kinds",
    Code.INCOMPLETE_RUN: "resume the run until every planned question has a line",
    Code.UNJUDGED_SHARE: "mend the judge and resume: rows without a verdict are judged again",
    Code.TOO_FEW_CLUSTERS: "score on a suite with more tasks: rows of one task are not independent",
    Code.JUDGE_UNINFORMATIVE: "use a better judge, or one with a larger calibration",
    Code.JUDGE_KAPPA_LOW: "use a judge that agrees better with people, or enlarge its calibration",
    Code.INTERVAL_OUTSIDE_UNIT: "calibrate again on rows like these: they contradict the calibration",
    Code.BELOW_FLOOR: "change the simulator: more data will not lift it over the floor",
    Code.NOT_DECIDED_INTERVAL: "more tasks, or a larger calibration of the judge, would decide it",
    Code.FAILS_BY_DISCLOSURE: "stop the simulator from naming what its user cannot know: most failing rows do",
    Code.SIMULATOR_UNAVAILABLE: "mend the simulator's endpoint and resume",
    Code.SIMULATOR_RATE_LIMITED: "lower --concurrency or raise the endpoint's limit, and resume",
    Code.SIMULATOR_TIMEOUT: "raise the request's time limit or serve faster, and resume",
    Code.SIMULATOR_REJECTED: "mend the request (key, model name, context length): the endpoint rejects it",
    Code.SIMULATOR_TRUNCATED: "raise the completion's token limit: replies are cut",
    Code.SIMULATOR_EMPTY: "mend the simulator: it replies with nothing",
    Code.SIMULATOR_REFUSED: "choose another model: the provider refuses to answer",
    Code.SIMULATOR_FILTERED: "choose another endpoint: its content filter stops replies",
    Code.SIMULATOR_MALFORMED: "mend the endpoint: what it sends is no chat completion",
    Code.SIMULATOR_PROTOCOL_ERROR: "choose a model that keeps to the menu of actions",
    Code.SIMULATOR_ACTION_AS_REPLY: "mend the simulator's second stage: it replies with an action",
    Code.SIMULATOR_CRASHED: "mend the simulator: it breaks",
}
"""What would mend or decide it, as a sentence after "To certify: "."""

CLASS_SAYS: Mapping[ClassCode, str] = {
    ClassCode.CONTROL: "a control that answers from the annotation: a check of this tool, not of a simulator",
    ClassCode.RULE_JUDGE: "judged by rules, not by a language model",
    ClassCode.UNCALIBRATED_JUDGE: "the judge's error is unknown: no calibration",
    ClassCode.SMALL_SUITE: "the suite has fewer questions than the policy's full size",
    ClassCode.EXCLUDED_TASKS: "tasks were left out of the run",
    ClassCode.NOT_OFFICIAL_OR_FULL_OPEN: "the suite is neither the official nor the open one",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason; `kind` is None where it is about the whole run. `detail` holds the numbers."""

    code: Code
    kind: Kind | None
    detail: str

    @property
    def mend(self) -> str:
        return MEND[self.code]
