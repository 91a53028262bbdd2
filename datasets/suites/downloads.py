"""Suites: finds the files of official downloads below a folder that the user names. Never guesses between two."""

from collections.abc import Iterator
from pathlib import Path

from suites.errors import SuiteError
from suites.official import QUESTION_FILES, TASK_FILE, DatabaseFiles
from suites.questions import Kind

DEPTH = 2
"""Levels of folders below the named one: enough for data/databases/{db}."""
MAX_FOLDERS = 10_000

_STEMS = {
    **{name.removesuffix(".jsonl"): kind for kind, name in QUESTION_FILES.items()},
    # names of the splits on the data set's card
    "amb_safety": Kind.AMB,
    "loc_safety": Kind.LOC,
    "una_safety": Kind.UNA,
}


def question_files(folder: Path) -> dict[Kind, Path]:
    """The file of each kind, all in one folder.

    Raises:
        SuiteError: a kind has no file or two, or two folders hold questions.
    """
    _expect_folder(folder, "the three question files")
    home = _only([place for place in _folders(folder) if any(_kinds(place).values())], folder)
    if home is None:
        raise SuiteError(folder, f"holds no question files; expected {', '.join(QUESTION_FILES.values())}")
    found: dict[Kind, Path] = {}
    for kind, files in _kinds(home).items():
        # *_una.jsonl also fits files of results; the published names go first
        chosen = [file for file in files if file.name.startswith("data_")] or files
        if not chosen:
            raise SuiteError(home, f"no file holds the {kind} questions; expected {QUESTION_FILES[kind]}")
        if len(chosen) > 1:
            names = " and ".join(file.name for file in chosen)
            raise SuiteError(home, f"{names} both hold {kind} questions; keep one")
        found[kind] = chosen[0]
    return found


def task_file(place: Path) -> Path:
    """The file with the tasks: `place` itself, or the one below it.

    Raises:
        SuiteError: there is none, or more than one.
    """
    if place.is_file():
        return place
    _expect_folder(place, TASK_FILE)
    home = _only([folder for folder in _folders(place) if (folder / TASK_FILE).exists()], place)
    if home is None:
        raise SuiteError(place, f"holds no {TASK_FILE}; expected the download of BIRD-Interact Lite or Full")
    return home / TASK_FILE


def database_files(place: Path) -> dict[str, DatabaseFiles]:
    """The described databases below `place`, by name: folders `{db}` that hold `{db}_schema.txt` or a neighbour of it.

    Raises:
        SuiteError: a database is described in two places.
    """
    found: dict[str, DatabaseFiles] = {}
    for folder in _folders(place):
        files = DatabaseFiles(folder, folder.name)
        if not any(file.exists() for file in (files.schema, files.column_meanings, files.knowledge)):
            continue
        if folder.name in found:
            raise SuiteError(folder, f"describes the same database as {found[folder.name].folder}; keep one")
        found[folder.name] = files
    return found


def _expect_folder(place: Path, content: str) -> None:
    if not place.is_dir():
        raise SuiteError(place, f"no such folder; expected one with {content}")


def _only(places: list[Path], below: Path) -> Path | None:
    """The one place, the shallowest ones only."""
    depth = min((len(place.parts) for place in places), default=0)
    shallow = [place for place in places if len(place.parts) == depth]
    if len(shallow) > 1:
        raise SuiteError(below, f"holds what is looked for in {shallow[0]} and in {shallow[1]}; name one of them")
    return shallow[0] if shallow else None


def _folders(top: Path) -> Iterator[Path]:
    """`top` and the folders below it, level by level; links to folders are not followed."""
    level, seen = [top], 0
    for _ in range(DEPTH + 1):
        for folder in level:
            seen += 1
            if seen > MAX_FOLDERS:
                raise SuiteError(top, f"holds more than {MAX_FOLDERS} folders; name the folder of the download itself")
            yield folder
        level = [
            child
            for folder in level
            for child in sorted(folder.iterdir())
            if child.is_dir() and not child.is_symlink() and not child.name.startswith(".")
        ]


def _kinds(folder: Path) -> dict[Kind, list[Path]]:
    found: dict[Kind, list[Path]] = {kind: [] for kind in Kind}
    for file in sorted(folder.glob("*.jsonl")):
        stem = file.stem.lower()
        kind = Kind.UNA if stem == "una" or stem.endswith("_una") else _STEMS.get(stem)
        if kind is not None and file.is_file():
            found[kind].append(file)
    return found
