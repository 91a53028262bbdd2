"""Guard: where chat clients come from: real ones for a run, stand-ins for a rehearsal."""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from benchmark_core.chat import ChatClient
from benchmark_core.chat_cache import ChatCache
from guard.choices import EndpointChoice, Role
from guard.forecast import StandIn


class Chats(Protocol):
    """Opens the client of a role."""

    async def open(self, role: Role, choice: EndpointChoice) -> ChatClient:
        """A client for the endpoint; whoever made the chats closes it."""
        ...


class HttpChats:
    """Clients that share one file of completions and are closed with the stack."""

    def __init__(self, stack: AsyncExitStack, completions: Path, concurrency: int) -> None:
        self._stack, self._path, self._concurrency = stack, completions, concurrency
        self._cache: ChatCache | None = None

    async def open(self, role: Role, choice: EndpointChoice) -> ChatClient:
        """See `Chats`."""
        # a slow import, and controls with the rule judge need none of it
        from benchmark_core.openai_chat import Endpoint, OpenAIChat

        if self._cache is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._cache = self._stack.enter_context(ChatCache(self._path))
        key = os.environ.get(choice.api_key_env, "")
        endpoint = Endpoint(choice.base_url, choice.model, key, choice.deadline_s, concurrency=self._concurrency)
        return await self._stack.enter_async_context(OpenAIChat(endpoint, self._cache))


class StandIns:
    """Stand-ins, by role."""

    def __init__(self) -> None:
        self.by_role: dict[str, StandIn] = {}

    async def open(self, role: Role, choice: EndpointChoice) -> ChatClient:
        """See `Chats`."""
        self.by_role[role] = StandIn(role, {"base_url": choice.base_url, "model": choice.model})
        return self.by_role[role]
