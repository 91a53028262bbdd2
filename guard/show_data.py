"""Guard: what the `data` commands print. Never a value of gold, never text of questions or tasks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from guard.purge import Doomed
from guard.show import out
from suites.errors import SuiteError, shown
from suites.imports import Imported
from suites.merge import Merged
from suites.suite import Suite
from suites.survey import PUBLIC_COUNTS, Survey

FAULTS_SHOWN = 50
FIELDS_SHOWN = 20


def say(lines: Iterator[str]) -> None:
    """Print lines as they are."""
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def say_json(value: Mapping[str, Any]) -> None:
    """Print JSON."""
    out.print_json(json.dumps(value))


def identity(suite: Suite) -> dict[str, str]:
    """What a suite is."""
    return {"name": suite.name, "version": suite.version, "licence": suite.licence, "digest": suite.digest}


def check_lines(suite: Suite, found: Survey) -> Iterator[str]:
    """A suite in words."""
    yield from (f"{name}: {value}" for name, value in identity(suite).items())
    yield from (f"{name}: {value}" for name, value in found.counts.items())
    if not suite.official:
        return
    yield f"gold: {found.counts['tasks_with_gold']} of {found.counts['tasks']} tasks"
    if found.without_task:
        yield f"questions without a task, the first ids: {', '.join(found.without_task)}"
    for part, source in found.manifest.sources.items():
        revision = f" at revision {source.revision}" if source.revision else ""
        yield f"source of {part}: {shown(source.origin)}{revision}, {len(source.files)} files"
    yield from (f"left out by the import, {shown(name)}: {count}" for name, count in found.manifest.dropped.items())
    yield from _fields("unknown field", found.unknown_fields)
    yield from _fields("absent field", found.absent_fields)
    yield f"published counts, for comparison: {PUBLIC_COUNTS}"
    asked = len({question.key.instance_id for question in suite.questions})
    for part, (tasks, says) in found.missing.items():
        yield f"missing for {tasks} of the {asked} tasks that are asked about: {part}. {says}"


def _fields(what: str, counted: Mapping[str, int]) -> Iterator[str]:
    for number, (name, count) in enumerate(counted.items()):
        if number == FIELDS_SHOWN:
            yield f"… and {len(counted) - number} more {what}s (--json lists all)"
            return
        yield f"{what} {name}: {count} times"


def imported_lines(done: Imported, found: Survey) -> Iterator[str]:
    """An import in words."""
    yield from fault_lines(done.faults, "left out")
    yield from merged_lines(done.merged) if done.merged else ()
    yield from check_lines(done.suite, found)
    yield f"imported to {done.suite.root}"


def fault_lines(faults: Sequence[SuiteError], what: str) -> Iterator[str]:
    """What did not fit, with its place."""
    yield from (f"{what}: {fault}" for fault in faults[:FAULTS_SHOWN])
    if len(faults) > FAULTS_SHOWN:
        yield f"… and {len(faults) - FAULTS_SHOWN} more (--json lists all)"


def merged_lines(merged: Merged) -> Iterator[str]:
    """What a merge matched."""
    yield f"gold rows matched to tasks: {len(merged.matched)}"
    if merged.without_gold:
        yield f"tasks without a gold row ({len(merged.without_gold)}): {', '.join(merged.without_gold)}"
    if merged.without_task:
        yield f"gold rows without a task ({len(merged.without_task)}): {', '.join(merged.without_task)}"


def merge_json(merged: Merged, faults: Sequence[SuiteError], file: Path | None = None) -> dict[str, Any]:
    """A merge, JSON-able."""
    ids = {name: list(getattr(merged, name)) for name in ("matched", "without_gold", "without_task")}
    return {**({"file": str(file)} if file else {}), "tasks": len(merged.lines), **ids, "faults": faults_json(faults)}


def faults_json(faults: Sequence[SuiteError]) -> list[dict[str, Any]]:
    """What did not fit, JSON-able."""
    return [{"file": f.file, "line": f.line, "field": f.field, "problem": f.problem} for f in faults]


def doomed_lines(found: Doomed) -> Iterator[str]:
    """What a purge would remove, and what stays."""
    yield f"{found.root}: {found.content}"
    yield from (f"  remove {shown(str(path.relative_to(found.root)))}" for path in found.remove)
    yield from (f"  keep {shown(str(path.relative_to(found.root)))} (holds no text)" for path in found.kept)
    yield from (f"  leave {shown(str(path.relative_to(found.root)))} (not recognised)" for path in found.unknown)
