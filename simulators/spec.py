"""Simulators: what a simulated user is, as data. A certificate belongs to the digest of this."""

from dataclasses import asdict, dataclass
from typing import Any

from benchmark_core.chat import Decoding
from benchmark_core.digest import digest


@dataclass(frozen=True, slots=True)
class SimulatorSpec:
    """A simulator that is backed by a model.

    Attributes:
        variant: `baseline`, `function-driven`, …
        revision: of the weights, as the user states it; None when unknown.
        prompt_pack: the pack's name: a label, like `base_url` no part of the identity.
        prompts_digest: `sha256:…` of the pack's files.
        base_url: where the model was served. Moving a server does not make another simulator.
    """

    variant: str
    model: str
    revision: str | None
    prompt_pack: str
    prompts_digest: str
    decoding: Decoding
    base_url: str | None = None

    def identity(self) -> dict[str, Any]:
        """What the digest is made of; JSON-able."""
        return {
            "variant": self.variant,
            "model": self.model,
            "revision": self.revision,
            "prompts": self.prompts_digest,
            "decoding": asdict(self.decoding),
        }

    @property
    def digest(self) -> str:
        """`sha256:…` of the identity."""
        return digest(self.identity())
