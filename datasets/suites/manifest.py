"""Suites: the manifest, which pins every data file by digest and states counts and licence."""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suites.errors import SuiteError
from suites.questions import Question
from suites.tasks import Task

FILE = "manifest.toml"
FORMAT = "usersim-guard/suite/1"
_TEXTS = ("format", "name", "version", "licence")


@dataclass(frozen=True, slots=True)
class Manifest:
    """`files`: relative name -> SHA-256 of the content; `counts`: what the suite holds."""

    name: str
    version: str
    licence: str
    files: Mapping[str, str]
    counts: Mapping[str, int]

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
        "databases": len({task.brief.database for task in tasks}),
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
    if raw["format"] != FORMAT:
        raise SuiteError(path, f"expected {FORMAT!r}", field="format")
    unknown = raw.keys() - {*_TEXTS, "files", "counts"}
    if unknown:
        raise SuiteError(path, f"unknown fields {sorted(unknown)}")
    files, counts = _table(path, raw, "files", str), _table(path, raw, "counts", int)
    return Manifest(raw["name"], raw["version"], raw["licence"], files, counts)


def _table(path: Path, raw: Mapping[str, Any], key: str, kind: type) -> dict[str, Any]:
    table = raw.get(key)
    if not isinstance(table, dict) or not all(isinstance(value, kind) for value in table.values()):
        raise SuiteError(path, f"expected a table of {kind.__name__}", field=key)
    return table


def write_manifest(root: Path, manifest: Manifest, tasks: Sequence[Task], questions: Sequence[Question]) -> None:
    """Rewrite `manifest.toml` from what lies in the folder (atomically)."""
    head = {"format": FORMAT, "name": manifest.name, "version": manifest.version, "licence": manifest.licence}
    lines = [f"{key} = {json.dumps(value)}" for key, value in head.items()]
    lines += ["", "[counts]", *(f"{key} = {value}" for key, value in count(tasks, questions).items())]
    lines += [
        "",
        "[files]",
        *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in Manifest.digests(root).items()),
    ]
    draft = root / f".{FILE}.new"
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.replace(root / FILE)
