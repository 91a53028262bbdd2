"""Suites: chooses the official files among those of a hub repository, by name alone, and writes them into a folder.

Names come from the repository and are hostile: they choose among what is listed, and never become a path unchecked.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from suites.errors import SuiteError
from suites.lines import parse

TASK_FILE = "bird_interact_data.jsonl"
SPLITS = {
    "amb_safety": "data_labeled.jsonl",
    "loc_safety": "data_unlabeled.jsonl",
    "una_safety": "data_unanswerable.jsonl",
}
"""Split of the official card, and the file that holds the same questions."""

_CONFIG = "usersim-guard"
_DATABASE_FILE = re.compile(
    r"(?:.+/)?(?P<name>[A-Za-z][A-Za-z0-9_]{0,62})/(?P=name)_(?:schema\.txt|column_meaning_base\.json|kb\.jsonl)"
)


class _Split(BaseModel):
    model_config = ConfigDict(strict=True)
    split: str
    path: str | list[str]

    @property
    def patterns(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else self.path


class _Config(BaseModel):
    """One entry of a card's `configs`, as far as it is of use here; the hub defines many more fields."""

    model_config = ConfigDict(strict=True)
    config_name: str
    data_files: list[_Split]


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of one commit.

    Attributes:
        place: the source as messages name it.
        sizes: bytes, by path.

    Raises:
        SuiteError: a name is no plain path below the repository, or a loading script is there.
    """

    place: str
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        for path in self.sizes:
            if not path.isprintable() or "\\" in path or {"", ".", ".."} & set(path.split("/")):
                raise SuiteError(self.place, f"not fetched: it holds a file whose name is no plain path: {path!r}")
        script = self.place.partition("@")[0].rpartition("/")[2] + ".py"
        if script in self.sizes:
            raise SuiteError(self.place, f"has a loading script ({script}); no code of a data set is run here")

    def task_files(self) -> dict[str, str]:
        """Paths in the repository by the name that they get: the tasks, and a folder of descriptions per database.

        Raises:
            SuiteError: there are no tasks, or two files of a name.
        """
        tasks = self._only(TASK_FILE)
        if tasks is None:
            raise SuiteError(self.place, f"expected a task repository with {TASK_FILE}; found {self._summary()}")
        found = {TASK_FILE: tasks}
        for path in self.sizes:
            if match := _DATABASE_FILE.fullmatch(path):
                target = f"{match['name']}/{PurePosixPath(path).name}"
                if found.setdefault(target, path) != path:
                    raise SuiteError(self.place, f"holds {target} twice, as {found[target]} and {path}; expected one")
        return found

    def split_files(self, configs: object) -> dict[str, list[str]]:
        """Paths of the question files by split: as the card says where it names the three splits, else by file name.

        Args:
            configs: what the card has under that key; anything.

        Raises:
            SuiteError: neither the splits nor the files are there, or the card names files that are not.
        """
        ours = [config for config in _read_configs(configs) if {*SPLITS} <= {s.split for s in config.data_files}]
        if ours:
            return self._named(min(ours, key=lambda config: config.config_name != _CONFIG))
        paths = {split: self._only(name) for split, name in SPLITS.items()}
        found = {split: [path] for split, path in paths.items() if path is not None}
        if len(found) < len(SPLITS):
            expected = f"the splits {', '.join(SPLITS)} in README.md, or the files {', '.join(SPLITS.values())}"
            raise SuiteError(self.place, f"expected {expected}; found {self._summary()}")
        return found

    def _named(self, config: _Config) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {split: [] for split in SPLITS}
        for entry in config.data_files:
            for pattern in entry.patterns if entry.split in found else ():
                paths = [path for path in sorted(self.sizes) if _fits(path, pattern)]
                if not paths:
                    problem = (
                        f"README.md names {pattern!r} for the split {entry.split}; the repository has no such file"
                    )
                    raise SuiteError(self.place, problem)
                found[entry.split] += [path for path in paths if path not in found[entry.split]]
        return found

    def _only(self, name: str) -> str | None:
        paths = sorted(path for path in self.sizes if PurePosixPath(path).name == name)
        if len(paths) > 1:
            raise SuiteError(self.place, f"holds {name} more than once: {', '.join(paths[:5])}; expected one")
        return paths[0] if paths else None

    def _summary(self) -> str:
        paths = sorted(self.sizes)
        return (", ".join(paths[:8]) or "no file") + (f" and {len(paths) - 8} more" if len(paths) > 8 else "")


def _read_configs(configs: object) -> Iterable[_Config]:
    for entry in configs if isinstance(configs, list) else ():
        try:
            yield _Config.model_validate(entry)
        except ValidationError:
            continue  # a config of another shape is not the one that is looked for


def _fits(path: str, pattern: str) -> bool:
    # folder by folder: a star does not cross a slash, and `..` can fit nothing
    names, patterns = path.split("/"), pattern.removeprefix("./").split("/")
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def line_as_is(row: Mapping[str, Any]) -> str:
    """A line of JSONL, checked and not changed; blank lines are left out.

    Raises:
        ValueError: it is no JSON object.
    """
    line = str(row["text"]).removeprefix("\ufeff").strip()
    if line and not isinstance(parse(line), dict):
        raise ValueError("expected a JSON object")
    return line and line + "\n"


def line_of_row(row: Mapping[str, Any]) -> str:
    """A row of a table as a line of JSONL.

    Raises:
        ValueError, TypeError: it holds what JSON has no words for.
    """
    return json.dumps(dict(row), ensure_ascii=False, allow_nan=False) + "\n"


def write(out: Path, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write files below `out`, for their owner alone: they can hold gold. Each is replaced at once, never half.

    Args:
        contents: bytes by checked name, with at most one folder before it.

    Raises:
        SuiteError: a folder is a link that would lead elsewhere, or the disk does not take it.
    """
    try:
        for name, content in contents.items():
            path = out / name
            if path.parent != out and path.parent.is_symlink():
                raise SuiteError(path.parent, "is a link; expected a folder, or nothing yet")
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.new")
            draft.unlink(missing_ok=True)
            with open(draft, "xb", opener=_private) as file:
                file.write(content)
            draft.replace(path)
    except OSError as error:
        raise SuiteError(error.filename or out, f"cannot be written: {error.strerror}") from None
    return tuple(out / name for name in sorted(contents))


def _private(path: Any, flags: int) -> int:
    return os.open(path, flags, 0o600)
