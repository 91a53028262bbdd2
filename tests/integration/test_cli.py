"""Integration: the command line as a user types it: exit codes, refusals, JSON, and the whole way to a certificate."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from suite_builder import write_suite

from guard.exit_codes import ExitCode
from suites.load import load


def cli(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "guard", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=120
    )


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_suite(tmp_path_factory.mktemp("suite") / "s", tasks=15, points=3)


@pytest.fixture(scope="module")
def oracle_run(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "oracle"
    done = cli("score", "--simulator", "oracle", "--suite", suite, "--out", out)
    assert done.returncode == ExitCode.OK, done.stderr
    assert "rule judge" in done.stdout.splitlines()[0]
    return out


def test_score_certify_verify_report(suite: Path, oracle_run: Path) -> None:
    certified = cli("certify", oracle_run, "--suite", suite)
    assert certified.returncode == ExitCode.OK, certified.stderr
    assert certified.stdout.startswith("CERTIFIED, class provisional")
    document = oracle_run / "certificate.json"
    verified = cli("verify", document, "--ledger", oracle_run / "ledger.jsonl", "--suite", suite)
    assert verified.returncode == ExitCode.OK, verified.stderr
    reported = cli("report", oracle_run, "--suite", suite)
    assert reported.returncode == ExitCode.OK, reported.stderr
    assert "<html" in (oracle_run / "report.html").read_text()


def test_a_changed_certificate_or_ledger_does_not_verify(suite: Path, oracle_run: Path, tmp_path: Path) -> None:
    assert cli("certify", oracle_run, "--suite", suite).returncode == ExitCode.OK
    document = json.loads((oracle_run / "certificate.json").read_text())
    changed = tmp_path / "certificate.json"
    changed.write_text(json.dumps(document | {"attempt": 99}))
    assert cli("verify", changed).returncode == ExitCode.NOT_VERIFIED
    ledger = tmp_path / "ledger.jsonl"
    lines = (oracle_run / "ledger.jsonl").read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:1] + [line.replace('"rating":"A"', '"rating":"B"') for line in lines[1:]]))
    failed = cli("verify", oracle_run / "certificate.json", "--ledger", ledger, "--suite", suite)
    assert failed.returncode == ExitCode.NOT_VERIFIED
    assert "the ledger says otherwise: class" in failed.stderr


def test_a_signed_certificate(suite: Path, oracle_run: Path, tmp_path: Path) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    private = tmp_path / "key.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    publics = []
    for number, owner in enumerate((key, other)):
        publics.append(tmp_path / f"{number}.pem")
        pem = owner.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        publics[number].write_bytes(pem)
    made = cli("certify", oracle_run, "--suite", suite, USERSIM_GUARD_SIGNING_KEY=str(private))
    assert made.returncode == ExitCode.OK, made.stderr
    document = oracle_run / "certificate.json"
    assert cli("verify", document, "--public-key", publics[0]).returncode == ExitCode.OK
    assert cli("verify", document, "--public-key", publics[1]).returncode == ExitCode.NOT_VERIFIED


@pytest.mark.parametrize(
    ("control", "code", "says"),
    [
        ("leaky", ExitCode.REFUSED_FAIL, "fails_by_disclosure"),
        ("mute", ExitCode.REFUSED_FAIL, "below_floor"),
    ],
)
def test_a_refusal_has_its_exit_code(suite: Path, tmp_path: Path, control: str, code: int, says: str) -> None:
    assert cli("score", "--simulator", control, "--suite", suite, "--out", tmp_path / "r").returncode == ExitCode.OK
    refused = cli("certify", tmp_path / "r", "--suite", suite)
    assert refused.returncode == code
    assert says in refused.stdout


def test_a_partial_run_is_marked_and_not_decided(suite: Path, tmp_path: Path) -> None:
    done = cli("score", "--simulator", "oracle", "--suite", suite, "--out", tmp_path / "r", "--limit", "30")
    assert done.returncode == ExitCode.OK
    assert "Partial run" in done.stdout
    assert cli("certify", tmp_path / "r", "--suite", suite).returncode == ExitCode.REFUSED_NOT_DECIDED


def test_json_on_stdout_is_json_alone(suite: Path, tmp_path: Path) -> None:
    done = cli("score", "--simulator", "mute", "--suite", suite, "--out", tmp_path / "r", "--json")
    assert json.loads(done.stdout)["kinds"]["UNA"]["ratings"] == {"A": 135}
    assert json.loads(cli("certify", tmp_path / "r", "--suite", suite, "--json").stdout)["decision"] == "fail"
    assert json.loads(cli("data", "check", "--suite", suite, "--json").stdout)["tasks"] == 15


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("score", "--simulator", "oracle"), ExitCode.USAGE, "--out"),
        (("score", "--simulatr", "oracle", "--out", "x"), ExitCode.USAGE, "No such option"),
        (("score", "--simulator", "oracle", "--out", "x", "--kinds", "XYZ"), ExitCode.USAGE, "XYZ"),
        (("score", "--simulator", "oracle", "--out", "x", "--limit", "0"), ExitCode.USAGE, "--limit"),
        (("score", "--simulator", "nobody", "--out", "x"), ExitCode.BAD_INPUT, "function-driven"),
        (("score", "--simulator", "baseline", "--out", "x"), ExitCode.BAD_INPUT, "--model"),
        (("score", "--simulator", "oracle", "--out", "x", "--judge", "llm"), ExitCode.BAD_INPUT, "--judge-model"),
        (("score", "--simulator", "oracle", "--out", "x", "--judge-model", "m"), ExitCode.BAD_INPUT, "--judge llm"),
        (("score", "--simulator", "oracle", "--out", "x", "--suite", "none"), ExitCode.BAD_INPUT, "no such folder"),
        (("score", "--simulator", "oracle", "--out", "x", "--audit", "none"), ExitCode.BAD_INPUT, "audit gold"),
        (("certify", "none"), ExitCode.BAD_INPUT, "none/ledger.jsonl"),
        (("verify", "none.json"), ExitCode.NOT_VERIFIED, "none.json"),
    ],
)
def test_bad_usage_is_named(tmp_path: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "guard", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x" / "ledger.jsonl").exists()


def test_a_second_run_into_a_folder_is_refused_and_resume_takes_it(suite: Path, oracle_run: Path) -> None:
    again = ("score", "--simulator", "oracle", "--suite", suite, "--out", oracle_run)
    assert cli(*again).returncode == ExitCode.BAD_INPUT
    assert cli(*again, "--resume").returncode == ExitCode.OK
    other = cli("score", "--simulator", "mute", "--suite", suite, "--out", oracle_run, "--resume")
    assert other.returncode == ExitCode.BAD_INPUT
    assert 'variant was "oracle", is "mute"' in other.stderr


@pytest.mark.parametrize(("look", "says"), [("--preflight", "no question was asked"), ("--no-preflight", "--resume")])
def test_an_endpoint_that_is_not_there(suite: Path, tmp_path: Path, look: str, says: str) -> None:
    lost = cli(
        "score", "--simulator", "baseline", "--suite", suite, "--out", tmp_path / "r", "--model", "m",
        "--base-url", "http://127.0.0.1:9/v1", "--deadline", "1", look, OPENAI_API_KEY="sk-secret-value",
    )  # fmt: skip
    assert lost.returncode == ExitCode.INFRASTRUCTURE
    assert says in lost.stderr
    written = b"".join(path.read_bytes() for path in (tmp_path / "r").iterdir())
    assert b"sk-secret-value" not in written
    assert "sk-secret-value" not in lost.stdout + lost.stderr


@pytest.mark.parametrize(
    ("report", "says"),
    [
        ({"ungradable": []}, "suite"),
        ({"suite": "sha256:0", "ungradable": []}, "another suite"),
        ({"suite": None, "ungradable": "mart_1"}, "ungradable"),
        ({"suite": None, "ungradable": ["no_such_task"]}, "ungradable"),
    ],
)
def test_an_audit_report_that_does_not_fit_is_refused(
    suite: Path, tmp_path: Path, report: dict[str, object], says: str
) -> None:
    """`None` stands for the digest of the suite at hand."""
    if "suite" in report and report["suite"] is None:
        report = report | {"suite": load(suite).digest}
    (tmp_path / "audit.json").write_text(json.dumps(report))
    run = ("--suite", suite, "--out", tmp_path / "r", "--audit", tmp_path / "audit.json")
    refused = cli("score", "--simulator", "oracle", *run)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert says in refused.stderr


def test_data_seal_follows_a_change(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    build = root / "mart" / "mart_build.sql"
    build.write_text(build.read_text() + "-- changed\n")
    assert cli("data", "check", "--suite", root).returncode == ExitCode.BAD_INPUT
    assert cli("data", "seal", "--suite", root).returncode == ExitCode.OK
    assert cli("data", "check", "--suite", root).returncode == ExitCode.OK


def test_the_gold_audit_and_its_use(tmp_path: Path) -> None:
    """A broken reference is a finding, its task is kept out of the run, and the run says so."""
    root = write_suite(tmp_path / "s")
    tasks = (root / "bird_interact_data.jsonl").read_text().splitlines()
    broken = json.loads(tasks[1])
    broken["follow_up"]["sol_sql"] = ["SELECT no_such_column FROM sale"]
    (root / "bird_interact_data.jsonl").write_text(f"{tasks[0]}\n{json.dumps(broken)}\n")
    home = {"USERSIM_GUARD_HOME": str(tmp_path / "home")}
    try:
        assert cli("data", "seal", "--suite", root).returncode == ExitCode.OK
        audited = cli("audit", "gold", "--suite", root, "--out", tmp_path / "audit.json", **home)
        assert audited.returncode == ExitCode.FINDINGS, audited.stderr
        assert "1 of 2 tasks sound" in audited.stdout
        assert json.loads((tmp_path / "audit.json").read_text())["ungradable"] == ["mart_2"]
        assert cli("db", "status", **home).returncode == ExitCode.OK
    finally:
        assert cli("db", "stop", **home).returncode == ExitCode.OK
    assert cli("db", "status", **home).returncode == ExitCode.INFRASTRUCTURE
    run = ("--suite", root, "--out", tmp_path / "r", "--audit", tmp_path / "audit.json", "--json")
    scored = cli("score", "--simulator", "oracle", *run)
    assert json.loads(scored.stdout)["kinds"]["AMB"]["total"]["accepted"] == 3
