r"""Benchmark core: dumps as files: which belong to a database, in which order they load, and what must be there after.

Official databases are published as plain `pg_dump` files, one a table, in a folder named after the database. A file
that mentions another's table comes after it, so that foreign keys find what they refer to.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from benchmark_core.errors import InputError

_NAME = rb"((?:\"[^\"]+\"|[\w$]+)(?:\.(?:\"[^\"]+\"|[\w$]+))*)"
_CREATE = re.compile(rb"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?" + _NAME, re.IGNORECASE)
_COPY = re.compile(rb"COPY " + _NAME + rb" (?:\(.*\) )?FROM stdin;\s*$", re.IGNORECASE)
_CHANGE = re.compile(rb"(?:INSERT INTO|ALTER TABLE(?: IF EXISTS)?(?: ONLY)?) " + _NAME, re.IGNORECASE)
_REFERENCE = re.compile(rb"\bREFERENCES " + _NAME, re.IGNORECASE)
_KEY = re.compile(rb"\\(?:un)?restrict \w+\s*$")
_PERMITTED = re.compile(
    rb"(?:ALTER .+ OWNER TO .+|ALTER DEFAULT PRIVILEGES .+|GRANT .+|REVOKE .+|COMMENT ON (?:EXTENSION|SCHEMA) .+"
    rb"|CREATE SCHEMA public|SET (?:transaction_timeout|default_with_oids|default_table_access_method|xmloption) = .+"
    rb"|CREATE EXTENSION (?:IF NOT EXISTS )?plpgsql\b.*);\s*$"
)
"""A statement on a line of its own that may fail: owners and rights are ours, some settings are another version's."""
_CUT_OFF = "it is cut off; get the file again"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a dump, with its newline. `data`: it is a row of COPY. `may_fail`: nothing is lost when it does."""

    number: int
    text: bytes
    data: bool = False
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class DumpFile:
    """What a file holds. Tables are named without their schema; `rows` counts what COPY reads."""

    path: Path
    bytes: int
    digest: str
    creates: frozenset[str]
    needs: frozenset[str]
    rows: Counter[str]


@dataclass(frozen=True, slots=True)
class Dump:
    """A database to be loaded: its files in order."""

    name: str
    files: tuple[DumpFile, ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(file.digest for file in self.files).encode()).hexdigest()

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def find_dumps(path: Path) -> tuple[Dump, ...]:
    """The databases of a `.sql` file, of a folder with such files, or of a folder of such folders.

    Raises:
        InputError: there is none, or a file is no whole plain dump.
    """
    if path.is_file():
        return (_dump(path.stem, [path]),)
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    if files := sorted(path.glob("*.sql")):
        return (_dump(path.name, files),)
    folders = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and any(folder.glob("*.sql"))]
    if not folders:
        raise InputError(f"{path}: no .sql file in it or in a folder of it; official dumps lie in a folder a database")
    return tuple(_dump(folder.name, sorted(folder.glob("*.sql"))) for folder in folders)


def lines(path: Path) -> Iterator[Line]:
    """The lines of a plain dump, for psql in its restricted mode: the key lines that newer pg_dump writes are blank.

    Raises:
        InputError: it cannot be read, is not plain, or ends within the rows of a COPY.
    """
    in_data = False
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if number == 1 and text.startswith(b"PGDMP"):
                    raise InputError(f"{path}: is in pg_dump's own format; `pg_restore --file NEW.sql` makes it plain")
                if in_data:
                    in_data = text.rstrip(b"\r\n") != b"\\."
                    yield Line(number, text, data=in_data)
                    continue
                in_data = bool(_COPY.match(text))
                yield Line(number, b"\n" if _KEY.match(text) else text, may_fail=bool(_PERMITTED.match(text)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if in_data:
        raise InputError(f"{path}: ends within the rows of a COPY: {_CUT_OFF}")


def _dump(name: str, paths: list[Path]) -> Dump:
    files = {path: _scan(path) for path in paths}
    makers = {table: file.path for file in files.values() for table in file.creates}
    graph = {path: {makers[table] for table in file.needs if table in makers} for path, file in files.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        named = ", ".join(path.name for path in error.args[1])
        raise InputError(f"{paths[0].parent}: a circle of references: {named}; dump them into one file") from None
    return Dump(name.removesuffix("_template"), tuple(files[path] for path in order))


def _scan(path: Path) -> DumpFile:
    digest, rows = hashlib.sha256(), Counter[str]()
    creates: set[str] = set()
    needs: set[str] = set()
    copying, total, opened, closed = "", 0, False, False
    for line in lines(path):
        digest.update(line.text)
        total += len(line.text)
        if line.data:
            rows[copying] += 1
            continue
        opened = opened or line.text.startswith(b"-- PostgreSQL database dump\n")
        closed = closed or line.text.startswith(b"-- PostgreSQL database dump complete")
        if made := _CREATE.match(line.text):
            creates.add(_table(made[1]))
        elif copied := _COPY.match(line.text):
            copying = _table(copied[1])
            rows[copying] += 0
            needs.add(copying)
        elif changed := _CHANGE.match(line.text):
            needs.add(_table(changed[1]))
        needs.update(_table(name) for name in _REFERENCE.findall(line.text))
    if opened and not closed:
        raise InputError(f"{path}: pg_dump's last line is missing: {_CUT_OFF}")
    return DumpFile(path, total, digest.hexdigest(), frozenset(creates), frozenset(needs - creates), rows)


def _table(name: bytes) -> str:
    last = name.decode("utf-8", "replace").rpartition(".")[2]
    return last[1:-1] if last.startswith('"') else last.lower()
