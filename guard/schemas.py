"""Guard: JSON schemas of what this tool reads and writes, made from the very types that read and write it.

A schema carries its format's version in its `$id`, `usersim-guard/NAME/VERSION`: another shape needs another version.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from pydantic import TypeAdapter

from benchmark_core.errors import InputError
from guard import document, export, grades, ledger, predictions, scorecard
from judge import calibration
from simulators.remote_wire import REMOTE_FORMAT, RemoteRequest, RemoteResponse
from simulators.replies import ReplyRow
from suites import manifest, rows

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Shape:
    """A format, or a part of one.

    Attributes:
        what: which file or line it describes, for people.
        type: what pydantic reads it with, or the dataclass that is written.
        format: `usersim-guard/…/VERSION`, as files name it; the version goes into the `$id`.
        mark: the field that holds `format` in a file, where the type says no more than text; else None.
        mode: `serialization` for what is only written.
    """

    what: str
    type: Any
    format: str
    mark: str | None = None
    mode: Literal["validation", "serialization"] = "validation"


SCHEMAS: Mapping[str, Shape] = MappingProxyType(
    {
        "ledger-header": Shape("first line of ledger.jsonl", ledger.Header, ledger.FORMAT, mark="format"),
        "ledger-item": Shape("every other line of ledger.jsonl", ledger.ScoredItem, ledger.FORMAT),
        "scorecard": Shape("scorecard.json", scorecard.Scorecard, scorecard.SCHEMA, "schema", "serialization"),
        "certificate": Shape("certificate.json, of a refusal too", document.Document, document.FORMAT),
        "calibration": Shape("--calibration of a judge", calibration.CalibrationFile, calibration.FORMAT),
        "task": Shape("a line of a suite's bird_interact_data.jsonl", rows.TaskRow, manifest.FORMAT),
        "question-amb": Shape("a line of a suite's data_labeled.jsonl", rows.AmbQuestionRow, manifest.FORMAT),
        "question-loc": Shape("a line of a suite's data_unlabeled.jsonl", rows.LocQuestionRow, manifest.FORMAT),
        "question-una": Shape("a line of a suite's data_unanswerable.jsonl", rows.UnaQuestionRow, manifest.FORMAT),
        "knowledge": Shape("a line of a suite's DATABASE_kb.jsonl", rows.KnowledgeRow, manifest.FORMAT),
        "reply": Shape("a line of --replies", ReplyRow, "usersim-guard/replies/1"),
        "remote-request": Shape("body of POST /answer", RemoteRequest, REMOTE_FORMAT),
        "remote-response": Shape("answer to POST /answer", RemoteResponse, REMOTE_FORMAT),
        "submission": Shape("a line of submissions for `grade`", predictions.SubmissionRow, predictions.FORMAT),
        "grade": Shape("every line but the first of `grade --out`", grades.GradedItem, grades.FORMAT),
        "export-row": Shape("a row of `export`", export.ExportRow, export.FORMAT, mode="serialization"),
    }
)
"""Every schema by its name."""


def identifier(name: str) -> str:
    """The `$id` of a schema.

    Raises:
        InputError: there is none of this name.
    """
    return f"usersim-guard/{name}/{_shape(name).format.rsplit('/', 1)[1]}"


def json_schema(name: str) -> dict[str, Any]:
    """A schema, JSON-able.

    Raises:
        InputError: there is none of this name.
    """
    shape = _shape(name)
    made = TypeAdapter(shape.type).json_schema(mode=shape.mode)
    if shape.mark is not None:
        made["properties"] |= {shape.mark: {"const": shape.format, "type": "string"}}
        made["required"] = sorted({*made["required"], shape.mark})
    return {"$schema": DIALECT, "$id": identifier(name), **made}


def _shape(name: str) -> Shape:
    if name not in SCHEMAS:
        near = difflib.get_close_matches(name, SCHEMAS, 1)
        hint = f"did you mean {near[0]}?" if near else "`schema --list` names them"
        raise InputError(f"no schema is called {name!r}; {hint}")
    return SCHEMAS[name]
