"""Guard: the file of a certificate or a refusal: its strict shape, its digest, reading and atomic writing."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from benchmark_core.digest import canonical, digest
from benchmark_core.errors import CertificateError
from guard.reasons import Class, ClassCode, Code
from guard.statistics import Verdict
from suites.questions import Kind

FORMAT = "usersim-guard/certificate/1"
SEALS = ("certificate_digest", "signature")  # what the digest cannot cover
MAX_BYTES = 4 << 20


def _aware(value: str) -> str:
    if datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("expected a time with its zone")
    return value


Count = Annotated[int, Field(ge=0)]
Counts = dict[str, Count]
Share = Annotated[float, Field(ge=0, le=1)]
Bounds = Annotated[list[Share], Field(min_length=2, max_length=2)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Time = Annotated[str, AfterValidator(_aware)]


def _all_kinds(value: dict[Kind, Any]) -> dict[Kind, Any]:
    if set(value) != set(Kind):
        raise ValueError(f"expected {', '.join(Kind)}")
    return value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class KindPart(_Part):
    """One kind: counts of rows, rates, intervals as [lower, upper]. Names as in `KindScore` and `KindDecision`."""

    verdict: Verdict
    floor: Share
    rate: Share | None
    best_rate: Share | None
    interval: Bounds
    corrected: float | None
    n_eff: float | None
    published_rule: bool
    rows: Count
    accepted: Count
    rejected: Count
    failed: Count
    missing: Count
    retried: Count
    tasks: Count
    ratings: Counts
    unjudged: Counts
    failures: Counts
    plain: Bounds
    by_database: Bounds
    whole_tasks: Bounds
    chosen: Counts
    targets: Annotated[list[Count], Field(min_length=2, max_length=2)]
    evidence: Counts


class ReasonPart(_Part):
    code: Code
    kind: Kind | None
    detail: str
    mend: str


class ClassReasonPart(_Part):
    code: ClassCode
    says: str


class UsagePart(_Part):
    """Calls of one role; `models` are names and fingerprints as the servers gave them."""

    calls: Count
    cached: Count
    requests: Count
    prompt_tokens: Count
    completion_tokens: Count
    uncounted: Count
    models: Counts


class Document(_Part):
    """A sealed decision. `expires` is None for a refusal, `calibration` among the digests for an uncalibrated judge."""

    certificate_class: Annotated[Class, Field(alias="class")]
    class_reasons: list[ClassReasonPart]
    format: Literal["usersim-guard/certificate/1"]
    kind: Literal["certificate", "refusal"]
    decision: Verdict
    reasons: list[ReasonPart]
    kinds: Annotated[dict[Kind, KindPart], AfterValidator(_all_kinds)]
    digests: dict[str, Digest | None]
    identities: dict[str, Any]
    judge_class: str
    policy: dict[str, Any]
    excluded_tasks: list[str]
    usage: dict[str, UsagePart]
    attempt: Annotated[int, Field(ge=1)]
    started: str
    issued: Time
    expires: Time | None
    issuer: str
    certificate_digest: Digest
    signature: str | None


def parse(document: Mapping[str, Any]) -> Document:
    """Check the shape. Raises `CertificateError` with the field at fault."""
    try:
        return Document.model_validate_json(canonical(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CertificateError(f"field '{field}': {first['msg']}; expected the format {FORMAT}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise CertificateError(f"holds what JSON cannot: {error}") from None


def document_digest(document: Mapping[str, Any]) -> str:
    """`sha256:…` over every field but the digest itself and the signature."""
    return digest({name: value for name, value in document.items() if name not in SEALS})


def write(document: Mapping[str, Any], path: Path) -> None:
    """Write a document; a reader sees the old file or the whole new one."""
    draft = path.with_name(f".{path.name}.new")
    with draft.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read(path: Path) -> dict[str, Any]:
    """Read a document; its shape is `verify`'s business. Raises `CertificateError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        document = json.loads(data) if len(data) <= MAX_BYTES else None
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CertificateError(f"{path}: not JSON") from None
    if not isinstance(document, dict):
        raise CertificateError(f"{path}: expected one JSON object of at most {MAX_BYTES} bytes")
    return document


def differences(found: Any, wanted: Any, place: str = "") -> Iterator[str]:
    """What differs between two JSON values, by place. Last bits of floats vary between machines and do not count."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in sorted(found.keys() | wanted.keys()):
            yield from differences(found.get(name), wanted.get(name), f"{place}.{name}" if place else name)
    elif isinstance(found, float) and isinstance(wanted, float):
        if not math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9):
            yield f"{place}: {found} in the document, {wanted} counted"
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for index, pair in enumerate(zip(found, wanted, strict=True)):
            yield from differences(*pair, f"{place}.{index}")
    elif found != wanted:
        yield f"{place}: {found!r} in the document, {wanted!r} counted"
