"""Suites: the manifest. It pins every data file by digest, states counts and licence, and where an import came from."""

import hashlib
import json
import os
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suites.errors import SuiteError
from suites.questions import Question
from suites.tasks import Task

FILE = "manifest.toml"
FORMAT = "usersim-guard/suite/1"
OFFICIAL_FORMAT = "usersim-guard/official-suite/1"
OFFICIAL_NAME = "official"
"""The name of every imported suite, and of no other: certificates are told apart by it."""
_TEXTS = ("format", "name", "version", "licence")
_TABLES = {FORMAT: ("files", "counts"), OFFICIAL_FORMAT: ("files", "counts", "sources", "dropped")}


@dataclass(frozen=True, slots=True)
class Source:
    """Where one part of an imported suite came from.

    Attributes:
        origin: as the user gave it: a path, or `hub:OWNER/NAME@REVISION`.
        revision: the commit of a hub source; empty for files.
        files: name -> SHA-256 of each file that was read.
    """

    origin: str
    revision: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """`files`: relative name -> SHA-256 of the content; `counts`: what the suite holds.

    Attributes:
        sources: by part (questions, tasks, gold); empty for suites that were not imported.
        dropped: by file, the number of lines and entries that did not fit and were left out of an import.
    """

    name: str
    version: str
    licence: str
    files: Mapping[str, str]
    counts: Mapping[str, int]
    format: str = FORMAT
    sources: Mapping[str, Source] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def official(self) -> bool:
        """Whether the suite was imported from the official downloads."""
        return self.format == OFFICIAL_FORMAT

    @staticmethod
    def digests(root: Path) -> dict[str, str]:
        """SHA-256 of every data file below `root`, by relative name; hidden files do not count."""
        files = sorted(p for p in root.rglob("*") if p.is_file() and p.name != FILE and not p.name.startswith("."))
        return {p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    @staticmethod
    def digest_files(root: Path) -> str:
        """One digest over names and contents: the identity of the suite."""
        text = json.dumps(Manifest.digests(root), sort_keys=True)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def verify(self, root: Path) -> None:
        """Raise for the first file that is missing, extra or changed."""
        actual = self.digests(root)
        for name in sorted(self.files.keys() | actual.keys()):
            if name not in actual:
                raise SuiteError(root / name, "named in the manifest, but missing")
            if name not in self.files:
                raise SuiteError(root / name, f"not named in {FILE}; remove it, or run `usersim-guard data seal`")
            if actual[name] != self.files[name]:
                problem = f"differs from {FILE}; restore it, or after a deliberate change run `usersim-guard data seal`"
                raise SuiteError(root / name, problem)

    def verify_counts(self, root: Path, tasks: Sequence[Task], questions: Sequence[Question]) -> None:
        """Raise when a stated count is not the counted one."""
        counted = count(tasks, questions)
        if dict(self.counts) != counted:
            raise SuiteError(root / FILE, f"states {dict(self.counts)}, counted {counted}", field="counts")


def count(tasks: Sequence[Task], questions: Sequence[Question]) -> dict[str, int]:
    """Databases, tasks, Management tasks and questions per kind, counted from the data."""
    kinds = Counter(f"questions_{question.kind.lower()}" for question in questions)
    return {
        "databases": len({task.brief.database for task in tasks} | {question.database for question in questions}),
        "tasks": len(tasks),
        "tasks_management": sum(task.oracle.first.category == "Management" for task in tasks),
        **dict(sorted(kinds.items())),
    }


def read_manifest(root: Path) -> Manifest:
    """Read `manifest.toml`, strictly."""
    path = root / FILE
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteError(path, f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SuiteError(path, f"not TOML: {error}") from None
    for key in _TEXTS:
        if not isinstance(raw.get(key), str):
            raise SuiteError(path, "expected text", field=key)
    if raw["format"] not in _TABLES:
        raise SuiteError(path, f"expected {' or '.join(map(repr, _TABLES))}", field="format")
    tables = _TABLES[raw["format"]]
    unknown = raw.keys() - {*_TEXTS, *tables}
    if unknown:
        raise SuiteError(path, f"unknown fields {sorted(unknown)}")
    if (raw["name"] == OFFICIAL_NAME) is not (raw["format"] == OFFICIAL_FORMAT):
        problem = (
            f"the name {OFFICIAL_NAME!r} belongs to suites that `usersim-guard data import` wrote, and to no other"
        )
        raise SuiteError(path, problem, field="name")
    return Manifest(
        name=raw["name"],
        version=raw["version"],
        licence=raw["licence"],
        files=_table(path, raw, "files", str),
        counts=_table(path, raw, "counts", int),
        format=raw["format"],
        sources=_sources(path, raw) if "sources" in tables else {},
        dropped=_table(path, raw, "dropped", int) if "dropped" in tables else {},
    )


def _table(path: Path, raw: Mapping[str, Any], key: str, kind: type) -> dict[str, Any]:
    table = raw.get(key)
    if not isinstance(table, dict) or not all(isinstance(value, kind) for value in table.values()):
        raise SuiteError(path, f"expected a table of {kind.__name__}", field=key)
    return table


def _sources(path: Path, raw: Mapping[str, Any]) -> dict[str, Source]:
    found = {}
    for part, source in _table(path, raw, "sources", dict).items():
        if source.keys() != {"origin", "revision", "files"}:
            raise SuiteError(path, "expected origin, revision and files", field=f"sources.{part}")
        texts = {key: source[key] for key in ("origin", "revision")}
        if not all(isinstance(text, str) for text in texts.values()):
            raise SuiteError(path, "expected texts origin and revision", field=f"sources.{part}")
        found[part] = Source(**texts, files=_table(path, source, "files", str))
    return found


def write_manifest(root: Path, manifest: Manifest, tasks: Sequence[Task], questions: Sequence[Question]) -> None:
    """Rewrite `manifest.toml` from what lies in the folder (atomically). That of an import is its owner's alone."""
    draft = root / f".{FILE}.new"
    draft.unlink(missing_ok=True)
    mode = 0o600 if manifest.official else 0o666
    with open(draft, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write("\n".join(_text_lines(root, manifest, count(tasks, questions))) + "\n")
    draft.replace(root / FILE)


def _text_lines(root: Path, manifest: Manifest, counts: Mapping[str, int]) -> Iterator[str]:
    head = {"format": manifest.format, "name": manifest.name, "version": manifest.version, "licence": manifest.licence}
    yield from (f"{key} = {_text(value)}" for key, value in head.items())
    for part, source in manifest.sources.items():
        yield from ("", f"[sources.{part}]", f"origin = {_text(source.origin)}", f"revision = {_text(source.revision)}")
        yield from _pairs(f"sources.{part}.files", source.files)
    yield from ("", "[counts]", *(f"{key} = {value}" for key, value in counts.items()))
    if manifest.official:
        yield from _pairs("dropped", manifest.dropped)
    yield from _pairs("files", Manifest.digests(root))


def _pairs(table: str, pairs: Mapping[str, str | int]) -> Iterator[str]:
    yield from ("", f"[{table}]")
    yield from (f"{_text(key)} = {value if isinstance(value, int) else _text(value)}" for key, value in pairs.items())


def _text(value: str) -> str:
    # a JSON text is a TOML text, but for half surrogates (written as escapes) and for DEL
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
