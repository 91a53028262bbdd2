"""Guard: a run as one evaluation log of Inspect AI (JSON, log version 2), for its viewer and its data frames.

Field names and meanings: `inspect_ai.log.EvalLog` (https://inspect.aisi.org.uk/eval-logs.html). One sample a question,
with one score named after its kind: 1 accepted, 0 not. A reply without a verdict has no score: it is never a 0.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmark_core.digest import digest
from benchmark_core.errors import InputError, LedgerError
from guard import __version__
from guard.books import Usage
from guard.export import ExportRow, Source, fresh, private_file, rows
from guard.policy import DEFAULT
from guard.scorecard import KindScore
from suites.questions import AmbReference, Kind, LocReference, QuestionKey, Reference, UnaReference

VERSION = 2  # of Inspect's log
TASK = "usersim-guard-score"
SCORER = "usersim-guard"
_SHOWN_ELSEWHERE = {"question", "reply", "reason"}


def listed(out: Path) -> bool:
    """Whether Inspect takes the file for a log where it lists a folder or makes data frames: it goes by the name."""
    return re.match(r"\d{4}-\d{2}-\d{2}T\d{2}[:-]\d{2}[:-]\d{2}", out.name) is not None


def name_for(run: Source) -> str:
    """A name that Inspect lists, made of when the run began: it is never text from a file."""
    try:
        began = datetime.fromisoformat(run.header.started)
    except ValueError:
        raise LedgerError(f"{run.ledger}:1: field 'started': expected a time") from None
    return f"{began:%Y-%m-%dT%H-%M-%S}_{TASK}.json"


def write_inspect(run: Source, out: Path) -> None:
    """One `.json` log, streamed: everything but the samples comes first, so that readers of headers stop early.

    Raises:
        InputError: `out` does not end in `.json`, something stands there, or it cannot be written.
    """
    if out.suffix != ".json":
        raise InputError(f"--out {out}: expected a name that ends in .json: Inspect AI tells formats by it")
    targets = {question.key: _target(question.reference) for question in run.suite.questions} if run.gold else {}
    with fresh(out) as draft, private_file(draft) as file:
        file.write(_dump(_head(run)).removesuffix(b"}") + b',\n"samples":[')
        for number, row in enumerate(row for batch in rows(run) for row in batch):
            file.write((b",\n" if number else b"\n") + _dump(_sample(row, _model(run), targets)))
        file.write(b"\n]}\n")


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _head(run: Source) -> dict[str, Any]:
    facts = run.facts()
    suite = run.suite
    return {
        "version": VERSION,
        "status": "cancelled" if facts["missing"] else "success",
        "eval": {
            "run_id": digest(facts).removeprefix("sha256:")[:22],
            "created": run.header.started,
            "task": TASK,
            "task_id": f"{TASK}@{suite.name}",
            "task_version": suite.version,
            "dataset": {"name": suite.name, "samples": facts["planned"] - facts["missing"], "shuffled": False},
            "model": _model(run),
            "config": {"epochs": 1},
            "packages": {"usersim-guard": __version__},
            "metadata": facts,
        },
        "plan": {"name": "simulated user", "steps": [{"solver": _simulator(run)["variant"], "params": {}}]},
        "results": _results(run.scorecard.kinds, facts),
        "stats": {
            "started_at": run.header.started,
            "completed_at": "",
            "model_usage": {},
            "role_usage": {role: _usage(usage) for role, usage in run.scorecard.usage.items()},
        },
    }


def _simulator(run: Source) -> Mapping[str, Any]:
    found: Mapping[str, Any] = run.header.identities["simulator"]
    return found


def _model(run: Source) -> str:
    """The backbone; of a control, which has none, its name."""
    return str(_simulator(run).get("model") or _simulator(run)["variant"])


def _results(kinds: Mapping[Kind, KindScore], facts: Mapping[str, Any]) -> dict[str, Any]:
    done = facts["planned"] - facts["missing"]
    scores = [_score_of(kind, score) for kind, score in kinds.items() if score.total.rows]
    return {"total_samples": facts["planned"], "completed_samples": done, "scores": scores}


def _score_of(kind: Kind, score: KindScore) -> dict[str, Any]:
    """Counts and rate of a kind; rows without a verdict or a line are not accepted in `accepted`: the worst case."""
    cell = score.total
    figures = {
        "accepted": score.rate,
        "interval_lower": score.gate.interval.lower,
        "interval_upper": score.gate.interval.upper,
        "floor": DEFAULT.floors[kind],
    }
    return {
        "name": kind,
        "scorer": SCORER,
        "scored_samples": cell.rows - cell.open,
        "unscored_samples": cell.open - score.missing,
        "params": {},
        "metrics": {name: {"name": name, "value": value, "params": {}} for name, value in figures.items()},
        "metadata": {"rows": cell.rows, "missing": score.missing, "confidence": DEFAULT.confidence},
    }


def _usage(usage: Usage) -> dict[str, int]:
    """Prompt tokens in full: how many of them a server had in its prefix cache is not taken off."""
    spent = usage.prompt_tokens + usage.completion_tokens
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens, "total_tokens": spent}


def _sample(row: ExportRow, model: str, targets: Mapping[QuestionKey, str]) -> dict[str, Any]:
    key = QuestionKey(row.instance_id, row.question_id, row.style, row.kind)
    said = {"role": "assistant", "content": row.reply, "source": "generate", "model": model}
    messages: list[dict[str, Any]] = [{"role": "user", "content": row.question, "source": "input"}]
    output: dict[str, Any] = {"model": model, "choices": [], "completion": ""}
    if row.reply is None:
        output["error"] = f"no reply: {row.failure}"
    else:
        messages.append(said)
        output |= {"choices": [{"message": said, "stop_reason": "unknown"}], "completion": row.reply}
    return {
        "id": "/".join((row.instance_id, row.question_id, row.style, row.kind)),  # none of them can hold a slash
        "epoch": 1,
        "input": row.question,
        "target": targets.get(key, ""),
        "messages": messages,
        "output": output,
        "scores": dict(_scores(row)),
        "metadata": {name: value for name, value in asdict(row).items() if name not in _SHOWN_ELSEWHERE},
    }


def _scores(row: ExportRow) -> Iterator[tuple[str, dict[str, Any]]]:
    if row.accepted is None:
        return
    found = {"rating": row.rating, "failure": row.failure, "evidence_kinds": row.evidence_kinds}
    yield row.kind, {"value": int(row.accepted), "answer": row.rating, "explanation": row.reason, "metadata": found}


def _target(reference: Reference | None) -> str:
    match reference:
        case AmbReference(answer=answer) | LocReference(answer=answer):
            return answer
        case UnaReference(asks_for=asks_for):
            return f"a refusal; asks for {asks_for}"
        case None:
            return ""
