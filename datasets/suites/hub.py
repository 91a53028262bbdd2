"""Suites: fetches official files from the Hugging Face hub into a folder. The only module that imports its libraries.

What is asked for is resolved to a commit first, and everything is read at that commit. Files go through the hub's own
cache, so that with `HF_HUB_OFFLINE=1` what was fetched before is there again. `HF_TOKEN`, `HF_ENDPOINT` and `HF_HOME`
have their usual meaning. No code of a repository is run.

The tests talk to a server on this machine that speaks the hub's protocol; none of them reaches huggingface.co.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suites.errors import SuiteError
from suites.hub_files import SPLITS, Listing, line_as_is, line_of_row, write

MAX_FILES = 512
MAX_FILE = 64 * 2**20
MAX_CARD = 2**20
"""Bytes, as the one before. The official questions are some hundred kilobytes a file, the tasks some ten megabytes."""

CARD = "README.md"

_KIND = "dataset"
_SECONDS = 30.0
# the reader `json` would make dates of texts, and nulls of what is absent
_READERS = {".jsonl": ("text", line_as_is), ".parquet": ("parquet", line_of_row)}
_OWNER_OR_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPO = re.compile(f"{_OWNER_OR_NAME}/{_OWNER_OR_NAME}")
_REVISION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9_-])?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A data set of the hub: OWNER/NAME, and the commit, tag or branch that is asked for.

    Raises:
        SuiteError: one of them cannot be that. Both become parts of paths and addresses.
    """

    repo_id: str
    revision: str

    def __post_init__(self) -> None:
        if not _REPO.fullmatch(self.repo_id) or ".." in self.repo_id or "--" in self.repo_id:
            raise SuiteError(str(self), "expected hub:OWNER/NAME or hub:OWNER/NAME@REVISION")
        if not _REVISION.fullmatch(self.revision) or ".." in self.revision or "//" in self.revision:
            raise SuiteError(str(self), "expected a commit, a tag or a branch after the @")

    def __str__(self) -> str:
        return f"hub:{self.repo_id}@{self.revision}"

    @classmethod
    def parse(cls, text: str) -> "HubSource":
        """Parse `hub:OWNER/NAME` (branch main) or `hub:OWNER/NAME@REVISION`.

        Raises:
            SuiteError: the text is neither.
        """
        if not text.startswith("hub:"):
            raise SuiteError(text, "expected hub:OWNER/NAME or hub:OWNER/NAME@REVISION")
        repo_id, at, revision = text.removeprefix("hub:").partition("@")
        return cls(repo_id, revision if at else "main")


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was fetched: the commit (40 hex digits) that the revision stood for, and the files as written, by name."""

    source: HubSource
    commit: str
    files: tuple[Path, ...]


def fetch_questions(source: HubSource, out: Path) -> Fetched:
    """Fetch the labelled questions into `out`: one JSONL file a kind, with the names of the official files.

    They are read with Hugging Face `datasets`: the three splits that the card names, else the three files. Lines of
    JSONL stay as they are; rows of Parquet become JSON.

    Raises:
        SuiteError: they cannot be fetched, or are not there; the message says what to do.
    """
    _prepare()
    commit = _Commit.resolve(source)
    splits = commit.listing.split_files(commit.card().get("configs"))
    local = commit.bring([path for paths in splits.values() for path in paths])
    contents = {SPLITS[split]: _rows(source, [local[path] for path in paths]) for split, paths in splits.items()}
    return Fetched(source, commit.sha, write(out, contents))


def fetch_tasks(source: HubSource, out: Path) -> Fetched:
    """Fetch a task repository into `out`, byte by byte: the tasks, and below a folder per database its descriptions.

    These rows are nested and of mixed types, which Arrow tables would change; so the files are brought as they are.

    Raises:
        SuiteError: they cannot be fetched, or are not there; the message says what to do.
    """
    _prepare()
    commit = _Commit.resolve(source)
    wanted = commit.listing.task_files()
    local = commit.bring(list(wanted.values()))
    return Fetched(source, commit.sha, write(out, {name: local[path].read_bytes() for name, path in wanted.items()}))


@dataclass(frozen=True, slots=True)
class _Commit:
    source: HubSource
    sha: str
    listing: Listing

    @classmethod
    def resolve(cls, source: HubSource) -> "_Commit":
        from huggingface_hub import HfApi, constants, get_cached_repo_tree

        api, sha = HfApi(), ""
        with _hub_errors(source):
            if constants.is_offline_mode():
                revision = api.resolve_revision(
                    source.repo_id, repo_type=_KIND, revision=source.revision, local_files_only=True
                )
                sha = revision.resolved
                tree = get_cached_repo_tree(source.repo_id, repo_type=_KIND, revision=revision)
                sizes = {file.path: file.size for file in tree}
            else:
                info = api.dataset_info(source.repo_id, revision=source.revision, timeout=_SECONDS, files_metadata=True)
                sha = info.sha or ""
                sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or ()}
                # notes in the cache what a branch stands for, for use offline; does nothing for a commit
                api.resolve_revision(source.repo_id, repo_type=_KIND, revision=source.revision)
        if not _COMMIT.fullmatch(sha):
            raise SuiteError(str(source), "the server names no commit; does HF_ENDPOINT name a hub?")
        return cls(source, sha, Listing(str(source), sizes))

    def card(self) -> dict[str, Any]:
        """The head of the card, unchecked; empty where there is none."""
        from huggingface_hub import metadata_load

        if CARD not in self.listing.sizes:
            return {}
        path = self.bring([CARD], MAX_CARD)[CARD]
        try:
            return metadata_load(path) or {}
        except Exception as error:  # noqa: BLE001 - what a YAML reader raises at hostile text is no closed list
            raise SuiteError(str(self.source), f"{CARD}: its head is no YAML ({type(error).__name__})") from None

    def bring(self, paths: Sequence[str], limit: int = MAX_FILE) -> dict[str, Path]:
        """Where these files lie in the cache, after a download where needed; `limit` in bytes."""
        from huggingface_hub import constants, snapshot_download

        sizes, place = self.listing.sizes, str(self.source)
        if len(paths) > MAX_FILES:
            raise SuiteError(place, f"not fetched: {len(paths)} files; expected at most {MAX_FILES}")
        if large := [path for path in paths if sizes[path] > limit]:
            raise SuiteError(place, f"not fetched: {large[0]} is larger than {limit // 2**20} MiB")
        with _hub_errors(self.source):
            folder = snapshot_download(
                self.source.repo_id,
                repo_type=_KIND,
                revision=self.sha,
                allow_patterns=[glob.escape(path) for path in paths],
                local_files_only=constants.is_offline_mode(),
            )
            found = {path: Path(folder, path) for path in paths}
            broken = [path for path, file in found.items() if file.stat().st_size != sizes[path]]
        if broken:
            raise SuiteError(place, f"{broken[0]} is broken in the cache; remove {folder} with what it links to")
        return found


def _rows(source: HubSource, paths: Sequence[Path]) -> bytes:
    from datasets import load_dataset

    suffix, *others = {path.suffix for path in paths}
    if others or suffix not in _READERS:
        raise SuiteError(str(source), f"expected JSONL or Parquet; found {', '.join(path.name for path in paths)}")
    reader, as_line = _READERS[suffix]
    text = bytearray()
    try:
        # By checked paths and not by repository: the library follows a card's patterns to any file or address, and
        # where the hub fails it falls back to whatever commit it saw last. Streamed: nothing is unpacked on disk.
        files = [glob.escape(str(path)) for path in paths]
        for row in load_dataset(reader, data_files=files, split="train", streaming=True):
            text += as_line(row).encode()
            if len(text) > MAX_FILE:
                break
    except Exception as error:  # noqa: BLE001 - what these readers raise at hostile files is no closed list
        problem = (
            f"{paths[0].name} cannot be read as questions ({type(error).__name__}); expected one JSON object a row"
        )
        raise SuiteError(str(source), problem) from None
    if len(text) > MAX_FILE:
        raise SuiteError(str(source), f"not fetched: {paths[0].name} unfolds to more than {MAX_FILE // 2**20} MiB")
    return bytes(text)


def _prepare() -> None:
    # the libraries read these once, at import: no telemetry, no count of uses, no progress bars
    os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", HF_UPDATE_DOWNLOAD_COUNTS="0", HF_HUB_DISABLE_PROGRESS_BARS="1")


@contextmanager
def _hub_errors(source: HubSource) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the library's errors are many; their texts and causes can hold a token
        raise SuiteError(str(source), _advice(source, error)) from None


def _advice(source: HubSource, error: BaseException) -> str:
    from huggingface_hub import constants, errors

    if constants.is_offline_mode():
        return "not, or not wholly, in this machine's cache, and HF_HUB_OFFLINE is set: unset it and fetch once"
    if isinstance(error, errors.LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    match error:
        case errors.GatedRepoError():
            return "open only to accounts that were let in: ask on its page, then set HF_TOKEN to a token of yours"
        case errors.RepositoryNotFoundError():
            return "no such data set, or a private one: check the spelling; for a private one set HF_TOKEN"
        case errors.RevisionNotFoundError():
            return f"no revision {source.revision!r} there: check the commit (40 hex digits), tag or branch"
        case errors.HfHubHTTPError():
            status = error.response.status_code
            advice = "set HF_TOKEN to a valid token that may read it" if status in (401, 403) else "try again later"
            return f"the hub answers HTTP {status}: {advice}"
        case errors.HTTPError():  # type: ignore[attr-defined]  # of whichever httpx the library uses
            cause = f"the hub cannot be reached ({type(error).__name__})"
            return f"{cause}: check network, proxy and HF_ENDPOINT; HF_HUB_OFFLINE=1 reads what was fetched before"
        case OSError(errno=int()):
            return f"cannot be kept in the cache: {error.strerror}; check the folder that HF_HOME names"
        case OSError():
            return "a file came incomplete; fetch again"
    return f"the answer cannot be understood ({type(error).__name__}); does HF_ENDPOINT name a hub?"
