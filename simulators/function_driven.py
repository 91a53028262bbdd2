"""Simulators: the published two-stage design. Stage 1 chooses an action, stage 2 writes the reply under it."""

from typing import Any

from benchmark_core.chat import ChatClient, Decoding
from benchmark_core.errors import SimulatorFailure
from benchmark_core.ports import Action, Ask, Reply
from benchmark_core.sql.fragments import fragments
from simulators.actions import parse_action
from simulators.baseline import say
from simulators.calling import Calls, Prompt
from simulators.prompts_loader import PromptPack
from suites.questions import Kind


class FunctionDriven:
    """A `UserSimulator` with two model calls a turn (BIRD-Interact's function-driven design).

    As published, stage 2 is asked for a reply even where stage 1 says that there is none to be had; what it then gives
    away is the simulator's own fault, and is delivered.
    """

    VARIANT = "function-driven"

    def __init__(self, client: ChatClient, pack: PromptPack, decoding: Decoding) -> None:
        self._client, self._pack, self._decoding = client, pack, decoding

    async def answer(self, ask: Ask) -> Reply:
        """Answer one question.

        Raises:
            SimulatorError: when stage 1 named no valid action, or stage 2 gave no reply.
        """
        calls = self.calls(ask)
        action = await self.choose(ask, calls)
        text = await say(calls, self._stage2(ask, action))
        return Reply(text, action, tuple(calls.completions))

    def calls(self, ask: Ask) -> Calls:
        """The books of one answer."""
        return Calls(self._client, self._decoding, ask.trial)

    async def choose(self, ask: Ask, calls: Calls) -> Action:
        """Stage 1: what the question is about.

        Raises:
            SimulatorError: PROTOCOL_ERROR when no valid action came, also after the reminder.
        """
        parts = fragments(ask.oracle.first.sol_sql)
        terms = tuple(ambiguity.term for ambiguity in ask.oracle.ambiguities)
        user = self._pack.render(
            "stage1_user.j2", ambiguities=ask.oracle.ambiguities, fragments=parts, **_dialogue(ask)
        )
        prompt = Prompt(self._system(ask), user, self._pack.render("remind_action.j2"))
        return await calls.read(prompt, lambda text: parse_action(text, terms, parts), SimulatorFailure.PROTOCOL_ERROR)

    def _stage2(self, ask: Ask, action: Action) -> Prompt:
        snippets = {ambiguity.term: ambiguity.sql_snippet for ambiguity in reversed(ask.oracle.ambiguities)}
        user = self._pack.render(
            "stage2_user.j2",
            kind=action.kind.value,
            target=action.target,
            snippet=snippets[action.target] if action.kind is Kind.AMB and action.target else None,
            **_dialogue(ask),
        )
        return Prompt(self._system(ask), user, self._pack.render("remind_reply.j2"))

    def _system(self, ask: Ask) -> str:
        """The same for both stages and every question of a task, so that a server's prefix cache serves it."""
        return self._pack.render(
            "function_driven_system.j2",
            schema=ask.oracle.schema,
            request=ask.oracle.user_query,
            clear_request=ask.oracle.first.query,
            sql="\n".join(ask.oracle.first.sol_sql),
        )


def _dialogue(ask: Ask) -> dict[str, Any]:
    return {"history": ask.history, "question": ask.text}
