"""Benchmark core: the port of a user simulator and what crosses it."""

from dataclasses import dataclass
from typing import Protocol

from benchmark_core.chat import Completion
from suites.questions import Kind
from suites.tasks import Oracle


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier exchange of the dialogue."""

    question: str
    reply: str


@dataclass(frozen=True, slots=True)
class Ask:
    """What a simulator is asked. Carries no kind and no label: with them the score would measure a leak."""

    text: str
    oracle: Oracle
    history: tuple[Turn, ...] = ()
    trial: int = 0


@dataclass(frozen=True, slots=True)
class Action:
    """Stage 1's choice: the kind, and which ambiguity (term) or fragment (its SQL text) it is about; None for UNA."""

    kind: Kind
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A simulator's reply. `action` is None for simulators without a stage 1."""

    text: str
    action: Action | None = None
    completions: tuple[Completion, ...] = ()


class UserSimulator(Protocol):
    """A simulated user."""

    async def answer(self, ask: Ask) -> Reply:
        """Answer one question.

        Raises:
            SimulatorError: when there is no reply. Nothing is ever put in its place.
        """
        ...
