"""The doctor's checks on real parts: folders, limits, keys, suites, PostgreSQL, endpoints that hang."""

import asyncio
import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from chat_server import Answer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from official_builder import write_questions, write_tasks
from openai_server import OpenAIServer, models
from suite_builder import write_suite

from benchmark_core.postgres import server as servers
from guard import doctor_machine as machine
from guard import doctor_parts as parts
from guard.choices import EndpointChoice, Role
from guard.doctor import Wanted, diagnose, to_json
from guard.doctor_names import check_names
from guard.finding import Finding, line
from suites.imports import Inputs, import_official
from suites.load import OPEN


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    return Wanted(OPEN, tmp_path / "runs", tmp_path / "home" / "postgres")


def by_name(findings: list[Finding], name: str) -> Finding:
    return next(finding for finding in findings if finding.name == name)


def test_a_sound_machine_gets_a_line_a_check_and_nothing_is_started(wanted: Wanted, tmp_path: Path) -> None:
    findings = asyncio.run(diagnose(wanted))
    assert not [line(finding) for finding in findings if finding.level == "fail"]
    assert {finding.name for finding in findings} >= {
        "python", "packages", "package names", "postgresql", "room for runs", "room for server state", "/dev/shm",
        "memory", "open files", "temporary files", "clock", "scheduler", "data", "gold", "signing key",
        "simulator endpoint", "judge endpoint",
    }  # fmt: skip
    assert by_name(findings, "postgresql").seen.startswith("embedded binaries, version 1")
    assert list(tmp_path.iterdir()) == []
    assert all(finding.repair for finding in findings if finding.level == "warn")
    document = to_json(findings)
    assert document["schema"] == "usersim-guard/doctor/1"
    assert set(document["checks"][0]) == {"name", "level", "seen", "repair"}


def test_what_hangs_is_a_finding_and_holds_nobody_up(wanted: Wanted, tmp_path: Path) -> None:
    """A suite on a dead disk (a pipe that nobody writes to) and an endpoint that does not answer."""
    pipe = tmp_path / "suite" / "manifest.toml"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with OpenAIServer({"/v1/models": Answer({}, delay_s=60)}) as server:
        hanging = replace(wanted, suite=pipe.parent, judge=EndpointChoice("m", server.base_url, "NO_KEY"))
        started = time.monotonic()
        findings = asyncio.run(diagnose(hanging, deadline_s=3))
        assert time.monotonic() - started < 15
    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))  # lets the waiting thread go
    assert by_name(findings, "data").level == "fail"
    assert "no result within 3 s" in by_name(findings, "data").seen
    assert by_name(findings, "judge endpoint").level == "fail"
    assert by_name(findings, "clock").level == "ok"


def test_a_check_that_breaks_is_a_finding(wanted: Wanted) -> None:
    findings = asyncio.run(diagnose(replace(wanted, out=Path("a" * 5000))))
    assert "the check broke: OSError" in by_name(findings, "room for runs").seen
    assert by_name(findings, "clock").level == "ok"


def test_endpoints_are_looked_at_for_free_and_keys_are_not_shown(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR_KEY", "sk-secret-of-the-simulator")
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with OpenAIServer({"/v1/models": models("backbone")}) as server:
        simulator = EndpointChoice("backbone", server.base_url, "SIMULATOR_KEY")
        judge = EndpointChoice("judge", server.base_url, "JUDGE_KEY")
        findings = asyncio.run(diagnose(replace(wanted, simulator=simulator, judge=judge)))
        assert not server.paid_calls
        assert server.received[0].headers.get("authorization") or server.received[1].headers.get("authorization")
    assert by_name(findings, "simulator model").level == "ok"
    assert by_name(findings, "judge model").level == "fail"
    assert (by_name(findings, "simulator key").level, by_name(findings, "judge key").level) == ("ok", "warn")
    assert "export JUDGE_KEY=" in by_name(findings, "judge key").repair
    assert "sk-secret" not in str(to_json(findings))


def test_an_address_or_key_that_cannot_work_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAD_KEY", "sk-two words")
    for choice in (EndpointChoice("m", "localhost:8000"), EndpointChoice("m", "http://h/v1", "BAD_KEY")):
        [found] = asyncio.run(parts.check_served(Role.JUDGE, choice))
        assert found.level == "fail"
        assert "two words" not in found.seen


# --- the machine


def test_python_and_packages_are_held_against_the_ranges_of_the_installed_distribution() -> None:
    [python] = machine.check_python()
    assert python.level == "ok" and ">=3.11" in python.seen
    [packages] = machine.check_packages()
    assert packages.level == "ok"


def test_a_package_out_of_its_range_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution of ours that stands first on the path, and wants what is not there."""
    info = tmp_path / "usersim_guard-9.dist-info"
    info.mkdir()
    wants = ["pydantic>=99", "no-such-package>=1", "openai[aiohttp]>=1", "absent-extra; extra == 'dev'"]
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: usersim-guard\nVersion: 9\nRequires-Python: >=3.99\n"
        + "".join(f"Requires-Dist: {want}\n" for want in wants)
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = list(machine.check_packages())
    assert [finding.level for finding in found] == ["fail", "fail"]
    assert found[0].seen.startswith("pydantic ") and found[0].repair == "pip install 'pydantic>=99'"
    assert found[1].seen == "no-such-package is missing; needed is >=1"
    [python] = machine.check_python()
    assert python.level == "fail"


def test_room_is_looked_for_where_a_folder_will_be(tmp_path: Path) -> None:
    [found] = machine.check_room("runs", tmp_path / "not" / "yet")
    assert found.level == "ok" and str(tmp_path) in found.seen
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    [found] = machine.check_room("runs", tmp_path / "file" / "below")
    assert found.level == "fail" and "cannot be written to" in found.seen


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/sys").is_dir(), reason="no folder that root cannot write")
def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    closed = Path("/proc/sys") if os.geteuid() == 0 else tmp_path  # root may write to all but the kernel's own
    tmp_path.chmod(0o500)
    [found] = machine.check_room("runs", closed / "runs")
    tmp_path.chmod(0o700)
    assert found.level == "fail"


@pytest.mark.parametrize(("limit", "level", "carries"), [(72, "fail", 4), (100, "warn", 18), (500, "ok", 218)])
def test_open_files_carry_a_concurrency(limit: int, level: str, carries: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        [found] = machine.check_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (found.level, found.seen) == (level, f"limit {limit}, enough for --concurrency {carries}")
    assert bool(found.repair) is (level != "ok")


def test_no_scheduler_is_no_fault() -> None:
    [found] = machine.check_scheduler()
    if shutil.which("sbatch") is None:
        assert (found.level, "only for SLURM jobs" in found.seen) == ("skipped", True)
    else:
        assert found.level in ("ok", "warn")


# --- names


@contextmanager
def on_the_path(folder: Path) -> Iterator[None]:
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def test_names_are_ours() -> None:
    [found] = check_names()
    assert found.level == "ok"
    assert "Hugging Face" in found.seen


def test_a_name_behind_ours_is_a_warning(tmp_path: Path) -> None:
    """It wins as soon as the order of the path changes."""
    (tmp_path / "judge.py").write_text("")
    with on_the_path(tmp_path):
        [found] = check_names()
    assert found.level == "warn"
    assert str(tmp_path / "judge.py") in found.seen and "behind" in found.seen


def test_a_bare_folder_shadows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("guard", "datasets"):
        (tmp_path / name).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert [finding.level for finding in check_names()] == ["ok"]


# --- the parts


def key_file(path: Path, mode: int) -> Path:
    text = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(text)
    path.chmod(mode)
    return path


def test_the_signing_key(tmp_path: Path) -> None:
    def check(value: str | None) -> Finding:
        [found] = parts.check_signing_key({parts.SIGNING_VARIABLE: value} if value is not None else {})
        return found

    assert (check(None).level, check("").level) == ("skipped", "skipped")
    assert check(str(tmp_path / "none")).level == "fail"
    assert check(str(key_file(tmp_path / "good", 0o600))).level == "ok"
    seen = check(str(key_file(tmp_path / "open", 0o644)))
    assert (seen.level, seen.repair) == ("fail", f"chmod 600 {tmp_path / 'open'}")
    (tmp_path / "no key").write_text("PRIVATE TEXT")
    broken = check(str(tmp_path / "no key"))
    assert broken.level == "fail" and "PRIVATE TEXT" not in broken.seen


def test_data_that_cannot_be_read_names_the_place(tmp_path: Path) -> None:
    root = write_suite(tmp_path / "s")
    [data, gold] = parts.check_suite(root)
    assert (data.level, gold.level) == ("ok", "ok")
    assert "questions_amb" in data.seen and "sha256:" in data.seen
    (root / "data_labeled.jsonl").write_text("{}\n")
    [data] = parts.check_suite(root)
    assert data.level == "fail" and "data_labeled.jsonl" in data.seen


def test_an_official_suite_without_gold_says_how_to_get_it(tmp_path: Path) -> None:
    questions = write_questions(tmp_path / "q", ["mart_1", "mart_2"])
    tasks = write_tasks(tmp_path / "t", ["mart_1"])
    import_official(tmp_path / "suite", Inputs(str(questions), str(tasks)))
    found = {finding.name: finding for finding in parts.check_suite(tmp_path / "suite")}
    assert found["data"].level == "ok"
    assert found["tasks"].level == "warn" and found["tasks"].seen.startswith("1 of 2 ")
    assert found["gold"].level == "warn" and "bird.bench25@gmail.com" in found["gold"].repair


def test_a_running_server_is_seen_and_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    server = servers.start(state)
    try:
        [found] = parts.check_postgres(None, state)
        assert found.level == "ok" and f"running, pid {server.pid}" in found.seen
        external, limit = parts.check_postgres(server.dsn, state)
        assert external.level == "ok" and "version 18" in external.seen
        assert limit.level == "warn" and limit.seen.startswith("memory") and limit.repair
        still = servers.status(state)
        assert still is not None and still.pid == server.pid
    finally:
        assert servers.stop(state)


def test_an_external_server_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        dsn = f"host=127.0.0.1 port={taken.getsockname()[1]} user=boss password=a-secret"
        [found] = parts.check_postgres(dsn, tmp_path)
    assert found.level == "fail" and "USERSIM_GUARD_DSN" in found.repair
    assert "a-secret" not in line(found)
    [unread] = parts.check_postgres("this is no dsn a-secret", tmp_path)
    assert unread.level == "fail" and "a-secret" not in line(unread)


def test_a_state_folder_that_others_can_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    [found] = parts.check_postgres(None, tmp_path)
    assert found.level == "fail" and "mode 700" in found.seen
