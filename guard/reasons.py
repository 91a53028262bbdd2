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

_NO_REPLY = "A row without a reply counts as not accepted, and such rows pushed this kind down. "

MEANS: Mapping[Code, str] = {
    Code.PARTIAL_RUN: "The run covers less than the suite's core questions. A chosen part can flatter, so it never "
    "certifies.",
    Code.INCOMPLETE_RUN: "Some planned questions have no line in the ledger. They count as open, at their worst.",
    Code.UNJUDGED_SHARE: "The judge gave no verdict on too many rows. They count at their worst, and beyond this share "
    "the run says more about the judge than about the simulator.",
    Code.TOO_FEW_CLUSTERS: "The questions of one task are not independent, so tasks are what is sampled. With so few "
    "of them no interval can be trusted.",
    Code.JUDGE_UNINFORMATIVE: "By its calibration the judge can hardly be told from guessing on this kind: its "
    "sensitivity and specificity together are too low to correct for its errors.",
    Code.JUDGE_KAPPA_LOW: "By its calibration the judge may agree too little with people on this kind, beyond what "
    "chance would give.",
    Code.INTERVAL_OUTSIDE_UNIT: "Corrected for the judge's errors, the share and its whole interval lie outside 0 to "
    "100 %. These rows cannot come from where the judge was calibrated; clipping the share would hide that.",
    Code.BELOW_FLOOR: "Even the upper end of the interval lies below the floor: the simulator fails for certain.",
    Code.NOT_DECIDED_INTERVAL: "The interval holds the floor: the data cannot tell whether the simulator reaches it. "
    "That is no mild fail and no near pass.",
    Code.FAILS_BY_DISCLOSURE: "The kind fails, and in most of its failing rows the reply disclosed something: a name "
    "of the schema, a piece or a constant of the reference SQL, code, or what only the benchmark knows.",
    Code.SIMULATOR_UNAVAILABLE: _NO_REPLY + "The endpoint refused or broke the connection, or answered 5xx.",
    Code.SIMULATOR_RATE_LIMITED: _NO_REPLY + "The endpoint answered 429, also after waiting.",
    Code.SIMULATOR_TIMEOUT: _NO_REPLY + "The deadline of a request passed, retries included.",
    Code.SIMULATOR_REJECTED: _NO_REPLY + "The endpoint answered 4xx.",
    Code.SIMULATOR_TRUNCATED: _NO_REPLY + "The completion reached its token limit, also with a larger one.",
    Code.SIMULATOR_EMPTY: _NO_REPLY + "The completion ended without any text.",
    Code.SIMULATOR_REFUSED: _NO_REPLY + "The provider used its own refusal field, which no user would.",
    Code.SIMULATOR_FILTERED: _NO_REPLY + "The provider's content filter stopped the completion.",
    Code.SIMULATOR_MALFORMED: _NO_REPLY + "The endpoint answered 200 with what is no chat completion.",
    Code.SIMULATOR_PROTOCOL_ERROR: _NO_REPLY + "The first stage named no valid action, also after a reminder.",
    Code.SIMULATOR_ACTION_AS_REPLY: _NO_REPLY + "The reply was an action, not words to the person who asked.",
    Code.SIMULATOR_CRASHED: _NO_REPLY + "The simulator raised an exception of its own.",
}
"""What each code says, for people who meet it for the first time."""

CLASS_MEND: Mapping[ClassCode, str] = {
    ClassCode.CONTROL: "score a simulator: a control is scored to check the measure",
    ClassCode.RULE_JUDGE: "score with --judge llm and a judge that is calibrated",
    ClassCode.UNCALIBRATED_JUDGE: "measure the judge against people on held-out rows, and certify with --calibration",
    ClassCode.SMALL_SUITE: "score on a suite of full size",
    ClassCode.EXCLUDED_TASKS: "mend the tasks that the gold audit found ungradable, and score all of them",
    ClassCode.NOT_OFFICIAL_OR_FULL_OPEN: "score on the official or the open suite: your own stays provisional",
}
"""What would lift a certificate to class `full`, as far as this reason goes."""

CLASS_MEANS: Mapping[Class, str] = {
    Class.FULL: "Certified with a calibrated judge on a suite of full size.",
    Class.PROVISIONAL: "Certified, but with less behind it than class full needs: its reasons are in its first lines.",
    Class.REFUSED: "No certificate: the simulator fails, or the data cannot tell. The document is sealed all the same.",
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
