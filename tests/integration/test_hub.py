"""Fetching official files from a hub: the real libraries, in processes of their own, against a server on 127.0.0.1.

The libraries read their settings when they are imported, so that each set of them needs a process.
"""

import gzip
import io
import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hub_server import Asked, HubServer, Repository, Told
from hypothesis import given
from hypothesis import strategies as st

from suites.errors import SuiteError
from suites.hub import HubSource

NAMES = ("data_labeled.jsonl", "data_unlabeled.jsonl", "data_unanswerable.jsonl")
SECRET = "hf_secretSECRETsecret"

PROGRAM = """
import json, sys, traceback
from pathlib import Path
from suites.errors import SuiteError
from suites.hub import HubSource, fetch_questions, fetch_tasks

outcomes = []
for what, source, out in json.load(sys.stdin):
    try:
        fetched = {"questions": fetch_questions, "tasks": fetch_tasks}[what](HubSource.parse(source), Path(out))
        outcomes.append({"commit": fetched.commit, "files": [str(path.relative_to(out)) for path in fetched.files]})
    except SuiteError as error:
        traceback.print_exc()
        outcomes.append({"file": error.file, "problem": error.problem})
print(json.dumps(outcomes))
"""


@dataclass(frozen=True)
class Desk:
    """Where a user sits: a folder with the cache in it, and the hub that the settings name."""

    folder: Path
    hub_url: str

    def fetch(self, *orders: tuple[str, str, str], **settings: str) -> list[dict[str, Any]]:
        return json.loads(self.run(PROGRAM, orders, **settings).stdout)  # type: ignore[no-any-return]

    def run(self, program: str, orders: object, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(self.folder), "HF_HOME": str(self.folder / ".cache" / "hub [1]"), "PATH": "/usr/bin"}
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(orders),
            env={**environment, "HF_ENDPOINT": self.hub_url, **settings},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path, hub: HubServer) -> Desk:
    return Desk(tmp_path, hub.url)


def question(number: int, text: str = "Which of them?") -> dict[str, Any]:
    return {
        "instance_id": f"alien_{number}",
        "selected_database": "alien",
        "question_id": number,
        "question_type": "labeled",
        "clarification_question": text,
    }


def jsonl(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def question_files(text: str = "Which of them?") -> dict[str, bytes]:
    return {name: jsonl(question(1, f"{text} {name}"), question(2, text)) for name in NAMES}


def card(amb: object, loc: object, una: object, config: str = "usersim-guard") -> str:
    splits = [
        {"split": f"{kind}_safety", "path": path}
        for kind, path in zip(("amb", "loc", "una"), (amb, loc, una), strict=True)
    ]
    return json.dumps({"config_name": config, "data_files": splits})


def readme(*configs: str) -> bytes:
    return f"---\nlicense: cc-by-sa-4.0\nconfigs: [{', '.join(configs)}]\n---\n# A card\n".encode()


def parquet(*rows: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), file)
    return file.getvalue()


TASKS = {
    "README.md": b"# Lite\n",
    "bird_interact_data.jsonl": b'{"nested": [1, "2", {"when": "2024-01-02"}], "same": null}\r\n{"nested": 3.0}',
    "databases/alien/alien_schema.txt": b"CREATE TABLE a ();\n",
    "databases/alien/alien_column_meaning_base.json": b"{}",
    "databases/alien/alien_kb.jsonl": b"",
    "databases/alien/alien_template.sql": b"SELECT 1",
    "museum/museum_kb.jsonl": b"{}\n",
    "museum/other_kb.jsonl": b"{}\n",
}


def test_questions_come_from_the_splits_of_the_card_or_from_the_files(desk: Desk, hub: HubServer) -> None:
    odd = {**question(1, "Ümläut, \u2028 “quotes”, 2024-01-02"), "when": "2024-01-02", "big": 2**70, "share": 1.0}
    uneven = jsonl(odd, {**question(2), "question_id": "2b", "extra": [1, {"a": None}]})
    as_published = card(*NAMES)
    hub.commit("birdsql/UserSim-Guard", {**question_files(), NAMES[0]: uneven, "README.md": readme(as_published)})
    hub.commit("some/files", {f"deep/down/{name}": data for name, data in question_files("Files?").items()})
    shards = {f"data/amb-0000{n}.jsonl": jsonl(question(n)) for n in range(3)}
    table = parquet(question(7, "Täble?"), {**question(8), "clarification_question": None})
    others = {"data/loc.parquet": table, "data/una.jsonl": b"\xef\xbb\xbf" + jsonl(question(9)) + b"\r\n"}
    patterns = card("data/amb-*.jsonl", ["data/loc.parquet"], "./data/una.jsonl", config="mine")
    no_splits = '{"config_name": "x", "data_files": "*.csv"}'
    hub.commit(
        "some/splits", {**shards, **others, "data/more/amb-9.jsonl": b"no", "README.md": readme(no_splits, patterns)}
    )

    orders = [
        ("questions", "hub:birdsql/UserSim-Guard", "published"),
        ("questions", "hub:some/files", "files"),
        ("questions", "hub:some/splits@main", "splits"),
    ]
    published, files, splits = desk.fetch(*orders)
    offline = desk.fetch(*((what, source, f"off-{out}") for what, source, out in orders), HF_HUB_OFFLINE="1")

    assert published["files"] == files["files"] == splits["files"] == sorted(NAMES)
    assert desk.read("published/data_labeled.jsonl") == uneven
    assert desk.read("published/data_unanswerable.jsonl") == question_files()["data_unanswerable.jsonl"]
    assert offline == [published, files, splits]
    for name in NAMES:
        assert desk.read(f"off-splits/{name}") == desk.read(f"splits/{name}")
        assert desk.read(f"files/{name}") == question_files("Files?")[name]
    assert desk.read("splits/data_labeled.jsonl") == b"".join(shards.values())
    assert desk.read("splits/data_unlabeled.jsonl") == jsonl(
        question(7, "Täble?"), {**question(8), "clarification_question": None}
    )
    assert desk.read("splits/data_unanswerable.jsonl") == jsonl(question(9))
    assert stat.S_IMODE((desk.folder / "files" / NAMES[0]).stat().st_mode) == 0o600


def test_tasks_come_byte_by_byte_below_a_folder_per_database(desk: Desk, hub: HubServer) -> None:
    commit = hub.commit("birdsql/lite", TASKS)
    (fetched,) = desk.fetch(("tasks", "hub:birdsql/lite", "out"))
    assert fetched == {
        "commit": commit,
        "files": [
            "alien/alien_column_meaning_base.json",
            "alien/alien_kb.jsonl",
            "alien/alien_schema.txt",
            "bird_interact_data.jsonl",
            "museum/museum_kb.jsonl",
        ],
    }
    for name in fetched["files"]:
        original = name if name in TASKS else f"databases/{name}"
        assert desk.read(f"out/{name}") == TASKS[original]
        assert stat.S_IMODE((desk.folder / "out" / name).stat().st_mode) == 0o600
    assert sorted(p.name for p in (desk.folder / "out").rglob("*") if p.is_file()) == sorted(
        Path(name).name for name in fetched["files"]
    )


def test_a_branch_moves_and_a_commit_does_not_online_and_offline(desk: Desk, hub: HubServer) -> None:
    old, new = ({**TASKS, "alien/alien_kb.jsonl": text} for text in (b"old", b"new"))
    del old["databases/alien/alien_kb.jsonl"], new["databases/alien/alien_kb.jsonl"]
    first = hub.commit("o/n", old)
    hub.repositories["o/n"].refs["refs/pr/1"] = first
    (before,) = desk.fetch(("tasks", "hub:o/n", "before"))
    second = hub.commit("o/n", new)
    sources = {"branch": "hub:o/n", "commit": f"hub:o/n@{first}", "ref": "hub:o/n@refs/pr/1"}

    online = desk.fetch(*(("tasks", source, name) for name, source in sources.items()))
    seen = len(hub.received)
    offline = desk.fetch(*(("tasks", source, f"off-{name}") for name, source in sources.items()), HF_HUB_OFFLINE="1")

    assert before["commit"] == first
    assert [done["commit"] for done in online] == [second, first, first]
    assert offline == online
    assert len(hub.received) == seen
    assert desk.read("before/alien/alien_kb.jsonl") == b"old"
    for name, text in {"branch": b"new", "commit": b"old", "ref": b"old"}.items():
        assert desk.read(f"{name}/alien/alien_kb.jsonl") == desk.read(f"off-{name}/alien/alien_kb.jsonl") == text


def test_offline_what_was_not_fetched_wholly_is_not_there(desk: Desk, hub: HubServer) -> None:
    both = hub.commit("o/n", {**TASKS, **question_files()})
    hub.commit("o/other", TASKS)
    desk.fetch(("tasks", "hub:o/n", "out"))
    half, branch, never, commit = desk.fetch(
        ("questions", f"hub:o/n@{both}", "out"),
        ("tasks", "hub:o/n@dev", "out"),
        ("tasks", "hub:o/other", "out"),
        ("tasks", f"hub:o/n@{'0' * 40}", "out"),
        HF_HUB_OFFLINE="1",
    )
    for outcome in (half, branch, never, commit):
        assert outcome["problem"].startswith("not, or not wholly, in this machine's cache, and HF_HUB_OFFLINE is set")
    assert never["file"] == "hub:o/other@main"


def test_a_broken_cache_is_noticed(desk: Desk, hub: HubServer) -> None:
    hub.commit("o/n", TASKS)
    desk.fetch(("tasks", "hub:o/n", "out"))
    (cached,) = desk.folder.glob(".cache/*/hub/*/snapshots/*/bird_interact_data.jsonl")
    cached.resolve().write_bytes(b"{")
    (outcome,) = desk.fetch(("tasks", "hub:o/n", "out"))
    assert "bird_interact_data.jsonl is broken in the cache" in outcome["problem"]


def _refusals(hub: HubServer) -> dict[str, tuple[str, str, str]]:
    """Repositories that are refused: by name, what is fetched, and what the message says."""
    private, gated = Repository(token=SECRET), Repository(gated=True)
    lying, short = Repository(sizes={"bird_interact_data.jsonl": 5}), Repository(cut={"bird_interact_data.jsonl": 5})
    large = Repository(sizes={"bird_interact_data.jsonl": 64 * 2**20 + 1})
    long_card = Repository(sizes={"README.md": 2**20 + 1})
    hub.repositories.update(
        {
            "o/private": private,
            "o/gated": gated,
            "o/lying": lying,
            "o/short": short,
            "o/large": large,
            "o/card": long_card,
        }
    )
    bomb = parquet(*({**question(n), "clarification_question": "x" * 2**20} for n in range(70)))
    assert len(bomb) < 2**22
    unfit = {name: parquet({"instance_id": b"\xff"}) for name in ("a.parquet", "b.parquet", "c.parquet")}
    unfit_card = readme(card("a.parquet", "b.parquet", "c.parquet"))
    many = {f"d{n}/d{n}_kb.jsonl": b"" for n in range(512)}
    good = question_files()

    def asked_outside(pattern: str) -> dict[str, bytes]:
        return {**good, "README.md": readme(card(*NAMES[:2], pattern))}

    content: dict[str, tuple[str, dict[str, bytes], str]] = {
        "private": ("tasks", TASKS, "no such data set, or a private one: check the spelling"),
        "gated": ("tasks", TASKS, "open only to accounts that were let in"),
        "lying": ("tasks", TASKS, "bird_interact_data.jsonl is broken in the cache"),
        "short": ("tasks", TASKS, "a file came incomplete"),
        "large": ("tasks", TASKS, "not fetched: bird_interact_data.jsonl is larger than 64 MiB"),
        "many": ("tasks", {**TASKS, **many}, "expected at most 512"),
        "card": ("questions", {**good, "README.md": b"#"}, "not fetched: README.md is larger than 1 MiB"),
        "script": ("questions", {**good, "script.py": b"1"}, "has a loading script (script.py)"),
        "up": ("tasks", {**TASKS, "a/../../x/x_kb.jsonl": b""}, "no plain path"),
        "root": ("tasks", {**TASKS, "/x/x_kb.jsonl": b""}, "no plain path"),
        "dot": ("tasks", {**TASKS, "./x/x_kb.jsonl": b""}, "no plain path"),
        "windows": ("tasks", {**TASKS, "x\\x_kb.jsonl": b""}, "no plain path"),
        "terminal": ("tasks", {**TASKS, "x/\x1b[2Jx_kb.jsonl": b""}, "no plain path: 'x/\\x1b[2Jx_kb.jsonl'"),
        "no-tasks": ("tasks", good, "expected a task repository with bird_interact_data.jsonl; found data_l"),
        "empty": ("tasks", {}, "expected a task repository with bird_interact_data.jsonl; found no file"),
        "two-tasks": ("tasks", {**TASKS, "old/bird_interact_data.jsonl": b""}, "more than once"),
        "two-kbs": ("tasks", {**TASKS, "old/alien/alien_kb.jsonl": b""}, "holds alien/alien_kb.jsonl twice"),
        "no-questions": ("questions", TASKS, "found README.md, bird_interact_data.jsonl"),
        "two-files": ("questions", dict(list(good.items())[:2]), "expected the splits amb_safety, loc_safety"),
        "two-splits": ("questions", {"README.md": readme(card("a", "b", "c")), "a": b"", "b": b""}, "names 'c' for"),
        "yaml": ("questions", {**good, "README.md": b"---\na: [\n---\n"}, "README.md: its head is no YAML"),
        "up-card": ("questions", asked_outside("../../x.jsonl"), "names '../../x.jsonl' for the split una_safety"),
        "root-card": ("questions", asked_outside("/etc/passwd"), "the repository has no such file"),
        "web-card": ("questions", asked_outside("https://example.org/x.jsonl"), "the repository has no such file"),
        "csv": ("questions", {**asked_outside("x.csv"), "x.csv": b"a,b\n"}, "expected JSONL or Parquet; found x.csv"),
        "array": ("questions", {**good, NAMES[1]: b"[1]\n"}, f"{NAMES[1]} cannot be read as questions (ValueError)"),
        "half": ("questions", {**good, NAMES[1]: b'{"a": 1}\n{"a"'}, f"{NAMES[1]} cannot be read as questions"),
        "latin": ("questions", {**good, NAMES[1]: b'{"a": "\xe4"}\n'}, f"{NAMES[1]} cannot be read as questions"),
        "zipped": ("questions", {**good, NAMES[1]: gzip.compress(good[NAMES[1]])}, f"{NAMES[1]} cannot be read"),
        "no-table": ("questions", {**unfit, "a.parquet": b"PAR1", "README.md": unfit_card}, "a.parquet cannot be read"),
        "no-json": ("questions", {**unfit, "README.md": unfit_card}, "a.parquet cannot be read as questions (Ty"),
        "bomb": ("questions", {**unfit, "a.parquet": bomb, "README.md": unfit_card}, "unfolds to more than 64 MiB"),
    }  # fmt: skip
    for name, (_, files, _) in content.items():
        hub.commit(f"o/{name}", files)
    return {f"hub:o/{name}@main": (what, name, says) for name, (what, _, says) in content.items()}


def test_what_cannot_be_fetched_is_refused_with_its_place_and_nothing_is_written(desk: Desk, hub: HubServer) -> None:
    expected = _refusals(hub)
    expected["hub:o/absent@main"] = ("tasks", "absent", "no such data set, or a private one")
    expected["hub:o/many@v9"] = ("tasks", "revision", "no revision 'v9' there")
    expected[f"hub:o/many@{'0' * 40}"] = ("tasks", "commit", "no revision '000000")
    outcomes = desk.fetch(*((what, source, f"out/{name}") for source, (what, name, _) in expected.items()))
    for (source, (_, _, says)), outcome in zip(expected.items(), outcomes, strict=True):
        assert outcome.get("file") == source, outcome
        assert says in outcome["problem"], source
        assert "\x1b" not in outcome["problem"]
    assert not (desk.folder / "out").exists()
    assert not [asked for asked in hub.received if "large" in asked.path and "resolve" in asked.path]


def test_other_answers_are_told_apart(desk: Desk, hub: HubServer) -> None:
    no_hub = "does HF_ENDPOINT name a hub?"
    answers = {
        "down": (Told(503), "the hub answers HTTP 503: try again later"),
        "forbidden": (Told(403), "the hub answers HTTP 403: set HF_TOKEN to a valid token"),
        "page": (Told(200, b"<html>"), no_hub),
        "list": (Told(200, b"[]"), no_hub),
        "no-commit": (Told(200, b'{"id": "o/n", "siblings": []}'), no_hub),
        "no-text": (Told(200, b'{"id": "o/n", "sha": 1, "siblings": []}'), no_hub),
        "path": (Told(200, b'{"id": "o/n", "sha": "../../../x", "siblings": []}'), no_hub),
    }
    hub.override = lambda asked: answers[asked.path.split("/")[4]][0]
    outcomes = desk.fetch(*(("tasks", f"hub:o/{name}", "out") for name in answers))
    for (name, (_, says)), outcome in zip(answers.items(), outcomes, strict=True):
        assert outcome["file"] == f"hub:o/{name}@main"
        assert says in outcome["problem"], name


def test_no_server(desk: Desk) -> None:
    (outcome,) = desk.fetch(("tasks", "hub:o/n", "out"), HF_ENDPOINT="http://127.0.0.1:1")
    assert "the hub cannot be reached (ConnectError): check network, proxy and HF_ENDPOINT" in outcome["problem"]


def test_the_token_opens_private_data_and_is_never_shown(desk: Desk, hub: HubServer) -> None:
    hub.repositories["o/private"] = Repository(token=SECRET)
    commit = hub.commit("o/private", TASKS)
    orders = [("tasks", "hub:o/private", "out"), ("tasks", "hub:o/absent", "out")]

    opened = desk.run(PROGRAM, orders, HF_TOKEN=SECRET)
    assert json.loads(opened.stdout)[0]["commit"] == commit
    assert SECRET in hub.received[0].headers["authorization"]
    hub.override = lambda asked: Told(401, b"", {"X-Error-Message": f"not yours: {asked.headers.get('authorization')}"})
    echoed = desk.run(PROGRAM, orders, HF_TOKEN=SECRET)
    malformed = desk.run(PROGRAM, orders, HF_TOKEN=f"{SECRET}\nX-Other: 1")
    for done in (opened, echoed, malformed):
        assert "SuiteError" in done.stderr
        assert SECRET not in done.stdout + done.stderr
    kept = [p for p in desk.folder.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert kept == []


def test_the_token_does_not_follow_a_redirect_to_another_host(desk: Desk, hub: HubServer) -> None:
    elsewhere = hub.url.replace("127.0.0.1", "localhost")
    data = TASKS["bird_interact_data.jsonl"]

    def stored_elsewhere(asked: Asked) -> Told | None:
        if asked.path == "/stored":
            return Told(200, data)
        if asked.path.endswith("/bird_interact_data.jsonl"):
            headers = {"Location": f"{elsewhere}/stored", "X-Linked-Size": str(len(data)), "X-Linked-ETag": '"ab12"'}
            return Told(302, b"", {**headers, "X-Repo-Commit": commit})
        return None

    commit = hub.commit("o/n", TASKS)
    hub.override = stored_elsewhere
    desk.fetch(("tasks", "hub:o/n", "out"), HF_TOKEN=SECRET)
    assert desk.read("out/bird_interact_data.jsonl") == data
    assert "authorization" in hub.received[0].headers
    assert ["authorization" in asked.headers for asked in hub.received if asked.path == "/stored"] == [False]


def test_nobody_else_is_told(desk: Desk, hub: HubServer) -> None:
    """Whatever is sent by HTTPS to another host would ask the proxy first."""
    hub.commit("o/n", {**question_files(), **TASKS})
    with HubServer() as proxy:
        desk.fetch(("questions", "hub:o/n", "out"), ("tasks", "hub:o/n", "out"), HTTPS_PROXY=proxy.url)
        assert proxy.received == []
    assert {asked.path.split("/o/n")[0] for asked in hub.received} == {"/api/datasets", "/datasets"}


def test_links_in_the_folder_are_not_followed(desk: Desk, hub: HubServer) -> None:
    hub.commit("o/n", TASKS)
    elsewhere = desk.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.txt").write_text("kept")
    for out in ("file", "folder"):
        (desk.folder / out).mkdir()
    (desk.folder / "file" / "bird_interact_data.jsonl").symlink_to(elsewhere / "kept.txt")
    (desk.folder / "file" / ".bird_interact_data.jsonl.new").symlink_to(elsewhere / "kept.txt")
    (desk.folder / "folder" / "alien").symlink_to(elsewhere)
    (desk.folder / "taken").write_text("a file")

    file, folder, taken = desk.fetch(*(("tasks", "hub:o/n", out) for out in ("file", "folder", "taken")))

    assert "commit" in file
    assert desk.read("file/bird_interact_data.jsonl") == TASKS["bird_interact_data.jsonl"]
    assert folder["file"] == "folder/alien"
    assert "is a link" in folder["problem"]
    assert "cannot be written" in taken["problem"]
    assert [(path.name, path.read_text()) for path in elsewhere.iterdir()] == [("kept.txt", "kept")]


NAME = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._]?[A-Za-z0-9]){0,9}", fullmatch=True)


@given(NAME, NAME, st.one_of(NAME, st.just("refs/pr/3"), st.from_regex(r"[0-9a-f]{40}", fullmatch=True)))
def test_sources_are_read_as_they_are_written(owner: str, name: str, revision: str) -> None:
    source = HubSource.parse(f"hub:{owner}/{name}@{revision}")
    assert source == HubSource(f"{owner}/{name}", revision)
    assert HubSource.parse(str(source)) == source
    assert HubSource.parse(f"hub:{owner}/{name}").revision == "main"


@pytest.mark.parametrize(
    "text",
    ["", "hub:", "hub:name", "owner/name", "hub:a/b/c", "hub:a/../b", "hub:../b", "hub:/b", "hub:a/b@",
     "hub:a/b@../../x", "hub:a/b@x..y", "hub:a/b@/etc", "hub:a/b@x//y", "hub:a/b@x/", "hub:a/b@x y",
     "hub:a/b@x@y", "hub:a/b@x\n",
     "hub:a--b/c", "hub:a/b.", "hub:a/-b", "hub:ä/b", "https://huggingface.co/a/b", "HUB:a/b"],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SuiteError, match="expected"):
        HubSource.parse(text)
