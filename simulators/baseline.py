"""Simulators: the published baseline. One prompt that shows schema, annotated ambiguities and reference SQL."""

from benchmark_core.chat import ChatClient, Decoding
from benchmark_core.errors import SimulatorFailure
from benchmark_core.ports import Ask, Reply
from simulators.actions import is_only_action, read_reply
from simulators.calling import Calls, Prompt
from simulators.prompts_loader import PromptPack


class Baseline:
    """A `UserSimulator` with one model call a turn and no stage 1 (BIRD-Interact's baseline)."""

    VARIANT = "baseline"

    def __init__(self, client: ChatClient, pack: PromptPack, decoding: Decoding) -> None:
        self._client, self._pack, self._decoding = client, pack, decoding

    async def answer(self, ask: Ask) -> Reply:
        """Answer one question.

        Raises:
            SimulatorError: when the model gave no reply, or only an action in place of one.
        """
        calls = Calls(self._client, self._decoding, ask.trial)
        text = await say(calls, self._prompt(ask))
        return Reply(text, completions=tuple(calls.completions))

    def _prompt(self, ask: Ask) -> Prompt:
        render = self._pack.render
        return Prompt(
            system=render(
                "baseline_system.j2",
                schema=ask.oracle.schema,
                request=ask.oracle.user_query,
                sql="\n".join(ask.oracle.first.sol_sql),
                ambiguities=ask.oracle.ambiguities,
            ),
            user=render("baseline_user.j2", history=ask.history, question=ask.text),
            reminder=render("remind_reply.j2"),
        )


async def say(calls: Calls, prompt: Prompt) -> str:
    """The user's reply to a prompt.

    Raises:
        SimulatorError: when the model gave no reply, or only an action in place of one.
    """
    reply = await calls.read(prompt, read_reply, SimulatorFailure.EMPTY)
    if is_only_action(reply):
        raise calls.failed(SimulatorFailure.ACTION_AS_REPLY, "the reply was only an action")
    return reply
