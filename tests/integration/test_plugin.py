"""A simulator as a plugin: real distributions in a folder on the path."""

import asyncio
import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from suite_builder import small_suite

from benchmark_core.digest import digest
from benchmark_core.errors import InputError, SimulatorError, SimulatorFailure
from benchmark_core.ports import Action, Ask, Reply
from simulators.plugin import GROUP, load_plugin
from suites.questions import Kind
from suites.tasks import Oracle

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/plugin"
SECRET = "sk-plugin-0123456789"

HEAD = """
from benchmark_core.errors import SimulatorError, SimulatorFailure
from benchmark_core.chat import Completion, Usage
from benchmark_core.ports import Action, Ask, Reply
from suites.questions import Kind

class Base:
    identity = {"version": 1}
    def __init__(self, **options):
        self.options = options
    async def answer(self, ask):
        return Reply("fine")
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution: a module and a dist-info, in a folder of its own on the path."""
    modules = []

    def install(module: str, code: str, points: dict[str, str], *, name: str = "", version: str = "1.2") -> None:
        name = name or module.replace("_", "-")
        site = tmp_path / name
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(HEAD + textwrap.dedent(code))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = "".join(f"{point} = {value}\n" for point, value in points.items())
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
        monkeypatch.syspath_prepend(site)
        modules.append(module)

    yield install
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return small_suite(tmp_path_factory.mktemp("suite")).tasks[0].oracle


def answer(oracle: Oracle, name: str = "mine", options: dict[str, str] | None = None) -> Reply:
    async def main() -> Reply:
        plugin, _ = load_plugin(name, options or {})
        async with plugin:
            return await plugin.answer(Ask("What is recently?", oracle))

    return asyncio.run(main())


def refused(name: str = "mine", **options: str) -> str:
    with pytest.raises(InputError) as caught:
        load_plugin(name, options)
    return str(caught.value)


def test_a_plugin_answers_and_its_identity_names_its_package(install: Install, oracle: Oracle) -> None:
    install("plug_a", "class Mine(Base): pass", {"mine": "plug_a:Mine"})
    assert answer(oracle) == Reply("fine")
    _, identity = load_plugin("mine", {})
    assert identity == {
        "variant": "plugin",
        "plugin": "mine",
        "package": "plug-a",
        "version": "1.2",
        "identity": {"version": 1},
    }


def test_options_reach_the_plugin_as_text(install: Install, oracle: Oracle) -> None:
    code = """
    class Mine(Base):
        async def answer(self, ask):
            return Reply(repr(sorted(self.options.items())))
    """
    install("plug_options", code, {"mine": "plug_options:Mine"})
    assert answer(oracle, options={"temperature": "0", "model": "m"}).text == "[('model', 'm'), ('temperature', '0')]"


def test_the_entry_point_may_be_a_function(install: Install, oracle: Oracle) -> None:
    install("plug_function", "def build(**options): return Base(**options)", {"mine": "plug_function:build"})
    assert answer(oracle).text == "fine"


def test_action_and_completions_come_through(install: Install, oracle: Oracle) -> None:
    code = """
    class Mine(Base):
        async def answer(self, ask):
            spent = Completion("a", "m-1", usage=Usage(3, 4), latency_s=1)
            return Reply("a", Action(Kind.AMB, "recently"), (spent,))
    """
    install("plug_action", code, {"mine": "plug_action:Mine"})
    reply = answer(oracle)
    assert reply.action == Action(Kind.AMB, "recently")
    assert reply.completions[0].usage.prompt_tokens == 3


def test_a_plugin_that_holds_connections_is_opened_and_closed(install: Install, oracle: Oracle) -> None:
    code = """
    log = []
    class Mine(Base):
        async def __aenter__(self):
            log.append("open")
        async def __aexit__(self, *error):
            log.append("closed")
        async def answer(self, ask):
            log.append("asked")
            return Reply("a")
    """
    install("plug_context", code, {"mine": "plug_context:Mine"})
    answer(oracle)
    assert sys.modules["plug_context"].log == ["open", "asked", "closed"]


def test_identity_is_as_it_will_be_read_back(install: Install) -> None:
    code = """
    class Mine(Base):
        @property
        def identity(self):
            return {"b": (1, 2), "a": {"x": None}}
    """
    install("plug_tuple", code, {"mine": "plug_tuple:Mine"})
    _, identity = load_plugin("mine", {})
    assert identity["identity"] == {"a": {"x": None}, "b": [1, 2]}
    assert digest(identity) == digest(load_plugin("mine", {})[1])


def test_an_unknown_name_lists_what_is_installed(install: Install) -> None:
    assert "installed: none" in refused("other")
    install("plug_b", "class Mine(Base): pass", {"mine": "plug_b:Mine", "second": "plug_b:Mine"})
    message = refused("other")
    assert "no simulator plugin is called other; installed: mine, second" in message
    assert GROUP in message


def test_two_packages_with_the_same_name_are_refused(install: Install) -> None:
    install("plug_c", "class Mine(Base): pass", {"mine": "plug_c:Mine"})
    install("plug_d", "class Mine(Base): pass", {"mine": "plug_d:Mine"}, version="3")
    message = refused()
    assert "plug-c 1.2 (plug_c:Mine), plug-d 3 (plug_d:Mine)" in message
    assert "uninstall all but one" in message


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("class Mine(Base):\n    def answer(self, ask): return Reply('a')", "Mine has no `async def answer"),
        ("class Mine:\n    identity = {}", "Mine has no `async def answer"),
        ("def Mine(): return None", "NoneType has no `async def answer"),
        ("class Mine(Base): identity = None", "it is NoneType, expected a mapping"),
        ("class Mine(Base):\n    def identity(self): return {}", "it is method, expected a mapping"),
        ("class Mine(Base): identity = {'a': object()}", "not JSON serializable"),
        ("class Mine(Base): identity = {'a': float('nan')}", "not JSON compliant"),
        ("class Mine(Base): identity = {'a': 1, 2: 3}", "`identity` must be a mapping that JSON can hold"),
        ("class Mine(Base):\n    @property\n    def identity(self): raise KeyError('gone')", "KeyError: 'gone'"),
        ("class Mine:\n    async def answer(self, ask): return Reply('a')", "no attribute 'identity'"),
        ("Mine = 3", "cannot be built: TypeError"),
        ("class Mine(Base):\n    def __init__(self): raise OSError('no weights')", "built: OSError: no weights"),
        ("import not_there_at_all", "cannot be built: ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("Other = 1", "cannot be built: AttributeError"),
        ("this is no python", "cannot be built: SyntaxError"),
    ],
)  # fmt: skip
def test_the_wrong_shape_is_refused_when_it_is_loaded(install: Install, code: str, expected: str) -> None:
    install("plug_wrong", code, {"mine": "plug_wrong:Mine"})
    message = refused()
    assert "plugin mine (plug_wrong:Mine)" in message
    assert expected in message


def test_an_unknown_option_is_refused(install: Install) -> None:
    install("plug_e", "class Mine(Base):\n    def __init__(self, model): pass", {"mine": "plug_e:Mine"})
    assert "unexpected keyword argument 'modle'" in refused(modle="m")


def test_a_secret_option_is_never_shown(install: Install, oracle: Oracle) -> None:
    code = """
    class Mine(Base):
        async def answer(self, ask):
            raise RuntimeError(f"401 for {self.options['api_key']}")

    def broken(api_key):
        raise ValueError(f"bad key {api_key}")
    """
    install("plug_secret", code, {"mine": "plug_secret:Mine", "broken": "plug_secret:broken"})
    assert "bad key [option api_key]" in refused("broken", api_key=SECRET)
    with pytest.raises(SimulatorError) as caught:
        answer(oracle, options={"api_key": SECRET})
    assert caught.value.detail == "RuntimeError: 401 for [option api_key]"
    assert SECRET not in repr(load_plugin("mine", {"api_key": SECRET})[1])


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("return 'a'", SimulatorFailure.MALFORMED),
        ("return None", SimulatorFailure.MALFORMED),
        ("return Reply(None)", SimulatorFailure.MALFORMED),
        ("return Reply(b'a')", SimulatorFailure.MALFORMED),
        (r"return Reply('\ud800')", SimulatorFailure.MALFORMED),
        ("return Reply('a', action='AMB')", SimulatorFailure.MALFORMED),
        ("return Reply('a', completions=('m',))", SimulatorFailure.MALFORMED),
        ("return Reply('a', completions=(Completion('a', 'm', usage=Usage('3')),))", SimulatorFailure.MALFORMED),
        ("return Reply('a', completions=(Completion('a', 'm', latency_s=float('nan')),))", SimulatorFailure.MALFORMED),
        ("return Reply(' ')", SimulatorFailure.EMPTY),
        ("raise RuntimeError('broken')", SimulatorFailure.CRASHED),
        ("raise SimulatorError(SimulatorFailure.TIMEOUT, 'slow')", SimulatorFailure.TIMEOUT),
    ],
)
def test_a_bad_answer_is_a_failure_of_that_question(
    install: Install, oracle: Oracle, body: str, cause: SimulatorFailure
) -> None:
    install("plug_answer", f"class Mine(Base):\n    async def answer(self, ask): {body}", {"mine": "plug_answer:Mine"})
    with pytest.raises(SimulatorError) as caught:
        answer(oracle)
    assert caught.value.cause is cause


def test_a_plain_text_for_an_answer_is_explained(install: Install, oracle: Oracle) -> None:
    install("plug_text", "class Mine(Base):\n    async def answer(self, ask): return 'a'", {"mine": "plug_text:Mine"})
    with pytest.raises(SimulatorError, match="gave str, expected Reply"):
        answer(oracle)


def test_the_example_package_works_where_it_is_installed(tmp_path: Path) -> None:
    """Another process, so that nothing of this one helps: the example's files, its metadata, and a path."""
    project: dict[str, Any] = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copy(EXAMPLE / "my_simulator.py", tmp_path)
    info = tmp_path / f"my_simulator-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    [(name, value)] = project["entry-points"][GROUP].items()
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {value}\n")
    code = """
        import asyncio
        from benchmark_core.ports import Ask
        from simulators.plugin import load_plugin
        from suites.load import load
        suite = load()
        question = next(q for q in suite.questions if "money pit" in q.text)
        plugin, identity = load_plugin("my-simulator", {"greeting": "Well."})
        print(identity)
        ask = Ask("What are money pits?", suite.oracles[question.key.instance_id])
        print(asyncio.run(plugin.answer(ask)).text)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    identity, said = done.stdout.splitlines()
    assert "'package': 'my-simulator', 'version': '0.1.0', 'identity': {'greeting': 'Well.'}" in identity
    assert said.startswith("Well. By that I mean bikes whose repairs")
