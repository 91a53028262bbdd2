"""Guard: what the command line prints. Tables on stdout, progress on stderr; model text is never read as markup."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from guard.exit_codes import ExitCode
from guard.forecast import Forecast
from guard.ledger import ScoredItem
from guard.policy import DEFAULT
from guard.runs import Counted, RunFolder, Watch
from guard.scorecard import KindScore
from guard.scoring import Plan
from guard.statistics import Interval
from judge.rubric import MENU
from suites.questions import Kind

console = Console(stderr=True)
out = Console()
SAY_EVERY_S = 15.0
PLAIN: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "title_justify": "left"}
"""How every table looks: narrow enough for 80 columns."""


@contextmanager
def watching(*, resume: bool = False) -> Iterator[Watch]:
    """A progress bar on stderr with counts of what went wrong; a line now and then where stderr is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    live = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not live) as bar:

        def started(work: Plan, before: int) -> Callable[[ScoredItem], None]:
            total = len(work.questions)
            task = bar.add_task("scoring", total=total, completed=before)
            lost, done, said = {"failed": 0, "unjudged": 0}, before, time.monotonic()

            def scored(item: ScoredItem) -> None:
                nonlocal done, said
                lost["failed"] += item.failure is not None
                lost["unjudged"] += item.unjudged is not None
                done += item.attempt == 1
                notes = ", ".join(f"{count} {name}" for name, count in lost.items() if count)
                says = f"scoring ({notes})" if notes else "scoring"
                bar.update(task, completed=done, description=says)
                if not live and time.monotonic() - said > SAY_EVERY_S:
                    said = time.monotonic()
                    console.print(f"{says}: {done} of {total}", highlight=False)

            return scored

        yield Watch(started, resume)


def percent(share: float | None) -> str:
    """`93.6 %`, or a dash."""
    return "–" if share is None else f"{100 * share:.1f} %"


def bounds(interval: Interval) -> str:
    """`[91.5, 95.2]` in percent."""
    return f"[{100 * interval.lower:.1f}, {100 * interval.upper:.1f}]"


def judge_line(counted: Counted) -> str:
    """The first line of every table and report: who judged."""
    judge = counted.header.identities["judge"]
    if counted.header.judge_class == "rule":
        return "Judge: the rule judge (no language model); any certificate is provisional."
    return f"Judge: {judge['model']}, rubric {judge['rubric']}."


def show_scorecard(counted: Counted, folder: RunFolder, *, as_json: bool) -> ExitCode:
    """Print a scorecard; INCOMPLETE when rows are missing, unjudged or without a reply."""
    if as_json:
        out.print_json(json.dumps(counted.scorecard.to_json() | {"cost_usd": counted.cost_usd}))
    else:
        out.print(judge_line(counted), markup=False, highlight=False)
        out.print(scorecard_table(counted))
        _show_stage_1(counted)
        if counted.cost_usd is not None:
            out.print(f"Cost so far: {counted.cost_usd:.4f} US dollars.", highlight=False)
        if counted.header.partial:
            out.print("Partial run: it never certifies.", markup=False)
        out.print(f"Run folder: {folder.root}", markup=False, highlight=False, soft_wrap=True)
    lost = any(k.total.open or k.total.failed for k in counted.scorecard.kinds.values())
    return ExitCode.INCOMPLETE if lost else ExitCode.OK


def show_forecast(forecast: Forecast, *, as_json: bool) -> None:
    """Print what a run will take."""
    if as_json:
        out.print_json(json.dumps(forecast.to_json()))
        return
    out.print(f"{forecast.questions} questions to do; nothing was sent.", highlight=False)
    for role, part in forecast.roles.items():
        usd = "" if part.usd is None else f", {part.usd:.2f} US dollars (at most {part.most_usd:.2f})"
        out.print(
            f"{role}, {part.model}: {part.calls:,} calls, {part.prompt_tokens:,} prompt tokens, "
            f"{part.completion_tokens:,} completion tokens (at most {part.most_completion_tokens:,}){usd}.",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    for latency, seconds in forecast.seconds.items():
        out.print(f"About {timedelta(seconds=round(seconds))} at {latency:g} s an answer.", highlight=False)
    if forecast.roles:
        says = "Tokens are estimated: 4 bytes a token, 150 tokens a completion, without hidden reasoning and retries."
        out.print(says, highlight=False, soft_wrap=True)
    else:
        out.print("No model of ours is asked.")


def scorecard_table(counted: Counted) -> Table:
    """Rates and intervals per kind against the floors. `open`: no verdict; `leaks`: replies that disclose something."""
    simulator = counted.header.identities["simulator"]
    table = Table(title=f"{simulator['variant']} {simulator.get('model') or ''}".strip(), **PLAIN)
    for name in ("kind", "n", "A/B/C", "failed", "open", "leaks", "rate", "95 % interval", "floor"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for kind, score in counted.scorecard.kinds.items():
        ratings = "/".join(str(score.ratings.get(rating, 0)) for rating in MENU[kind])
        table.add_row(
            kind,
            str(score.total.rows),
            ratings,
            str(score.total.failed),
            str(score.total.open),
            str(score.evidence["any"]),
            percent(score.rate),
            bounds(score.gate.interval),
            f"{DEFAULT.floors[kind]:.0%}",
        )
    return table


def _show_stage_1(counted: Counted) -> None:
    """Confusion matrix of stage 1 and how often it named the right ambiguity or fragment."""
    scores = counted.scorecard.kinds
    if not any(set(score.chosen) & set(Kind) for score in scores.values()):
        return
    choices = [*Kind, *sorted({name for score in scores.values() for name in score.chosen} - set(Kind))]
    table = Table(title="Stage 1: label (rows) against choice (columns)", **PLAIN)
    table.add_column("label")
    for name in (*choices, "right target"):
        table.add_column(name, justify="right")
    for kind, score in scores.items():
        table.add_row(kind, *(str(score.chosen.get(name, 0)) for name in choices), _target(score))
    out.print(table)


def _target(score: KindScore) -> str:
    hits, rows = score.targets
    return f"{hits} of {rows}" if rows else "–"


def show_decision(document: Mapping[str, Any], folder: RunFolder, *, as_json: bool) -> ExitCode:
    """Print a certificate or refusal."""
    if as_json:
        out.print_json(json.dumps(document))
    else:
        for line in decision_lines(document):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        out.print(f"Written to {folder.certificate}", markup=False, highlight=False, soft_wrap=True)
    codes = {"pass": ExitCode.OK, "fail": ExitCode.REFUSED_FAIL, "not_decided": ExitCode.REFUSED_NOT_DECIDED}
    return codes[document["decision"]]


def decision_lines(document: Mapping[str, Any]) -> list[str]:
    """A certificate or refusal in words, its class first."""
    names = {"pass": "CERTIFIED", "fail": "REFUSED (fails)", "not_decided": "REFUSED (not decided)"}
    lines = [f"{names[document['decision']]}, class {document['class']}"]
    if document["kind"] == "certificate":
        lines += [f"  provisional because {reason['code']}: {reason['says']}" for reason in document["class_reasons"]]
    for kind, part in document["kinds"].items():
        rates = (
            f"{percent(part['rate'])} of {part['rows']}, 95 % interval [{', '.join(map(percent, part['interval']))}]"
        )
        published = "meets" if part["published_rule"] else "misses"
        floor = percent(part["floor"])
        lines.append(f"  {kind}: {part['verdict']}: {rates}, floor {floor} (point rate {published} it)")
    for reason in document["reasons"]:
        lines.append("  " + f"{reason['kind'] or ''} {reason['code']}: {reason['detail']}".strip())
    mends = dict.fromkeys((reason["code"], reason["mend"]) for reason in document["reasons"])
    return lines + [f"  To do ({code}): {mend}" for code, mend in mends]
