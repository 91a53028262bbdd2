"""An example: a simulated user as a plugin. Explains the annotated term that a question mentions, refuses the rest."""

from typing import Any

from benchmark_core.ports import Ask, Reply


class MySimulator:
    """The entry point: built once a run, with the options of the command line as text."""

    def __init__(self, greeting: str = "") -> None:
        self._greeting = greeting

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that makes it another simulator: versions, models, options. No keys, no addresses."""
        return {"greeting": self._greeting}

    async def answer(self, ask: Ask) -> Reply:
        """One reply; questions are asked concurrently."""
        for ambiguity in ask.oracle.ambiguities:
            if ambiguity.term.casefold() in ask.text.casefold():
                return Reply(f"{self._greeting} By that I mean {ambiguity.meaning}.".strip())
        return Reply("I can't help you with that.")
