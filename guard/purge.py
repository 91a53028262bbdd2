"""Guard: removes private content: imported suites, and the texts of runs. Removes nothing that it does not know."""

import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmark_core.errors import InputError
from guard.runs import RunFolder
from suites.errors import SuiteError
from suites.load import OPEN
from suites.manifest import FILE, read_manifest

_MARK_WITHIN = 65536
"""Bytes at the beginning of a file, in which its format is named."""
_HOLDS_TEXT = re.compile(
    r"ledger\.jsonl|completions\.sqlite(-wal|-shm|-journal)?|report[^/]*\.html"
    r"|\.(ledger\.jsonl|report\.html|scorecard\.json|certificate\.json)\.\d+"  # drafts that a kill left behind
    r"|[^/]*\.parquet|[^/]*\.eval"
)
_KEPT = ("certificate.json", "scorecard.json")


class Content(StrEnum):
    """What a folder was recognised as."""

    SUITE = "imported suite"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Doomed:
    """What would be removed of one folder.

    Attributes:
        remove: files, in the order of removal; the one that the folder is recognised by goes last.
        kept: files without text of questions, tasks or replies.
        unknown: files that are not ours to judge; they stay.
    """

    root: Path
    content: Content
    remove: tuple[Path, ...]
    kept: tuple[Path, ...]
    unknown: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        files = {name: [str(path) for path in getattr(self, name)] for name in ("remove", "kept", "unknown")}
        return {"folder": str(self.root), "content": self.content.value, **files}


def doomed(root: Path) -> Doomed:
    """Find what is private in a folder. Nothing is removed.

    Raises:
        InputError: it is no imported suite and no run, is or holds the open suite, holds a link, or is in use.
    """
    if root.is_symlink() or not root.is_dir():
        raise InputError(f"{root}: expected the folder of an imported suite or of a run, not a link or a file")
    if OPEN.resolve().is_relative_to(root.resolve()) or root.resolve().is_relative_to(OPEN.resolve()):
        raise InputError(f"{root}: is the open suite that comes with this program; it is public and stays")
    files = list(_files(root))
    if (root / FILE).exists():
        return _suite(root, files)
    folder = RunFolder(root)
    if _marked(folder.ledger, b"usersim-guard/ledger/") or any(
        _marked(file, b"usersim-guard/") for file in (folder.scorecard, folder.certificate)
    ):
        _demand_idle(folder)
        return _run(folder, files)
    raise InputError(f"{root}: neither an imported suite ({FILE}) nor a run (ledger.jsonl); nothing was removed")


def _suite(root: Path, files: list[Path]) -> Doomed:
    try:
        manifest = read_manifest(root)
    except SuiteError as error:
        raise InputError(f"{error}; nothing was removed") from None
    if not manifest.official:
        raise InputError(f"{root}: is a suite that was not imported; remove it yourself if it is yours")
    named = {root / name for name in manifest.files}
    remove = [file for file in files if file in named]
    unknown = [file for file in files if file not in named and file != root / FILE]
    return Doomed(root, Content.SUITE, (*remove, root / FILE), (), tuple(unknown))


def _run(folder: RunFolder, files: list[Path]) -> Doomed:
    kept = tuple(file for file in files if file.parent == folder.root and file.name in _KEPT)
    rest = [file for file in files if file not in kept]
    datasets = {file.parent.parent for file in rest if file.suffix == ".parquet" and file.parent.name == "data"}
    remove = [file for file in rest if _holds_text(file, datasets)]
    remove.sort(key=lambda file: file == folder.ledger)
    return Doomed(folder.root, Content.RUN, tuple(remove), kept, tuple(file for file in rest if file not in remove))


def _holds_text(file: Path, datasets: set[Path]) -> bool:
    if _HOLDS_TEXT.fullmatch(file.name) or (file.name == "README.md" and file.parent in datasets):
        return True
    # an exported evaluation log has any name; it says which program wrote it
    return file.suffix == ".json" and _marked(file, b'"usersim-guard"')


def purge(found: Doomed) -> None:
    """Remove the files, then the folders that are empty.

    Raises:
        InputError: a file cannot be removed; those before it are gone, and the command can be given again.
    """
    for file in found.remove:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"{file}: cannot be removed: {error.strerror}") from None
    for folder, _, _ in os.walk(found.root, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)


def _files(root: Path) -> Iterator[Path]:
    """Every file below; a link could lead elsewhere, so that a folder that holds one is refused as a whole."""
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(folder, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise InputError(
                    f"{path}: a link, or no ordinary file; expected none below {root}. Nothing was removed"
                )
        yield from (Path(folder, name) for name in sorted(names))


def _marked(file: Path, mark: bytes) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return mark in opened.read(_MARK_WITHIN)


def _demand_idle(folder: RunFolder) -> None:
    if not folder.ledger.exists():
        return
    with folder.ledger.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder.root}: another process is scoring into this run; stop it first") from None
