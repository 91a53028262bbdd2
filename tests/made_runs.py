"""Tests: run folders made to measure: a real ledger on disk of a suite's whole plan, or of a part of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark_core.digest import digest
from guard.ledger import Header, ScoredItem
from guard.ledger_writer import Ledger
from guard.runs import RunFolder
from guard.scoring import Scope, plan
from judge.rubric import Rating
from suites.load import Suite
from suites.questions import Kind, Question

RULE = {"kind": "rule", "rubric": "reference"}
LLM = {"kind": "llm", "model": "judge-1", "rubric": "reference"}
BAD = {Kind.AMB: Rating.C, Kind.LOC: Rating.C, Kind.UNA: Rating.B}
WHOLE = Scope()
Outcome = Callable[[int, Question], ScoredItem | None]


def good(question: Question) -> ScoredItem:
    return ScoredItem(question.key, question.database, reply="SECRET reply", rating=Rating.A, reason="SECRET reason")


def bad(question: Question) -> ScoredItem:
    return replace(good(question), rating=BAD[question.kind])


def every(step: int, *kinds: Kind) -> Outcome:
    """One row in `step` is bad, of these kinds; of all when none is named."""
    return lambda at, question: (bad if at % step == 0 and question.kind in (kinds or Kind) else good)(question)


def simulator(variant: str = "baseline", model: str | None = "sim-1", **more: Any) -> dict[str, Any]:
    """An identity; without a model, that of a control."""
    if model is None:
        return {"variant": variant, "control": True}
    return {"variant": variant, "model": model, "revision": None, "decoding": {"temperature": 0.0}, **more}


def write_run(
    root: Path,
    suite: Suite,
    outcome: Outcome = lambda _, question: good(question),
    *,
    of: dict[str, Any] | None = None,
    judge: dict[str, Any] = RULE,
    scope: Scope = WHOLE,
    **changes: Any,
) -> RunFolder:
    """Write the ledger of a run; `outcome` is given each question's place within its kind, and None leaves it out."""
    work = plan(suite, scope)
    identities = {
        "simulator": of or simulator(),
        "judge": judge,
        "suite": {"name": suite.name, "version": suite.version, "digest": suite.digest},
        "plan": work.identity(),
    }
    header = Header(
        digests={name: digest(identity) for name, identity in identities.items()},
        identities=identities,
        planned=len(work.questions),
        partial=work.partial,
        judge_class=judge["kind"],
        suite_counts={kind: sum(q.kind is kind for q in suite.questions) for kind in Kind},
        started="2026-12-01T10:00:00+00:00",
        excluded_tasks=scope.excluded_tasks,
    )
    folder = RunFolder(root)
    with Ledger.open(folder.ledger, replace(header, **changes), resume=False) as ledger:
        for kind in Kind:
            for at, question in enumerate(q for q in work.questions if q.kind is kind):
                if item := outcome(at, question):
                    ledger.append(item)
    return folder
