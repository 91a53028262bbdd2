"""Suites: makes a sealed suite folder of the user's own official downloads. Keeps what fits, names the rest."""

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from suites.downloads import database_files, question_files, task_file
from suites.errors import SuiteError
from suites.lines import Faults
from suites.load import load
from suites.manifest import OFFICIAL_FORMAT, OFFICIAL_NAME, Manifest, Source, write_manifest
from suites.merge import Merged, merge, read_gold
from suites.official import QUESTION_FILES, TASK_FILE, DatabaseFiles
from suites.official_files import Placed, column_meanings, knowledge_rows, question_rows, read_text, task_rows
from suites.official_rows import OfficialTaskRow
from suites.private import sha256, write_new
from suites.suite import Suite

LICENCE = "CC-BY-SA-4.0 (BIRD-Interact)"
HUB = "hub:"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is imported: each a path, or `hub:OWNER/NAME[@REVISION]`; gold is always a file."""

    questions: str
    tasks: str | None = None
    gold: Path | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The suite as it can be loaded from now on, what was left out, and what the gold matched (None without gold)."""

    suite: Suite
    faults: tuple[SuiteError, ...]
    merged: Merged | None

    @property
    def complete(self) -> bool:
        """Whether everything was taken."""
        return not self.faults and (self.merged is None or not (self.merged.without_gold or self.merged.without_task))


@dataclass(slots=True)
class _Job:
    """One import while it runs: the folder that grows, what did not fit, and where everything came from."""

    place: Path
    faults: list[SuiteError] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    origins: dict[str, tuple[str, str]] = field(default_factory=dict)
    digests: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.place / "suite"

    def into(self, name: str) -> Faults:
        """Where the faults of the suite's file `name` go."""

        def fault(error: SuiteError) -> None:
            self.faults.append(self._placed(error))
            self.dropped[name] += 1

        return fault

    def _placed(self, error: SuiteError) -> SuiteError:
        """A fault of a fetched file is named by its source: the file itself is gone in a moment."""
        for part, (origin, revision) in self.origins.items():
            folder = self.place / part
            if revision and Path(error.file).is_relative_to(folder):
                name = Path(error.file).relative_to(folder)
                return SuiteError(f"{origin}/{name}", error.problem, line=error.line, field=error.field)
        return error

    def fetch(self, part: str, text: str) -> Path:
        """The folder or file that holds a part; a hub source is fetched first."""
        if not text.startswith(HUB):
            self.origins[part] = (os.fsencode(text).decode("utf-8", "replace"), "")
            return Path(text)
        # Hugging Face's library is slow to import, and only hub sources need it
        from suites.hub import HubSource, fetch_questions, fetch_tasks

        fetch = fetch_questions if part == "questions" else fetch_tasks
        fetched = fetch(HubSource.parse(text), self.place / part)
        self.origins[part] = (text, fetched.commit)
        return self.place / part

    def read(self, part: str, name: str, file: Path) -> Path:
        """Note the digest of a file that is read, under the name that it has in the suite."""
        self.digests.setdefault(part, {})[name] = sha256(file)
        return file

    def write(self, name: str, lines: Iterable[str]) -> None:
        (self.root / name).parent.mkdir(mode=0o700, exist_ok=True)
        write_new(self.root / name, lines)

    def manifest(self) -> Manifest:
        """The manifest, counts and digests of files apart. The version tells revisions or contents apart."""
        parts: tuple[str, ...] = ("questions", "tasks", "gold")
        sources = {part: Source(*self.origins[part], self.digests[part]) for part in parts if part in self.origins}
        versions = [f"{part}-{(source.revision or _digest(source.files))[:12]}" for part, source in sources.items()]
        return Manifest(
            name=OFFICIAL_NAME,
            version="+".join(versions),
            licence=LICENCE,
            files={},
            counts={},
            format=OFFICIAL_FORMAT,
            sources=sources,
            dropped=dict(sorted(self.dropped.items())),
        )


def import_official(out: Path, inputs: Inputs) -> Imported:
    """Import into `out`, a new folder of mode 0700 that is there whole or not at all.

    Raises:
        SuiteError: `out` is not new, a file is missing or cannot be read as a whole, or no question fits.
    """
    if inputs.gold is not None and inputs.tasks is None:
        raise SuiteError(inputs.gold, "gold belongs to tasks; give them with --tasks")
    _expect_new(out, [Path(text) for text in (inputs.questions, inputs.tasks) if text and not text.startswith(HUB)])
    with _workplace(out) as place:
        job = _Job(place)
        job.root.mkdir(mode=0o700)
        merged = _take(job, inputs)
        manifest = job.manifest()
        write_manifest(job.root, manifest, (), ())
        suite = load(job.root, verify_manifest=False)
        if not suite.questions:
            reason = job.faults[0] if job.faults else "the files are empty"
            raise SuiteError(inputs.questions, f"no question could be read ({reason})")
        write_manifest(job.root, manifest, suite.tasks, suite.questions)
        job.root.rename(out)
    return Imported(load(out), tuple(job.faults), merged)


def _expect_new(out: Path, sources: Iterable[Path]) -> None:
    if out.is_symlink() or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise SuiteError(out, "exists already; expected a new or an empty folder")
    for source in sources:
        if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
            raise SuiteError(out, f"lies within {source}, which is imported; expected a folder elsewhere")


@contextmanager
def _workplace(out: Path) -> Iterator[Path]:
    """A private folder beside `out`, on the same file system, so that the suite appears by one rename."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise SuiteError(out, f"cannot be written: {error.strerror}") from None
    try:
        yield place
    finally:
        shutil.rmtree(place)


def _take(job: _Job, inputs: Inputs) -> Merged | None:
    """Take over tasks, questions and the databases that they name."""
    task_databases: dict[str, str] = {}
    described: dict[str, DatabaseFiles] = {}
    merged: Merged | None = None
    if inputs.tasks is not None:
        file = job.read("tasks", TASK_FILE, task_file(job.fetch("tasks", inputs.tasks)))
        rows = task_rows(file, job.into(TASK_FILE))
        task_databases = {row.instance_id: row.selected_database for _, row in rows}
        described = database_files(file.parent)
        if inputs.gold is not None:
            merged = _gold(job, inputs.gold, rows)
        job.write(TASK_FILE, merged.lines if merged else (line.text for line, _ in rows))
    asked = _questions(job, inputs.questions, task_databases)
    for name in sorted({*task_databases.values(), *asked} & described.keys()):
        _database(job, described[name])
    return merged


def _gold(job: _Job, path: Path, rows: list[Placed[OfficialTaskRow]]) -> Merged:
    job.origins["gold"] = (os.fsencode(path).decode("utf-8", "replace"), "")
    faults = job.into("gold")
    return merge(rows, read_gold(job.read("gold", "gold", path), faults), path, faults)


def _questions(job: _Job, text: str, task_databases: dict[str, str]) -> set[str]:
    """Take over the questions; the databases that they name."""
    asked: set[str] = set()
    for kind, file in question_files(job.fetch("questions", text)).items():
        name = QUESTION_FILES[kind]
        placed = question_rows(job.read("questions", name, file), kind, task_databases, job.into(name))
        job.write(name, (line.text for line, _ in placed))
        asked |= {row.selected_database for _, row in placed}
    return asked


def _database(job: _Job, files: DatabaseFiles) -> None:
    """Take over the descriptions of one database; a file that cannot be read as a whole is left out."""
    folder = files.name
    for file in (files.schema, files.column_meanings, files.knowledge):
        name = f"{folder}/{file.name}"
        if not file.exists():
            continue
        faults = job.into(name)
        try:
            if file == files.knowledge:
                content = [line.text for line, _ in knowledge_rows(file, faults)]
            else:
                content = [read_text(file).removesuffix("\n")]
            if file == files.column_meanings:
                column_meanings(file, folder, faults)
        except SuiteError as fault:
            faults(fault)
            continue
        job.write(job.read("tasks", name, file).relative_to(file.parent.parent).as_posix(), content)


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
