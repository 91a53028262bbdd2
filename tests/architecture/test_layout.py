"""Architecture: what must hold of the tree itself."""

import ast
import importlib.util
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
LAYERS = {"guard": "Guard", "simulators": "Simulators", "judge": "Judge", "benchmark_core": "Benchmark core"}
PACKAGES = (*LAYERS, "datasets/suites")
MODULES = [path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py"))]


def _id(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def test_the_layers_hold() -> None:
    """The import contract of pyproject.toml, by import-linter."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_python_at_the_top_of_datasets() -> None:
    """It would make `datasets/` a package, which shadows the Hugging Face library of that name."""
    assert list((REPO / "datasets").glob("*.py")) == []


def test_hugging_faces_datasets_is_the_installed_one() -> None:
    spec = importlib.util.find_spec("datasets")
    assert spec is not None, "install the extra `dev`"
    assert spec.origin is not None, "`datasets` resolves to a bare folder"
    assert "site-packages" in Path(spec.origin).parts


def test_the_wheel_holds_suites_at_its_top_and_no_datasets(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPO, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "suites/load.py" in names
    assert "suites/data/open/manifest.toml" in names
    assert any(name.startswith("judge/prompts/") for name in names)
    assert not [name for name in names if name.startswith(("datasets/", "tests/"))]


@pytest.mark.parametrize("path", MODULES, ids=_id)
def test_the_first_docstring_line_names_the_layer(path: Path) -> None:
    package = path.relative_to(REPO).parts[0]
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert docstring.startswith(LAYERS.get(package, "Suites") + ":"), docstring[:60]


@pytest.mark.parametrize("path", MODULES, ids=_id)
def test_modules_and_functions_stay_small(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") <= 270
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


def test_only_postgres_imports_psycopg_and_only_openai_chat_imports_openai() -> None:
    allowed = {"psycopg": "benchmark_core/postgres/", "openai": "benchmark_core/openai_chat.py"}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                home = allowed.get(name.split(".")[0])
                assert home is None or _id(path).startswith(home), f"{_id(path)} imports {name}"


def test_the_extras_are_declared() -> None:
    extras = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) == {"local", "vllm", "browser", "dev"}
