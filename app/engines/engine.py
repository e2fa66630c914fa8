"""The engine contract: a prompt and its sampling in, token chunks out. Nothing of HTTP is in it.

An engine plugin registers, in the entry point group ``isthmus.engines``, a callable
``(EngineConfig) -> Engine``; the name of the entry point is the ``kind`` of an ``[[engines]]`` setting.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from app.protocol.generate import GenerateRequest, TokenLogprob

__all__ = ("Engine", "EngineConfig", "EngineHealth", "EngineLimits", "SharedEngine", "TokenChunk")


class EngineConfig(Struct, frozen=True, kw_only=True):
    """One ``[[engines]]`` table, and what its model is.

    ``source`` is the directory of the model that the engine serves (None for a remote worker that needs none);
    ``eos_token_ids`` are the model's end-of-sequence ids (primary first), which no render answer carries;
    ``options`` are the table's remaining keys (urls, api_key, dtype, device, deadlines in seconds ...).
    """

    name: str
    kind: str
    model: str = ""
    source: str | None = None
    max_model_len: int = 0
    vocab_size: int = 0
    eos_token_ids: tuple[int, ...] = ()
    tokenizer: Any = None
    options: dict[str, Any] = {}


class EngineLimits(Struct, frozen=True, kw_only=True):
    """What one request may ask for; None is no limit."""

    max_num_seqs: int | None = None
    max_logprobs: int | None = 20
    detokenizes: bool = False


class EngineHealth(Struct, frozen=True, kw_only=True):
    """Whether requests can be served now; ``detail`` is one line for the operator."""

    ok: bool
    detail: str = ""
    running: int = 0
    waiting: int = 0


class TokenChunk(Struct, kw_only=True):
    """New tokens of one output.

    ``index`` counts the ``n`` outputs of a request; ``finish_reason`` (stop, length, abort, repetition) is set on the
    last chunk of an output only, with ``stop_reason`` the stop string or the stop token's id (that of the primary EOS
    may be told or not: :mod:`app.runs.chunks` takes it away). ``token_ids`` include the stop token. ``logprobs`` has
    one entry a token where they were asked for. ``prompt_logprobs``, ``cached_tokens`` and the transfer parameters
    stand on a request's first or last chunk.
    """

    index: int = 0
    token_ids: list[int] = []
    logprobs: list[TokenLogprob] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    prompt_logprobs: list[dict[str, Any] | None] | None = None
    cached_tokens: int | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None


@runtime_checkable
class Engine(Protocol):
    """What every engine is. Its methods run on the event loop and never block it."""

    limits: EngineLimits

    async def start(self) -> None:
        """Load weights or connect; raises :class:`app.errors.StartupError` with one line."""

    async def stop(self) -> None:
        """Finish or abort what runs, free everything. Idempotent."""

    def check(self, request: GenerateRequest) -> None:
        """Refuse what this engine cannot do: :class:`app.errors.Unsupported` naming the parameter. Cheap."""

    def generate(self, request: GenerateRequest) -> AsyncIterator[TokenChunk]:
        """Yield chunks until every output has finished. Closing the iterator aborts the request.

        ``request.request_id`` is unique among the running; ``max_tokens`` is filled in. Raises
        :class:`app.errors.InvalidRequest`, :class:`app.errors.Overloaded` or :class:`app.errors.EngineFailure`.
        """

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End these requests with finish reason "abort"; unknown ids are ignored."""

    async def health(self) -> EngineHealth:
        """Whether a request would be served now. Answers within a second."""


@runtime_checkable
class SharedEngine(Engine, Protocol):
    """An engine that several models of its ``[[engines]]`` table may use at once."""

    def serves(self, config: EngineConfig) -> bool:
        """Whether this one also runs the model of ``config``, whose table and options are its own."""
