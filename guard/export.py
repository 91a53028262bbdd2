"""Guard: a run as rows for other tools, one a question, and the safe writing of what they become.

Rows are public by default: of a suite that is not the open one they hold no text of the oracle (see `guard.worst`).
"""

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from pydantic import ConfigDict

from benchmark_core.digest import canonical
from benchmark_core.errors import InputError, LedgerError, SimulatorFailure
from guard import __version__
from guard.excerpts import Piece, Role, plain
from guard.ledger import Call, Header, ScoredItem, final, read_header, stream
from guard.report import is_open
from guard.runs import RunFolder
from guard.scorecard import Scorecard, expected_keys, tally
from guard.scoring import plan_of
from guard.worst import Showing
from judge.rubric import Rating, accepted
from judge.verdict import EvidenceKind, UnjudgedCause
from suites.load import Suite
from suites.questions import Kind, QuestionKey, Style

FORMAT = "usersim-guard/export/1"
BATCH = 1000  # rows held in memory at a time
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class ExportRow:
    """The last attempt at one question. Exactly one of `rating`, `unjudged`, `failure` is set.

    Attributes:
        reply: None where there was none. In a public row what may be gold is replaced by `[withheld]`.
        accepted: None without a verdict; False without a reply.
        target_hit: whether stage 1 named the right ambiguity or fragment; None where that cannot be asked.
        reason: the judge's, or the detail of a failure; None in public rows.
        evidence_kinds: what kinds of thing the reply disclosed, one for each finding.
        evidence_texts: the disclosed texts in the same order; None in public rows.
        attempts: how often the question was tried; what follows is of the last attempt alone.
        calls: model calls of simulator and judge, `cached_calls` of them answered from the run's own completions.
        prompt_tokens: None where a call did not tell; `completion_tokens` alike.
        latency_s: seconds, summed over calls.
        models: the names that servers gave, sorted.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    instance_id: str
    database: str
    question_id: str
    style: Style
    kind: Kind
    question: str
    reply: str | None
    rating: Rating | None
    accepted: bool | None
    unjudged: UnjudgedCause | None
    failure: SimulatorFailure | None
    action_kind: Kind | None
    target_hit: bool | None
    reason: str | None
    confidence: float | None
    evidence_kinds: tuple[EvidenceKind, ...]
    evidence_texts: tuple[str, ...] | None
    attempts: int
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_calls: int
    latency_s: float
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A run to be exported. `gold`: whether rows may hold texts of the oracle."""

    suite: Suite
    header: Header
    ledger: Path
    scorecard: Scorecard
    gold: bool

    def facts(self) -> dict[str, Any]:
        """What the rows are of, JSON-able: format, digests, identities; no text of a row."""
        about = self.header
        return {
            "format": FORMAT,
            "tool": f"usersim-guard {__version__}",
            "texts": "whole" if self.gold else "withheld",
            "started": about.started,
            "judge_class": about.judge_class,
            "partial": about.partial,
            "planned": about.planned,
            "missing": sum(score.missing for score in self.scorecard.kinds.values()),
            "suite_counts": dict(about.suite_counts),
            "excluded_tasks": list(about.excluded_tasks),
            "digests": {**about.digests, "scorecard": self.scorecard.digest},
            "identities": dict(about.identities),
        }


def source(suite: Suite, folder: RunFolder, *, private: bool) -> Source:
    """Read a run and count it, which proves that every line is of a planned question of this suite.

    Args:
        private: with texts of the oracle, also of a suite that is not the open one.

    Raises:
        LedgerError, InputError: the ledger is damaged, or of another suite.
    """
    header = read_header(folder.ledger)
    scorecard = tally(stream(folder.ledger), header, expected_keys(plan_of(suite, header).questions))
    run = Source(suite, header, folder.ledger, scorecard, gold=private or is_open(suite))
    try:
        canonical(run.facts())
    except ValueError:
        raise LedgerError(f"{folder.ledger}:1: holds a number that is not finite") from None
    return run


def rows(run: Source) -> Iterator[list[ExportRow]]:
    """The rows in the order of the ledger, at most `BATCH` at a time.

    Raises:
        LedgerError: a line cannot be read, or holds a number that is not finite, which JSON could not carry on.
    """
    questions = {question.key: question.text for question in run.suite.questions}
    showing = None if run.gold else Showing(run.suite, gold=False)
    items = final(run.ledger)
    while batch := list(islice(items, BATCH)):
        yield [
            _row(item, reply, questions, gold=run.gold)
            for item, reply in zip(batch, _replies(showing, batch), strict=True)
        ]


@contextmanager
def fresh(out: Path) -> Iterator[Path]:
    """A path beside `out` to write to; what is there in the end takes the name `out`, after an error nothing does.

    Raises:
        InputError: something stands at `out` already, or it cannot be written.
    """
    if os.path.lexists(out):
        raise InputError(f"--out {out}: stands there already, and nothing is overwritten; name another or remove it")
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        draft.rename(out)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror or error}") from None
    finally:
        if draft.is_dir():
            shutil.rmtree(draft)
        elif draft.exists():
            draft.unlink()


def private_file(path: Path) -> IO[bytes]:
    """A new file, readable by its owner alone."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def _replies(showing: Showing | None, batch: list[ScoredItem]) -> list[str | None]:
    """Whole replies where nothing is withheld, else as they are shown."""
    if showing is None:
        return [item.reply for item in batch]
    return [_said(row.reply) for row in showing.rows(batch)]


def _said(reply: tuple[Piece, ...] | None) -> str | None:
    """Pieces as one text; what is withheld, cut or unseen is named in brackets."""
    if reply is None:
        return None
    return "".join(piece.text if piece.role is Role.TEXT else f"[{piece.text}]" for piece in reply)


def _row(item: ScoredItem, reply: str | None, questions: dict[QuestionKey, str], *, gold: bool) -> ExportRow:
    latency = sum((call.latency_s for call in item.calls), 0.0)
    if not (math.isfinite(latency) and math.isfinite(item.confidence or 0)):
        raise LedgerError(f"{item.key}: confidence and seconds are finite numbers")
    return ExportRow(
        instance_id=item.key.instance_id,
        database=item.database,
        question_id=item.key.question_id,
        style=item.key.style,
        kind=item.key.kind,
        question=questions[item.key],
        reply=reply,
        rating=item.rating,
        accepted=_accepted(item),
        unjudged=item.unjudged,
        failure=item.failure,
        action_kind=item.action.kind if item.action else None,
        target_hit=item.target_hit,
        reason=(item.reason or None) if gold else None,
        confidence=item.confidence,
        evidence_kinds=tuple(found.kind for found in item.evidence),
        evidence_texts=tuple(found.text for found in item.evidence) if gold else None,
        attempts=item.attempt,
        calls=len(item.calls),
        prompt_tokens=_sum(call.prompt_tokens for call in item.calls),
        completion_tokens=_sum(call.completion_tokens for call in item.calls),
        cached_calls=sum(call.cached for call in item.calls),
        latency_s=latency,
        models=_models(item.calls),
    )


def _accepted(item: ScoredItem) -> bool | None:
    if item.rating is not None:
        return accepted(item.key.kind, item.rating)
    return None if item.unjudged is not None else False


def _sum(counts: Iterator[int | None]) -> int | None:
    """None as soon as one is not known: a sum of what is known would look like the whole."""
    found = list(counts)
    return None if None in found else sum(count or 0 for count in found)


def _models(calls: tuple[Call, ...]) -> tuple[str, ...]:
    return tuple(sorted({plain(call.model, LONGEST_NAME) for call in calls}))
