"""Unit: exports hold what the ledger says and nothing of the oracle unless asked, open elsewhere, overwrite nothing."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_faults import faults
from suite_builder import small_suite, write_suite

from benchmark_core.digest import digest
from benchmark_core.errors import InputError, LedgerError, SimulatorFailure
from benchmark_core.ports import Action
from guard.excerpts import occurrences
from guard.exit_codes import ExitCode
from guard.export import BATCH, FORMAT, ExportRow, Source, fresh, rows, source
from guard.export_inspect import listed, name_for, write_inspect
from guard.export_parquet import CARD, write_dataset, write_parquet
from guard.ledger import Call, Header, ScoredItem, dump_header, dump_item
from guard.runs import RunFolder
from guard.schemas import json_schema
from guard.scoring import Scope, plan
from judge.rubric import Rating
from judge.verdict import Evidence, EvidenceKind, UnjudgedCause
from suites.load import Suite, load
from suites.questions import AmbReference, Kind, LocReference, UnaReference

CALL = Call("simulator", "sim-1", "fp", 100, 20, 1, False, 0.5)
SECRET = "v.sold_on >= DATE '2024-02-01'"
WRITERS = {"r.parquet": write_parquet, "folder": write_dataset, "log.json": write_inspect}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return small_suite(tmp_path_factory.mktemp("export") / "mart")


def header_of(suite: Suite, **changes: Any) -> Header:
    work = plan(suite, Scope())
    identities = {
        "simulator": {"variant": "function-driven", "model": "sim-1"},
        "judge": {"kind": "rule", "rubric": "reference"},
        "suite": {"name": suite.name, "version": suite.version, "digest": suite.digest},
        "plan": work.identity(),
    }
    made = Header(
        digests={name: digest(identity) for name, identity in identities.items()},
        identities=identities,
        planned=len(work.questions),
        partial=False,
        judge_class="rule",
        suite_counts=dict.fromkeys(Kind, len(work.questions) // 3),
        started="2026-12-01T10:00:00+00:00",
    )
    return replace(made, **changes)


def items_of(suite: Suite) -> list[ScoredItem]:
    """Every outcome once, retries, what a server may leave out; all other rows are right answers."""
    questions = {kind: [q for q in plan(suite, Scope()).questions if q.kind is kind] for kind in Kind}
    base = [
        ScoredItem(q.key, q.database, reply="I can't tell.", rating=Rating.A) for kind in Kind for q in questions[kind]
    ]
    amb, loc, una = (next(item for item in base if item.key.kind is kind) for kind in Kind)
    leak = f"That is {SECRET}."
    found = (Evidence(EvidenceKind.FRAGMENT, SECRET, 8, 8 + len(SECRET)),)
    special = [
        replace(amb, rating=None, reply=None, failure=SimulatorFailure.TIMEOUT, reason="too late"),
        replace(
            amb,
            attempt=2,
            reply=leak,
            rating=Rating.C,
            action=Action(Kind.AMB, "recently"),
            target_hit=True,
            reason=f"it says {SECRET}",
            confidence=0.75,
            evidence=found,
            calls=(CALL, replace(CALL, role="judge", model="judge-1", prompt_tokens=None, cached=True)),
        ),
        replace(loc, rating=None, unjudged=UnjudgedCause.UNPARSED, reason=SECRET, reply="largest first", calls=(CALL,)),
        replace(una, rating=None, reply=None, failure=SimulatorFailure.CRASHED, reason=f"KeyError: {SECRET}"),
    ]
    return special + [item for item in base if item.key not in {amb.key, loc.key, una.key}]


def written(suite: Suite, folder: Path, items: list[ScoredItem] | None = None, **changes: Any) -> RunFolder:
    lines = [dump_header(header_of(suite, **changes)), *map(dump_item, items_of(suite) if items is None else items)]
    folder.mkdir(exist_ok=True)
    (folder / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return RunFolder(folder)


@pytest.fixture(scope="module")
def folder(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return written(suite, tmp_path_factory.mktemp("export") / "run")


def all_rows(run: Source) -> list[ExportRow]:
    return [row for batch in rows(run) for row in batch]


def secrets_of(suite: Suite) -> set[str]:
    """What no public row may hold, put together anew here."""
    found: set[str] = set()
    for task in suite.tasks:
        oracle = task.oracle
        found |= {*oracle.first.sol_sql, *oracle.follow_up.sol_sql, oracle.first.query, oracle.follow_up.query}
        found |= {text for a in oracle.ambiguities for text in (a.sql_snippet, a.meaning)}
        found |= {text for entry in oracle.masked_knowledge for text in (entry.description, entry.definition)}
    for question in suite.questions:
        match question.reference:
            case AmbReference(answer=answer, facts=facts):
                found |= {answer, *(fact.text for fact in facts)}
            case LocReference(fragment=fragment, answer=answer, facts=facts):
                found |= {fragment, answer, *(fact.text for fact in facts)}
            case UnaReference(asks_for=asks_for):
                found.add(asks_for)
    return found


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


def content(out: Path) -> Any:
    """An export as JSON-like values, whatever its format."""
    if out.suffix == ".json":
        return json.loads(out.read_bytes())
    table = out if out.is_file() else out / "data" / "train-00000-of-00001.parquet"
    read = pyarrow.parquet.read_table(table)
    facts = json.loads(read.schema.metadata[b"usersim-guard"])
    return {
        "samples": read.to_pylist(),
        "facts": facts,
        "card": (out / "README.md").read_text() if out.is_dir() else "",
    }


def test_a_row_holds_what_the_ledger_says(suite: Suite, folder: RunFolder) -> None:
    found = all_rows(source(suite, folder, private=True))
    assert len(found) == len(suite.questions) == len({(r.instance_id, r.question_id, r.style, r.kind) for r in found})
    leak = next(row for row in found if row.rating is Rating.C)
    assert (leak.attempts, leak.calls, leak.cached_calls, leak.latency_s) == (2, 2, 1, 1.0)
    assert (leak.prompt_tokens, leak.completion_tokens) == (None, 40), "what one call did not tell is not known"
    assert leak.models == ("judge-1", "sim-1")
    assert (leak.action_kind, leak.target_hit, leak.confidence, leak.accepted) == (Kind.AMB, True, 0.75, False)
    assert (leak.evidence_kinds, leak.evidence_texts) == ((EvidenceKind.FRAGMENT,), (SECRET,))
    assert leak.reply == f"That is {SECRET}." and leak.reason == f"it says {SECRET}"
    assert leak.question == next(
        q.text for q in suite.questions if q.key.question_id == leak.question_id and q.kind == "AMB"
    )
    open_row = next(row for row in found if row.unjudged)
    assert (open_row.accepted, open_row.rating, open_row.prompt_tokens) == (None, None, 100)
    failed = next(row for row in found if row.failure)
    assert (failed.accepted, failed.reply, failed.calls, failed.prompt_tokens) == (False, None, 0, 0)
    assert sum(row.accepted is True for row in found) == len(found) - 3


def test_every_row_fits_its_schema(suite: Suite, folder: RunFolder, tmp_path: Path) -> None:
    schema = json_schema("export-row")
    for private in (True, False):
        out = tmp_path / f"{private}.parquet"
        write_parquet(source(suite, folder, private=private), out)
        for row in content(out)["samples"]:
            assert list(faults(row, schema)) == []


@pytest.mark.parametrize("name", WRITERS)
def test_public_exports_hold_nothing_of_the_oracle(suite: Suite, folder: RunFolder, tmp_path: Path, name: str) -> None:
    for private in (False, True):
        out = tmp_path / f"{private}-{name}"
        WRITERS[name](source(suite, folder, private=private), out)
        held = [text for text in texts(content(out)) if occurrences(text, secrets_of(suite))]
        assert bool(held) is private, held


def test_public_rows_keep_the_rest_of_a_reply(suite: Suite, folder: RunFolder) -> None:
    found = all_rows(source(suite, folder, private=False))
    leak = next(row for row in found if row.rating is Rating.C)
    assert leak.reply == "That is [withheld]."
    assert (leak.reason, leak.evidence_texts, leak.evidence_kinds) == (None, None, (EvidenceKind.FRAGMENT,))
    assert {row.reply for row in found if row.rating is Rating.A} == {"I can't tell."}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_mixture_of_words_and_secrets_gets_out(suite: Suite, tmp_path: Path, data: st.DataObject) -> None:
    secrets = sorted(secrets_of(suite))
    said = st.sampled_from(secrets).flatmap(
        lambda s: st.sampled_from([s, s.upper(), s.replace(" ", "\n "), "\u200b" + s])
    )
    pieces = st.lists(st.text(st.characters(codec="utf-8"), max_size=12) | said, min_size=1, max_size=5)
    reply = " ".join(data.draw(pieces)) + "."
    items = [replace(item, reply=reply, failure=None, unjudged=None, rating=Rating.A) for item in items_of(suite)]
    run = source(suite, written(suite, tmp_path / "run", items), private=False)
    for row in all_rows(run):
        assert row.reply is not None
        assert not occurrences(row.reply, secrets)
        assert SECRET.casefold() not in row.reply.casefold()


def test_texts_of_the_open_suite_are_published_with_it(tmp_path: Path) -> None:
    opened = load()
    question = plan(opened, Scope()).questions[0]
    item = ScoredItem(question.key, question.database, reply="all of it", rating=Rating.C, reason="wrong")
    found = all_rows(source(opened, written(opened, tmp_path / "run", [item]), private=False))
    assert [(row.reply, row.reason) for row in found] == [("all of it", "wrong")]


def test_a_large_run_is_written_in_batches(tmp_path: Path) -> None:
    large = small_suite(tmp_path / "mart", tasks=15, points=8)
    items = [ScoredItem(q.key, q.database, reply="no", rating=Rating.A) for q in plan(large, Scope()).questions]
    assert len(items) > BATCH
    run = source(large, written(large, tmp_path / "run", items), private=False)
    assert [len(batch) for batch in rows(run)] == [BATCH, len(items) - BATCH]
    write_parquet(run, tmp_path / "r.parquet")
    read = pyarrow.parquet.ParquetFile(tmp_path / "r.parquet")
    assert (read.metadata.num_row_groups, read.metadata.num_rows) == (2, len(items))
    read.close()
    write_inspect(run, tmp_path / "log.json")
    assert len(content(tmp_path / "log.json")["samples"]) == len(items)


def test_the_metadata_say_what_the_rows_are_of(suite: Suite, folder: RunFolder, tmp_path: Path) -> None:
    run = source(suite, folder, private=False)
    write_parquet(run, tmp_path / "r.parquet")
    schema = pyarrow.parquet.read_schema(tmp_path / "r.parquet")
    assert schema.names == list(ExportRow.__slots__)
    assert [str(schema.field(name).type) for name in ("accepted", "attempts", "latency_s", "models", "reply")] == [
        *("bool", "int64", "double", "list<element: string>", "string")
    ]
    assert not schema.field("question").nullable and schema.field("reply").nullable
    facts = json.loads(schema.metadata[b"usersim-guard"])
    header = header_of(suite)
    assert facts["format"] == FORMAT and facts["texts"] == "withheld"
    assert facts["digests"] == {**header.digests, "scorecard": run.scorecard.digest}
    assert facts["identities"] == json.loads(json.dumps(header.identities))
    assert (facts["judge_class"], facts["planned"], facts["missing"]) == ("rule", len(suite.questions), 0)


def test_a_dataset_folder_opens_without_code(suite: Suite, folder: RunFolder, tmp_path: Path) -> None:
    write_dataset(source(suite, folder, private=False), tmp_path / "folder")
    program = (
        "import datasets, json, sys\n"
        "found = datasets.load_dataset(sys.argv[1])\n"
        "print(json.dumps([sorted(found), found['train'].column_names, found['train'].to_list()]))\n"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "folder")],
        capture_output=True, text=True, check=False, env=environment, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    splits, columns, loaded = json.loads(done.stdout)
    assert (splits, columns) == (["train"], list(ExportRow.__slots__))
    assert loaded == content(tmp_path / "folder")["samples"]


def test_the_name_of_a_model_cannot_change_the_card(suite: Suite, tmp_path: Path) -> None:
    hostile = "x\n```\n---\nconfigs: []\n---\n# <script>"
    identities = {**header_of(suite).identities, "simulator": {"variant": "baseline", "model": hostile}}
    run = source(suite, written(suite, tmp_path / "run", identities=identities), private=False)
    write_dataset(run, tmp_path / "folder")
    card = (tmp_path / "folder" / "README.md").read_text()
    start, front, text = card.split("---\n")
    assert start == ""
    assert front == CARD.split("---\n")[1], "nothing of a run stands where `datasets` reads what to load"
    before, fenced, after = text.split("\n```")
    assert (after, json.loads(fenced.removeprefix("json"))) == ("\n", run.facts())
    assert "script" not in before


def test_a_log_has_the_shape_of_inspects(suite: Suite, folder: RunFolder, tmp_path: Path) -> None:
    """Fields of `inspect_ai.log.EvalLog`, version 2, as inspect_ai 0.3.285 reads them."""
    write_inspect(source(suite, folder, private=True), tmp_path / "log.json")
    log = content(tmp_path / "log.json")
    assert list(log) == ["version", "status", "eval", "plan", "results", "stats", "samples"]
    assert (log["version"], log["status"], log["eval"]["model"]) == (2, "success", "sim-1")
    assert {"created", "task", "dataset", "model", "config"} <= log["eval"].keys(), "what EvalSpec requires"
    assert datetime.fromisoformat(log["eval"]["created"]).tzinfo is not None
    assert log["eval"]["dataset"] == {"name": "mart", "samples": 18, "shuffled": False}
    assert log["stats"]["role_usage"]["simulator"] == {"input_tokens": 200, "output_tokens": 40, "total_tokens": 240}
    by_kind = {score["name"]: score for score in log["results"]["scores"]}
    assert list(by_kind) == ["AMB", "LOC", "UNA"]
    assert by_kind["AMB"]["metrics"]["accepted"]["value"] == pytest.approx(5 / 6)
    assert (by_kind["LOC"]["scored_samples"], by_kind["LOC"]["unscored_samples"]) == (5, 1)
    assert (by_kind["UNA"]["scored_samples"], by_kind["UNA"]["unscored_samples"]) == (6, 0)
    for score in by_kind.values():
        assert {metric["name"] for metric in score["metrics"].values()} == score["metrics"].keys()
    ids = [sample["id"] for sample in log["samples"]]
    assert len(set(ids)) == 18 and all(sample["epoch"] == 1 for sample in log["samples"])
    for sample in log["samples"]:
        assert {"id", "epoch", "input", "target"} <= sample.keys(), "what EvalSample requires"
        assert sample["messages"][0] == {"role": "user", "content": sample["input"], "source": "input"}
        assert len(sample["messages"]) == 1 + len(sample["output"]["choices"])
        assert sample["target"]


def test_a_log_never_makes_a_verdict_up(suite: Suite, folder: RunFolder, tmp_path: Path) -> None:
    write_inspect(source(suite, folder, private=False), tmp_path / "log.json")
    samples = content(tmp_path / "log.json")["samples"]
    unjudged = next(sample for sample in samples if sample["metadata"]["unjudged"])
    assert unjudged["scores"] == {} and unjudged["output"]["completion"] == "[withheld]"
    failed = next(sample for sample in samples if sample["metadata"]["failure"])
    assert failed["scores"]["UNA"]["value"] == 0 and failed["output"]["error"] == "no reply: crashed"
    assert failed["output"]["choices"] == []
    good = next(sample for sample in samples if sample["metadata"]["rating"] == "A")
    (score,) = good["scores"].values()
    assert (score["value"], score["answer"]) == (1, "A")
    assert all(sample["target"] == "" for sample in samples)


@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="Inspect AI is not installed")
def test_inspect_reads_its_log(suite: Suite, folder: RunFolder, tmp_path: Path) -> None:
    write_inspect(source(suite, folder, private=True), tmp_path / "log.json")
    program = (
        "import sys; from inspect_ai.log import read_eval_log\n"
        "whole, head = read_eval_log(sys.argv[1]), read_eval_log(sys.argv[1], header_only=True)\n"
        "print(len(whole.samples), head.status, head.results.scores[0].metrics['floor'].value)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "log.json")], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["18", "success", "0.9"], done.stderr


def test_an_unfinished_run_says_so(suite: Suite, tmp_path: Path) -> None:
    run = source(suite, written(suite, tmp_path / "run", items_of(suite)[:3]), private=False)
    write_inspect(run, tmp_path / "log.json")
    log = content(tmp_path / "log.json")
    assert (log["status"], log["results"]["completed_samples"], len(log["samples"])) == ("cancelled", 2, 2)
    assert run.facts()["missing"] == 16
    empty = source(suite, written(suite, tmp_path / "empty", []), private=False)
    for name, write in WRITERS.items():
        write(empty, tmp_path / name if name != "log.json" else tmp_path / "none.json")
    assert content(tmp_path / "none.json")["samples"] == content(tmp_path / "r.parquet")["samples"] == []


def test_names_that_inspect_lists(suite: Suite, folder: RunFolder, tmp_path: Path) -> None:
    run = source(suite, folder, private=False)
    assert name_for(run) == "2026-12-01T10-00-00_usersim-guard-score.json"
    assert listed(Path(name_for(run))) and not listed(Path("log.json"))
    with pytest.raises(InputError, match=r"\.json"):
        write_inspect(run, tmp_path / "log.eval")
    hostile = source(suite, written(suite, tmp_path / "run", started="../../x"), private=False)
    with pytest.raises(LedgerError, match="started"):
        name_for(hostile)


@pytest.mark.parametrize("name", WRITERS)
def test_files_are_the_owners_alone_and_nothing_is_overwritten(
    suite: Suite, folder: RunFolder, tmp_path: Path, name: str
) -> None:
    before = os.umask(0)
    try:
        WRITERS[name](source(suite, folder, private=True), tmp_path / "new" / name)
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert made and {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    old = [path.read_bytes() for path in made]
    with pytest.raises(InputError, match="nothing is overwritten"):
        WRITERS[name](source(suite, folder, private=False), tmp_path / "new" / name)
    assert [path.read_bytes() for path in made] == old
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name], "a draft was left"


@pytest.mark.parametrize("name", WRITERS)
def test_a_line_that_cannot_be_exported_leaves_nothing(suite: Suite, tmp_path: Path, name: str) -> None:
    items = items_of(suite)
    items[-1] = replace(items[-1], confidence=0.125)
    folder = written(suite, tmp_path / "run", items)
    folder.ledger.write_bytes(folder.ledger.read_bytes().replace(b"0.125", b"NaN"))
    with pytest.raises(LedgerError, match="finite"):
        WRITERS[name](source(suite, folder, private=True), tmp_path / "out" / name)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_count_beyond_parquet_is_named(suite: Suite, tmp_path: Path) -> None:
    items = [replace(item, calls=(replace(CALL, prompt_tokens=10**30),)) for item in items_of(suite)]
    run = source(suite, written(suite, tmp_path / "run", items), private=False)
    with pytest.raises(LedgerError, match="cannot hold"):
        write_parquet(run, tmp_path / "r.parquet")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), fresh(tmp_path / "file" / "x.parquet"):
        raise AssertionError("there is no folder")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="nothing is overwritten"), fresh(tmp_path / "link"):
        raise AssertionError("a link stands there")


def test_a_run_of_another_suite_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--suite"):
        source(small_suite(tmp_path / "mart", tasks=3), folder, private=False)


def cli(*arguments: str | Path, first: str = "") -> subprocess.CompletedProcess[str]:
    program = f"{first}\nfrom guard.cli import main\nmain()"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_command_line(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "suite")
    export = ("export", written(load(root), tmp_path / "run").root, "--suite", root, "--out")
    made = cli(*export, tmp_path / "x.json", "--format", "inspect", "--private")
    assert (made.returncode, made.stdout) == (ExitCode.OK, f"18 rows, texts whole: {tmp_path / 'x.json'}\n"), (
        made.stderr
    )
    assert "2026-12-01T10-00-00_usersim-guard-score.json" in made.stderr
    again = cli(*export, tmp_path / "x.json", "--format", "parquet")
    assert again.returncode == ExitCode.BAD_INPUT and "nothing is overwritten" in again.stderr
    as_json = cli(*export, tmp_path / "x.parquet", "--json")
    found = {"path": str(tmp_path / "x.parquet"), "format": "parquet", "rows": 18, "texts": "withheld"}
    assert json.loads(as_json.stdout) == found, as_json.stderr


def test_without_pyarrow_the_message_says_what_to_install(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "suite")
    run = written(load(root), tmp_path / "run").root
    without = "import sys; sys.modules['pyarrow'] = None"
    missing = cli("export", run, "--suite", root, "--out", tmp_path / "y.parquet", first=without)
    assert missing.returncode == ExitCode.BAD_INPUT and "pip install" in missing.stderr
    assert not (tmp_path / "y.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("schema", "--list"), ExitCode.OK, "usersim-guard/ledger-item/2"),
        (("schema", "certificate"), ExitCode.OK, '"$id": "usersim-guard/certificate/1"'),
        (("explain", "--list"), ExitCode.OK, "interrupted (exit code 130)"),
        (("explain", "below_floor", "--json"), ExitCode.OK, '"family": "reason"'),
        (("explain",), ExitCode.BAD_INPUT, "--list"),
        (("explain", "none.json"), ExitCode.NOT_VERIFIED, "none.json"),
    ],
)
def test_schemas_and_codes_on_the_command_line(arguments: tuple[str, ...], code: int, says: str) -> None:
    done = cli(*arguments)
    assert done.returncode == code, done.stderr
    assert says in (done.stderr if code else done.stdout)
    assert "Traceback" not in done.stderr
