"""Guard: whether the project's short top-level names are its own. Standard library alone: the others may be shadowed.

`guard`, `judge` and `suites` are names that others use too, and `datasets` is both a folder of this project and a
library of Hugging Face. Python takes the first that it finds on `sys.path`, and says nothing.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from guard.finding import Finding

DISTRIBUTION = "usersim-guard"
OURS = ("guard", "judge", "simulators", "benchmark_core", "suites")
LIBRARY = "datasets"
NAME = "package names"

_ROOT = Path(__file__).resolve().parents[1]
_REPAIR = "rename or remove {place}, or keep its folder out of PYTHONPATH and of the folder that you start in"


def check_names() -> list[Finding]:
    """One finding a collision; a single `ok` without any."""
    folders = _folders()
    found = [finding for name in OURS for finding in _ours(name, folders)]
    found += [*_shared_folders(), *_library(folders), *_here(folders), *_installed_elsewhere()]
    return found or [Finding(NAME, "ok", f"{', '.join(OURS)} come from {_ROOT}; {_library_seen(folders)}")]


def _folders() -> list[Path]:
    """Where Python looks, in its order."""
    return list(dict.fromkeys(Path(entry or os.curdir).resolve() for entry in sys.path))


def _ours(name: str, folders: Sequence[Path]) -> Iterator[Finding]:
    places = [place for folder in folders if (place := _place(name, folder))]
    if not places:
        yield Finding(
            NAME, "fail", f"`{name}` is not found", f"reinstall: pip install --force-reinstall {DISTRIBUTION}"
        )
        return
    for rank, place in enumerate(places):
        if place in _homes(name):
            continue
        taken = "Python takes `{}` from {}, not from {}" if rank == 0 else "`{}` also stands in {}, behind {} for now"
        seen = taken.format(name, place, _ROOT) + _brought_by(name)
        yield Finding(NAME, "warn" if rank else "fail", seen, _REPAIR.format(place=place))


def _here(folders: Sequence[Path]) -> Iterator[Finding]:
    """What the folder that we are in would do to `python -m guard`, which puts it first."""
    here = Path.cwd()
    if here in folders:
        return
    for name in (*OURS, LIBRARY):
        if (stray := _place(name, here)) and stray not in _homes(name):
            seen = f"this folder holds a `{name}` of its own: `python -m guard`, started here, would take {stray}"
            yield Finding(NAME, "warn", seen, f"rename or remove {stray}, or say usersim-guard instead")


def _homes(name: str) -> set[Path | None]:
    """Where it may stand; the second folder is that of `suites` in a source tree."""
    return {_library_home()} if name == LIBRARY else {_ROOT / name, _ROOT / "datasets" / name}


def _place(name: str, folder: Path) -> Path | None:
    """The package's folder, or the module's file. A folder without `__init__.py` shadows nothing and does not count."""
    spec = PathFinder.find_spec(name, [str(folder)])
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin).resolve()
    return origin.parent if origin.stem == "__init__" else origin


def _shared_folders() -> Iterator[Finding]:
    """Two installed distributions that put files into the same package: the later one has overwritten the earlier."""
    mixed = {name: others for name in OURS if (others := _others(name)) and DISTRIBUTION in _bringers().get(name, ())}
    for name, others in mixed.items():
        seen = f"{DISTRIBUTION} and {', '.join(others)} both install files of `{name}`"
        repair = f"pip uninstall {' '.join(others)}, then pip install --force-reinstall {DISTRIBUTION}"
        yield Finding(NAME, "fail", seen, f"{repair}; or give each an environment of its own")


def _library(folders: Sequence[Path]) -> Iterator[Finding]:
    ours, home = _ROOT / LIBRARY, _library_home()
    if ours != home and (extra := ours / "__init__.py").exists():
        yield Finding(NAME, "fail", f"{extra} makes our data folder a package that hides the library", f"rm {extra}")
    place = next((place for folder in folders if (place := _place(LIBRARY, folder))), None)
    if place in (None, ours, home):
        return
    seen = f"Python takes `{LIBRARY}` from {place}, which is not Hugging Face's library{_brought_by(LIBRARY)}"
    yield Finding(NAME, "fail", seen, _REPAIR.format(place=place))


def _library_seen(folders: Sequence[Path]) -> str:
    if any(_place(LIBRARY, folder) for folder in folders):
        return f"{LIBRARY} is Hugging Face's, {metadata.version(LIBRARY)}"
    return f"no library {LIBRARY}, which only hub: sources need"


def _library_home() -> Path | None:
    try:
        return Path(str(metadata.distribution(LIBRARY).locate_file(LIBRARY))).resolve()
    except metadata.PackageNotFoundError:
        return None


def _installed_elsewhere() -> Iterator[Finding]:
    """The code that runs is not that of the installed distribution."""
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        yield Finding(NAME, "warn", f"runs from {_ROOT}; {DISTRIBUTION} is not installed", "pip install -e .")
        return
    if not any(str(file) == "guard/__init__.py" for file in distribution.files or ()):
        return  # an editable install lists no such file, and puts the source tree on sys.path
    home = Path(str(distribution.locate_file("guard"))).resolve().parent
    if home != _ROOT:
        seen = f"runs from {_ROOT}, but {DISTRIBUTION} {distribution.version} is installed in {home}"
        yield Finding(NAME, "warn", seen, "start in another folder, or pip install -e . here")


def _brought_by(name: str) -> str:
    others = _others(name)
    return f" (the installed package {', '.join(others)} brings one)" if others else ""


def _others(name: str) -> list[str]:
    wanted = LIBRARY if name == LIBRARY else DISTRIBUTION
    return sorted(set(_bringers().get(name, ())) - {wanted})


@cache
def _bringers() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())
