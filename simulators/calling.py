"""Simulators: one question to the model, with its single retry, and the books of what was paid."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from benchmark_core.chat import ChatClient, ChatRequest, Completion, Decoding, Message
from benchmark_core.errors import ChatError, ChatFailure, SimulatorError, SimulatorFailure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and what is added to its end when the first answer was of no use."""

    system: str
    user: str
    reminder: str

    def messages(self, *, reminded: bool) -> tuple[Message, ...]:
        user = f"{self.user}\n\n{self.reminder}" if reminded else self.user
        return Message("system", self.system), Message("user", user)


class Calls:
    """The model calls of one answer. `completions` are those that were paid, useful or not."""

    def __init__(self, client: ChatClient, decoding: Decoding, trial: int) -> None:
        self._client, self._decoding, self._trial = client, decoding, trial
        self.completions: list[Completion] = []

    async def read(self, prompt: Prompt, parse: Callable[[str], T | None], unread: SimulatorFailure) -> T:
        """Send the prompt and parse what comes back.

        One retry: with the reminder when the text was empty or `parse` found nothing, with twice the budget when it was
        cut. The retry stands in no dialogue: the next turn knows nothing of it.

        Raises:
            SimulatorError: with the chat failure as its cause, or `unread` when `parse` found nothing twice.
        """
        request = ChatRequest(prompt.messages(reminded=False), self._decoding, trial=self._trial)
        try:
            found = parse((await self._complete(request)).text)
            if found is not None:
                return found
            request = replace(request, messages=prompt.messages(reminded=True))
        except ChatError as error:
            request = self._second(request, prompt, error)
        try:
            found = parse((await self._complete(request)).text)
        except ChatError as error:
            raise self._failed(error) from error
        if found is None:
            raise self.failed(unread, "the model's answer was of no use, also after a reminder")
        return found

    def failed(self, cause: SimulatorFailure, detail: str) -> SimulatorError:
        """An error that carries the calls paid so far."""
        return SimulatorError(cause, detail, completions=tuple(self.completions))

    def _second(self, request: ChatRequest, prompt: Prompt, error: ChatError) -> ChatRequest:
        match error.cause:
            case ChatFailure.EMPTY:
                return replace(request, messages=prompt.messages(reminded=True))
            case ChatFailure.TRUNCATED:
                doubled = replace(request.decoding, max_tokens=2 * request.decoding.max_tokens)
                return replace(request, decoding=doubled)
            case _:
                raise self._failed(error) from error

    def _failed(self, error: ChatError) -> SimulatorError:
        return self.failed(SimulatorFailure(error.cause.value), error.detail)

    async def _complete(self, request: ChatRequest) -> Completion:
        try:
            completion = await self._client.complete(request)
        except ChatError as error:
            if error.spent is not None:
                self.completions.append(error.spent)
            raise
        self.completions.append(completion)
        return completion
