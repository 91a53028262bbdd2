"""Simulators: gives recorded replies again. Scores a simulator that was run elsewhere; asks no model."""

from typing import Any

from benchmark_core.errors import SimulatorError, SimulatorFailure
from benchmark_core.ports import Ask, Reply
from simulators.replies import Replies


class Replay:
    """A `UserSimulator` that answers from `read_replies`."""

    VARIANT = "replay"

    def __init__(self, replies: Replies) -> None:
        self._replies = replies

    @property
    def identity(self) -> dict[str, Any]:
        """What the digest is made of; JSON-able."""
        return {"variant": self.VARIANT, "replies": self._replies.digest}

    async def answer(self, ask: Ask) -> Reply:
        """The recorded reply.

        Raises:
            SimulatorError: EMPTY for an empty record, CRASHED for the record of a failed call and for a question
                without a record (only a dialogue can ask one: a plan is checked when the files are read).
        """
        recorded = self._replies.by_text.get((ask.oracle.instance_id, ask.text))
        if recorded is None:
            raise SimulatorError(SimulatorFailure.CRASHED, "no reply to this question was recorded")
        if recorded.failure is not None:
            raise SimulatorError(recorded.failure, recorded.detail)
        return Reply(recorded.text)
