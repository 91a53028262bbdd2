"""Simulators: prompt packs. A pack is a folder of jinja2 files; its digest is part of the simulator's identity."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from benchmark_core.digest import digest, digest_bytes
from benchmark_core.errors import InputError

BUILT_IN = Path(__file__).parent / "prompts"
REQUIRED = (
    "baseline_system.j2",
    "baseline_user.j2",
    "function_driven_system.j2",
    "stage1_user.j2",
    "stage2_user.j2",
    "remind_action.j2",
    "remind_reply.j2",
)
KEPT = 64
"""Rendered texts that are kept; a system prompt has some ten thousand characters."""


@dataclass(frozen=True, slots=True)
class PromptPack:
    """The prompts of a simulator. `digest`: `sha256:…` over names and contents of its files."""

    name: str
    digest: str
    _rendered: Callable[..., str] = field(repr=False, compare=False)

    def render(self, template: str, **context: Any) -> str:
        """Render once. Values are hashable, and never rendered again, whatever `{{ }}` or placeholders they hold.

        Raises:
            InputError: when the template asks for a value that there is none of.
        """
        try:
            return self._rendered(template, **context)
        except TemplateError as problem:
            raise InputError(f"prompt pack {self.name}: {template}: {problem}") from problem


def load_pack(pack: str | Path) -> PromptPack:
    """Load a pack by the name of a built-in one, or from a folder.

    Raises:
        InputError: for an unknown name, a missing file or a template that cannot be compiled.
    """
    root = BUILT_IN / pack if re.fullmatch(r"[a-z0-9][a-z0-9.-]*", str(pack)) else Path(pack)
    root = root if root.is_dir() else Path(pack)
    if not root.is_dir():
        known = ", ".join(sorted(p.name for p in BUILT_IN.iterdir() if p.is_dir()))
        raise InputError(f"prompt pack {pack}: neither a built-in pack ({known}) nor a folder")
    files = {file.name: file.read_bytes() for file in sorted(root.glob("*.j2"))}
    if missing := sorted(set(REQUIRED) - files.keys()):
        raise InputError(f"prompt pack {pack}: lacks {', '.join(missing)}")
    name = root.resolve().name
    contents = digest({file: digest_bytes(data) for file, data in files.items()})
    return PromptPack(name, contents, _renderer(_environment(name, files)))


def fence(text: str, name: str) -> str:
    """Enclose untrusted text in a tag that it cannot contain.

    The tag is made from the text itself, not drawn: the same request has the same prompt, so that caches keep working.
    """
    text = text.strip("\n")
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    while mark in text:
        mark = hashlib.sha256(mark.encode()).hexdigest()[:12]
    return f"<{name}-{mark}>\n{text}\n</{name}-{mark}>"


def one_line(text: str) -> str:
    """Text on one line, for lists."""
    return " ".join(text.split())


def _renderer(environment: Environment) -> Callable[..., str]:
    """Keeps what it rendered last: all questions of a task share the system prompt, and come one after the other."""

    @lru_cache(maxsize=KEPT, typed=True)
    def rendered(template: str, **context: Any) -> str:
        return environment.get_template(template).render(**context)

    return rendered


def _environment(name: str, files: dict[str, bytes]) -> Environment:
    try:
        sources = {file: data.decode() for file, data in files.items()}
    except UnicodeDecodeError as problem:
        raise InputError(f"prompt pack {name}: not UTF-8: {problem}") from problem
    environment = ImmutableSandboxedEnvironment(  # a pack is text that somebody else may have written
        loader=DictLoader(sources), undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(fence=fence, one_line=one_line)
    for file in sources:
        try:
            environment.get_template(file)
        except TemplateSyntaxError as problem:
            raise InputError(f"prompt pack {name}: {file}:{problem.lineno}: {problem.message}") from problem
    return environment
