"""Simulators: a simulator behind an HTTP endpoint, by one of two protocols. What is inside is the server's matter."""

import time
import uuid
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from benchmark_core.chat import Completion, Usage
from benchmark_core.errors import ChatError, InputError, SimulatorError, SimulatorFailure
from benchmark_core.json_http import JsonHttp
from benchmark_core.ports import Ask, Reply
from simulators.remote_wire import (
    AdkAnswer,
    AdkHealth,
    AdkReady,
    Protocol,
    RemoteResponse,
    RemoteUsage,
    adk_task_data,
    remote_request,
)

ADK_SERVICE = "user_simulator"

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RemoteSpec:
    """What stands behind the endpoint, as the user states it: nothing here can check that.

    Attributes:
        name: of the simulator; part of its identity, as the address is not: moving a server makes no other simulator.
        revision: None when unknown.
        sends_oracle: whether clear request, reference SQL, annotations and schema are sent. Off unless the user asks
            for it: the endpoint may be a stranger's, and official gold is private.
    """

    protocol: Protocol
    name: str
    revision: str | None = None
    sends_oracle: bool = False

    def identity(self) -> dict[str, Any]:
        """What the digest is made of; JSON-able."""
        return {
            "variant": Remote.VARIANT,
            "protocol": self.protocol.value,
            "name": self.name,
            "revision": self.revision,
            "sends_oracle": self.sends_oracle,
        }


class Remote:
    """A `UserSimulator`. The caller opens and closes the client."""

    VARIANT = "remote"

    def __init__(self, http: JsonHttp, spec: RemoteSpec) -> None:
        if not spec.name.strip():
            raise InputError("a remote simulator needs a name (--name): a certificate must say what it is of")
        self._http, self._spec = http, spec

    @property
    def identity(self) -> dict[str, Any]:
        """What the digest is made of; JSON-able."""
        return self._spec.identity()

    async def check(self) -> None:
        """Ask an ADK service for its health, free of charge; the minimal protocol has nothing to ask.

        Raises:
            InputError: when another service answers (the ADK's three look alike but for the port).
            SimulatorError: when none does.
        """
        if self._spec.protocol is not Protocol.ADK:
            return
        try:
            answer = await self._http.get("/health")
        except ChatError as error:
            raise SimulatorError(SimulatorFailure(error.cause.value), error.detail) from None
        try:
            health = AdkHealth.model_validate(answer.body)
        except ValidationError:
            health = None
        if health is None or health.service != ADK_SERVICE:
            raise InputError(
                f"{self._http.base_url}/health: expected the ADK's {ADK_SERVICE} service (port 6001 by default); "
                f"{answer.status}: {answer.text}"
            )

    async def answer(self, ask: Ask) -> Reply:
        """Have one question answered.

        Raises:
            SimulatorError: with the transport's failure as its cause; MALFORMED for an answer of another shape; EMPTY
                for one without text.
        """
        reply = await (self._ask_adk(ask) if self._spec.protocol is Protocol.ADK else self._ask(ask))
        if not reply.text.strip():
            raise SimulatorError(SimulatorFailure.EMPTY, "the reply has no text", completions=reply.completions)
        return reply

    async def _ask(self, ask: Ask) -> Reply:
        started = time.monotonic()
        said = await self._call("/answer", remote_request(ask, with_oracle=self._spec.sends_oracle), RemoteResponse)
        if said.model is None and said.usage is None:
            return Reply(said.reply)
        usage = said.usage or RemoteUsage()
        completion = Completion(
            text=said.reply,
            model=said.model or self._spec.name,
            usage=Usage(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens),
            latency_s=time.monotonic() - started,
        )
        return Reply(said.reply, completions=(completion,))

    async def _ask_adk(self, ask: Ask) -> Reply:
        """The service keeps one state a task, and answers without the dialogue so far: `ask.history` has no place.

        A fresh id a question keeps questions apart. The service turns an outage of its own model into the sentence
        "I'm not sure I understand your question."; nobody can tell that from a reply, and it is judged as one.
        """
        task_id = f"usersim-guard-{uuid.uuid4().hex}"
        task_data = adk_task_data(ask.oracle, with_oracle=self._spec.sends_oracle)
        await self._call("/init_task", {"task_id": task_id, "task_data": task_data}, AdkReady)
        said = await self._call("/ask", {"task_id": task_id, "question": ask.text}, AdkAnswer)
        return Reply(said.answer)

    async def _call(self, path: str, body: dict[str, Any], shape: type[M]) -> M:
        try:
            said = await self._http.call(path, body)
        except ChatError as error:
            raise SimulatorError(SimulatorFailure(error.cause.value), error.detail) from None
        try:
            return shape.model_validate(said)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"])) or "the answer"
            detail = self._http.clean(f"{path}: field '{field}': {first['msg']}")
            raise SimulatorError(SimulatorFailure.MALFORMED, detail) from None
