"""Integration: `doctor` as a user types it, in folders that hold what shadows the project's names."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer, models

from guard.exit_codes import ExitCode

MODULE = (sys.executable, "-m", "guard")
SCRIPT = (str(Path(sys.executable).with_name("usersim-guard")),)


def run(command: tuple[str, ...], *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, in a folder and with a home of the test."""
    path = os.pathsep.join(filter(None, (environment.pop("FIRST", ""), os.environ.get("PYTHONPATH", ""))))
    surroundings = {**os.environ, "USERSIM_GUARD_HOME": str(cwd / "home"), "PYTHONPATH": path, **environment}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=surroundings, timeout=60
    )


def strays(done: subprocess.CompletedProcess[str], folder: Path) -> list[dict[str, Any]]:
    """The findings about package names that lie below a folder."""
    assert done.stdout, done.stderr
    checks = json.loads(done.stdout)["checks"]
    return [check for check in checks if check["name"] == "package names" and str(folder) in check["seen"]]


def test_a_sound_set_up_ends_with_0_and_reads_well(tmp_path: Path) -> None:
    done = run(MODULE, "doctor", cwd=tmp_path)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    for name in ("python", "packages", "package names", "postgresql", "data", "signing key"):
        assert f"\n {name} " in done.stdout
    assert " fail " not in done.stdout
    assert list(tmp_path.iterdir()) == [], "doctor starts and writes nothing"


def test_a_failed_check_ends_with_9_and_never_shows_the_key(tmp_path: Path) -> None:
    with OpenAIServer({"/v1/models": models("served")}) as server:
        flags = ("--model", "sevred", "--base-url", server.base_url, "--api-key-env", "THE_KEY")
        done = run(SCRIPT, "doctor", *flags, "--json", cwd=tmp_path, THE_KEY="sk-not-to-be-shown")
        assert server.received[0].headers["authorization"] == "Bearer sk-not-to-be-shown"
    assert done.returncode == ExitCode.FINDINGS, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "usersim-guard/doctor/1"
    [failed] = [check for check in document["checks"] if check["level"] == "fail"]
    assert (failed["name"], failed["repair"]) == ("simulator model", "give --model one that it lists: served")
    assert "sk-not-to-be-shown" not in done.stdout + done.stderr


def test_server_text_is_no_markup(tmp_path: Path) -> None:
    with OpenAIServer({"/v1/models": models("[bold]x[/bold]\x1b[31m")}) as server:
        done = run(MODULE, "doctor", "--model", "[bold]y[/bold]", "--base-url", server.base_url, cwd=tmp_path)
    assert "[bold]x[/bold]" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_foreign_datasets_on_the_path_is_named(tmp_path: Path) -> None:
    foreign = tmp_path / "elsewhere" / "datasets" / "__init__.py"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("raise SystemExit('imported')")
    done = run(SCRIPT, "doctor", "--json", cwd=tmp_path, FIRST=str(tmp_path / "elsewhere"))
    assert done.returncode == ExitCode.FINDINGS
    [found] = strays(done, tmp_path)
    assert found["level"] == "fail"
    assert str(foreign.parent) in found["seen"] and "not Hugging Face's" in found["seen"]
    assert "PYTHONPATH" in found["repair"]


def test_strays_in_the_current_folder_are_warned_of(tmp_path: Path) -> None:
    """The script does not look there; `python -m guard` would take them without a word."""
    (tmp_path / "guard.py").write_text("raise SystemExit('imported')")
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "__init__.py").write_text("raise SystemExit('imported')")
    done = run(SCRIPT, "doctor", "--json", cwd=tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    found = strays(done, tmp_path)
    assert [check["level"] for check in found] == ["warn", "warn"]
    assert str(tmp_path / "guard.py") in found[0]["seen"]
    assert str(tmp_path / "suites") in found[1]["seen"]


@pytest.mark.parametrize(("command", "code"), [("doctor", ExitCode.FINDINGS), ("certify", ExitCode.BAD_INPUT)])
def test_a_shadowed_name_is_said_in_place_of_a_traceback(tmp_path: Path, command: str, code: ExitCode) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "__init__.py").write_text("")
    done = run(MODULE, command, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("fail: package names: Python takes `suites` from " + str(tmp_path / "suites"))
    assert "Traceback" not in done.stderr


def test_another_package_that_brings_the_name_is_named(tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "courtroom-1.dist-info"
    info.mkdir(parents=True)
    (site / "judge").mkdir()
    (site / "judge" / "__init__.py").write_text("")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: courtroom\nVersion: 1\n")
    (info / "top_level.txt").write_text("judge\n")
    done = run(MODULE, "doctor", cwd=tmp_path, FIRST=str(site))
    assert done.returncode == ExitCode.FINDINGS, done.stderr
    assert "the installed package courtroom brings one" in done.stderr


def test_any_other_import_error_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("")
    done = run(MODULE, "doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "ImportError" in done.stderr or "AttributeError" in done.stderr
