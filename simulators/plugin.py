"""Simulators: somebody's own Python class, found by entry point. It runs in process, is trusted, sees the oracle."""

import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from importlib.metadata import EntryPoint, entry_points
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter

from benchmark_core.chat_wire import clean
from benchmark_core.digest import canonical
from benchmark_core.errors import InputError, SimulatorError, SimulatorFailure
from benchmark_core.ports import Ask, Reply, UserSimulator

GROUP = "usersim_guard.simulators"
SECRET_LENGTH = 8  # option values from this length on are taken for secrets in messages

_REPLY = TypeAdapter(Reply)


class Plugin:
    """A `UserSimulator` around somebody's object; an async context manager, which opens and closes the object if it is
    one too.

    Holds the object to the port: what is no sound `Reply` would break the ledger long after the fault.
    """

    def __init__(self, simulator: UserSimulator, options: Mapping[str, str]) -> None:
        self._simulator, self._options = simulator, options

    async def __aenter__(self) -> Self:
        if isinstance(self._simulator, AbstractAsyncContextManager):
            await self._simulator.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._simulator, AbstractAsyncContextManager):
            await self._simulator.__aexit__(kind, error, trace)

    async def answer(self, ask: Ask) -> Reply:
        """Have the object answer.

        Raises:
            SimulatorError: its own; CRASHED for any other exception; MALFORMED for a value that is no sound `Reply`;
                EMPTY for one without text.
        """
        try:
            reply = await self._simulator.answer(ask)
        except SimulatorError:
            raise
        except Exception as stray:
            raise SimulatorError(SimulatorFailure.CRASHED, _told(stray, self._options)) from stray
        if not isinstance(reply, Reply):
            raise SimulatorError(SimulatorFailure.MALFORMED, f"answer() gave {type(reply).__name__}, expected Reply")
        try:
            sound = _REPLY.validate_json(canonical(asdict(reply)), strict=True)
        except (ValueError, TypeError) as error:
            raise SimulatorError(SimulatorFailure.MALFORMED, _told(error, self._options)) from None
        if not sound.text.strip():
            raise SimulatorError(SimulatorFailure.EMPTY, "the reply has no text", completions=sound.completions)
        return sound


def load_plugin(name: str, options: Mapping[str, str]) -> tuple[Plugin, dict[str, Any]]:
    """Find, build and check a plugin.

    Args:
        name: of the entry point in the group `usersim_guard.simulators`.
        options: given to the entry point as keyword arguments, all text. No part of the identity, since they may hold
            keys: what of them makes another simulator belongs in the object's own `identity`.

    Returns:
        The simulator, and its identity: entry point, package with version, and what the object says of itself.

    Raises:
        InputError: for a name that is not installed or installed twice, an import or a constructor that fails, and an
            object of the wrong shape.
    """
    point = _find(name, list(entry_points(group=GROUP)))
    where = f"plugin {name} ({point.value})"
    try:
        simulator = point.load()(**options)
    except Exception as error:
        raise InputError(f"{where} cannot be built: {_told(error, options)}") from error
    if not inspect.iscoroutinefunction(getattr(simulator, "answer", None)):
        raise InputError(f"{where}: {type(simulator).__name__} has no `async def answer(self, ask)`")
    assert point.dist is not None, "found by its distribution"
    return Plugin(simulator, options), {
        "variant": "plugin",
        "plugin": name,
        "package": point.dist.name,
        "version": point.dist.version,
        "identity": _identity(where, simulator, options),
    }


def _find(name: str, installed: Sequence[EntryPoint]) -> EntryPoint:
    found = [point for point in installed if point.name == name]
    if not found:
        names = ", ".join(sorted({point.name for point in installed})) or "none"
        raise InputError(
            f"no simulator plugin is called {name}; installed: {names}. A plugin is a package with an entry point in "
            f"the group {GROUP}, installed in the same environment"
        )
    if len(found) > 1:
        owners = ", ".join(sorted(f"{p.dist.name} {p.dist.version} ({p.value})" for p in found if p.dist))
        raise InputError(f"the simulator plugin {name} is there {len(found)} times: {owners}; uninstall all but one")
    return found[0]


def _identity(where: str, simulator: Any, options: Mapping[str, str]) -> Any:
    """What the object says of itself, as it will be read back from a ledger."""
    try:
        stated = simulator.identity
        if not isinstance(stated, Mapping):
            raise TypeError(f"it is {type(stated).__name__}, expected a mapping")
        return json.loads(canonical(dict(stated)))
    except Exception as error:
        raise InputError(
            f"{where}: the property `identity` must be a mapping that JSON can hold: {_told(error, options)}"
        ) from error


def _told(error: Exception, options: Mapping[str, str]) -> str:
    """An exception of foreign code for people: it may quote an option, and an option may be a key."""
    text = f"{type(error).__name__}: {error}"
    for name, value in options.items():
        if len(value) >= SECRET_LENGTH:
            text = text.replace(value, f"[option {name}]")
    return clean(text, secret="")
