"""Guard: reads what a gold audit found, so that ungradable tasks are kept out of a run."""

import json
from pathlib import Path

from benchmark_core.errors import InputError
from suites.load import Suite


def excluded_by(audit: Path | None, suite: Suite) -> tuple[str, ...]:
    """The ungradable tasks that an audit report of this very suite names.

    Raises:
        InputError: it is no audit report, or one of another suite.
    """
    if audit is None:
        return ()
    try:
        found = json.loads(audit.read_text(encoding="utf-8"))
        of_suite, tasks = found["suite"], found["ungradable"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"--audit {audit}: expected the JSON of `audit gold --out` ({error})") from None
    if of_suite != suite.digest:
        raise InputError(f"--audit {audit}: is of another suite; run `audit gold --out` on this one")
    if not isinstance(tasks, list) or not set(map(str, tasks)) <= suite.oracles.keys():
        raise InputError(f"--audit {audit}: field 'ungradable': expected a list of the suite's instance ids")
    return tuple(tasks)
