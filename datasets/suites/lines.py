"""Suites: reads JSONL line by line without trust. A bad line is a value with its place; the lines after it are read."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from suites.errors import SuiteError

MAX_LINE = 8 * 2**20
MAX_FILE = 512 * 2**20
"""Bytes. The official task files with gold are far below: some ten megabytes, some hundred kilobytes a line."""

M = TypeVar("M", bound=BaseModel)

Faults = Callable[[SuiteError], None]
"""What is done with a line that does not fit: an import collects it, loading raises it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it stands in the file (without its end), and the object that it holds; `number` counts from 1."""

    number: int
    text: str
    row: dict[str, Any]


def stop(fault: SuiteError) -> None:
    """The strict way: the first fault is raised."""
    raise fault


def open_file(path: Path) -> BufferedReader:
    """Open a regular file of bounded size.

    Raises:
        SuiteError: it cannot be read, is something else than a file, or is too large.
    """
    # a pipe would block when it is opened, so that this is asked before
    if path.exists() and not path.is_file():
        raise SuiteError(path, "expected a file")
    try:
        file = path.open("rb")
    except OSError as error:
        raise SuiteError(path, f"cannot be read: {error.strerror}") from None
    if path.stat().st_size > MAX_FILE:
        file.close()
        raise SuiteError(path, f"larger than {MAX_FILE // 2**20} MiB; expected a file of the official downloads")
    return file


def lines(path: Path) -> Iterator[Line | SuiteError]:
    """Each line as an object, or as the fault that it has.

    Raises:
        SuiteError: the file as a whole cannot be read.
    """
    with open_file(path) as file:
        number = 0
        while raw := file.readline(MAX_LINE + 1):
            number += 1
            if len(raw) > MAX_LINE:
                _skip(file, raw)
                yield SuiteError(path, f"longer than {MAX_LINE // 2**20} MiB", line=number)
                continue
            yield _line(path, number, raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw)


def _skip(file: BufferedReader, raw: bytes) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = file.readline(MAX_LINE)


def _line(path: Path, number: int, raw: bytes) -> Line | SuiteError:
    try:
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        return SuiteError(path, f"not UTF-8 at byte {error.start} of the line", line=number)
    if not text.strip():
        return SuiteError(path, "blank line; expected one JSON object a line", line=number)
    try:
        row = parse(text)
    except ValueError as error:
        return SuiteError(path, str(error), line=number)
    if not isinstance(row, dict):
        return SuiteError(path, "expected a JSON object", line=number)
    return Line(number, text, row)


def parse(text: str) -> Any:
    """Parse JSON strictly: no name twice in an object, no number that is not finite.

    Raises:
        ValueError: with what is wrong, in words.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        hint = "; in JSON a backslash is doubled: \\\\text, not \\text" if "escape" in error.msg else ""
        at = f"line {error.lineno}, character {error.colno}" if "\n" in text else f"character {error.colno}"
        raise ValueError(f"not JSON at {at} ({error.msg.lower()}){hint}") from None
    except RecursionError:
        raise ValueError("nested too deep; expected an object of the official format") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {name!r} stands twice in one object; expected it once")
        found[name] = value
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number that JSON knows; expected a finite one")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text[:20])


def rows(path: Path, model: type[M], faults: Faults) -> Iterator[tuple[Line, M]]:
    """The lines that fit the model; the others go to `faults`, without their values (they can be gold).

    Raises:
        SuiteError: the file as a whole cannot be read.
    """
    for line in lines(path):
        if isinstance(line, SuiteError):
            faults(line)
            continue
        try:
            # from the text, not from the object: this reads names of enumerations, and refuses half a surrogate pair
            row = model.model_validate_json(line.text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or None
            said = first["msg"].removeprefix("Value error, ")
            problem = "missing; expected this field" if first["type"] == "missing" else said
            faults(SuiteError(path, problem, line=line.number, field=field))
            continue
        yield line, row
