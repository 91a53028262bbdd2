"""Integration: the wheel, installed outside the tree, and the newcomer's path of the README, run as it is printed."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai_server import OpenAIServer
from scripted_backbone import MODEL, backbone

from guard.exit_codes import ExitCode

ROOT = Path(__file__).parents[2]
PACKAGES = {"guard", "judge", "simulators", "benchmark_core", "suites"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, out], check=True, capture_output=True, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it; its dependencies are those of this environment, our tree is not."""
    root = tmp_path_factory.mktemp("newcomer") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    python = root / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([str(part) for part in install], check=True, capture_output=True)
    (site,) = root.glob("lib/python*/site-packages")
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(here + "\n")
    return root / "bin"


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with backbone() as running:
        yield running


def test_the_wheel_holds_our_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == PACKAGES, "a folder `datasets` in it would overwrite Hugging Face's"
    for needed in ("guard/templates/board.html.j2", "suites/data/open/manifest.toml", "judge/prompts/output.j2"):
        assert needed in names
    assert not [name for name in names if "test" in name.casefold() or name.endswith((".sqlite", ".pem"))]


def test_the_installed_package_is_the_wheels(bin_folder: Path, tmp_path: Path) -> None:
    where = "import guard, suites, datasets; print(guard.__file__, suites.__file__, datasets.__version__)"
    done = subprocess.run(
        [bin_folder / "python", "-c", where], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.count(str(bin_folder.parent)) == 2
    assert str(ROOT) not in done.stdout


def newcomers_path() -> list[tuple[str, int]]:
    """The lines of the README's console block, each with the exit code that its comment announces."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = []
    for line in block.splitlines():
        announced = re.search(r"#.*\bexit (\d+)", line)
        lines.append((line, int(announced[1]) if announced else 0))
    return lines


def test_the_newcomers_path_runs_as_printed(bin_folder: Path, server: OpenAIServer, tmp_path: Path) -> None:
    """But for the set-up lines (environment, installation, address), which `bin_folder` and the variables stand for."""
    steps = [step for step in newcomers_path() if step[0].startswith("usersim-guard ")]
    assert len(steps) == 11
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OPENAI", "VIRTUAL"))},
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": "KEY",
        "MODEL": MODEL,
    }
    said = {}
    for line, code in steps:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        said[line.split("#")[0].strip()] = done.stdout
    assert "UNA below_floor" in said["usersim-guard certify runs/baseline"]
    assert "change the simulator" in said["usersim-guard explain runs/baseline/certificate.json"]
    assert said["usersim-guard certify runs/function-driven"].startswith("CERTIFIED, class provisional")
    assert "UNA: B higher." in said["usersim-guard compare runs/baseline runs/function-driven"]
    assert (tmp_path / "board.html").stat().st_size > 10_000
    assert server.paid_calls[0].headers["authorization"] == "Bearer KEY"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["board.html", "runs"]


def test_every_command_and_exit_code_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    helped = subprocess.run(
        [sys.executable, "-m", "guard", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    commands = re.findall(r"^│ ([a-z][a-z-]+) ", helped, re.MULTILINE)
    assert len(commands) > 12
    assert [name for name in commands if f"`{name}" not in text] == []
    for code in ExitCode:
        assert re.search(rf"^\| (?:\d+, )*{code.value}(?:, \d+)* \| \S", text, re.MULTILINE), code
