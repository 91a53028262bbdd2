"""Tests: a real HTTP server on 127.0.0.1 that speaks as much of the Hugging Face hub's protocol as its libraries use.

    with HubServer() as hub:
        first = hub.commit("owner/name", {"README.md": b"…"})          # moves the branch main
        second = hub.commit("owner/name", {"README.md": b"…"})
        ... HF_ENDPOINT=hub.url

A repository is a chain of commits, each a mapping of paths to bytes, with branches and tags as references to them.
Requests stand in `hub.received`. Answers follow the hub: status, `X-Error-Code`, ETag, `X-Repo-Commit`.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

Files = Mapping[str, bytes]


@dataclass
class Repository:
    """One data set.

    Attributes:
        refs: commit by branch or tag.
        token: needed to see anything of it (a private one); None for a public one.
        gated: everybody sees that it is there, nobody gets a file.
        sizes: sizes that are listed instead of the true ones.
        cut: files of which only so many bytes come, although more are announced before.
    """

    commits: dict[str, Files] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    gated: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """One request: method, path without its query, and headers with names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Told:
    """One answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, message: str) -> Told:
    body = json.dumps({"error": message}).encode()
    return Told(status, body, {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"})


class HubServer:
    """The server; a context manager that runs it on threads of its own.

    Attributes:
        repositories: by id.
        received: every request, in order of arrival.
        override: where set, it is asked first; None goes on to the usual answer.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.received: list[Asked] = []
        self.override: Callable[[Asked], Told | None] = lambda asked: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def commit(self, repo_id: str, files: Files, branch: str = "main") -> str:
        """Add a commit and let the branch point to it; its 40 hex digits."""
        repository = self.repositories.setdefault(repo_id, Repository())
        content = [(path, hashlib.sha1(data).hexdigest()) for path, data in sorted(files.items())]
        sha = hashlib.sha1(json.dumps([repo_id, len(repository.commits), content]).encode()).hexdigest()
        repository.commits[sha] = dict(files)
        repository.refs[branch] = sha
        return sha

    def answer(self, asked: Asked) -> Told:
        self.received.append(asked)
        told = self.override(asked)
        if told is not None:
            return told
        for pattern, reply in (
            (r"/api/datasets/([^/]+/[^/]+)(?:/revision/([^/]+))?", self._info),
            (r"/api/datasets/([^/]+/[^/]+)/tree/([^/]+)", self._tree),
            (r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._file),
        ):
            if found := re.fullmatch(pattern, asked.path):
                return self._allowed(asked, [unquote(part) for part in found.groups("main")], reply)
        return Told(404, b"no such page")

    def _allowed(self, asked: Asked, parts: list[str], reply: Callable[..., Told]) -> Told:
        repo_id, revision, *path = parts
        repository = self.repositories.get(repo_id)
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if repository is None or (repository.token is not None and token != repository.token):
            # as the hub does it: who is not known does not learn whether a repository exists
            return refusal(404 if token else 401, "RepoNotFound", "Repository not found")
        sha = repository.refs.get(revision, revision)
        if sha not in repository.commits:
            return refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return reply(asked, repository, sha, *path)

    def _info(self, asked: Asked, repository: Repository, sha: str) -> Told:
        siblings = [
            {"rfilename": path, "size": repository.sizes.get(path, len(data)), "blobId": _blob(data)}
            for path, data in repository.commits[sha].items()
        ]
        return _json({"_id": "1", "id": "owner/name", "sha": sha, "private": False, "siblings": siblings})

    def _tree(self, asked: Asked, repository: Repository, sha: str) -> Told:
        files = repository.commits[sha].items()
        return _json(
            [{"type": "file", "oid": _blob(d), "size": repository.sizes.get(p, len(d)), "path": p} for p, d in files]
        )

    def _file(self, asked: Asked, repository: Repository, sha: str, path: str) -> Told:
        data = repository.commits[sha].get(path)
        headers = {"X-Repo-Commit": sha}
        if repository.gated:
            return refusal(403, "GatedRepo", "Access to this data set is restricted")
        if data is None:
            return Told(404, b"", {**headers, "X-Error-Code": "EntryNotFound"})
        headers["ETag"] = f'"{_blob(data)}"'
        return Told(200, data if asked.method == "HEAD" else data[: repository.cut.get(path)], headers)


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _json(value: Any) -> Told:
    return Told(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_HEAD(self) -> None:
            self._serve()

        def do_CONNECT(self) -> None:
            self._serve()

        def _serve(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = hub.answer(Asked(self.command, urlsplit(self.path).path or self.path, headers))
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(told.body)

        def log_message(self, format: str, *args: Any) -> None:
            pass  # the test's output is its own

    return Handler
