"""An engine's chunks as a generator, whose end also ends whatever kind of iterator the engine gave."""

from collections.abc import AsyncGenerator, Mapping

from msgspec import UNSET

from app.engines.engine import TokenChunk
from app.errors import EngineFailure
from app.models import ServedModel
from app.protocol.generate import GenerateRequest
from app.runs.names import said_as

__all__ = ("engine_chunks",)


async def engine_chunks(
    request: GenerateRequest, model: ServedModel, names: Mapping[str, str] = {}
) -> AsyncGenerator[TokenChunk, None]:
    """What the model's engine answers to ``request``; closing the generator aborts it.

    Raises :class:`app.errors.EngineFailure` where it answers with a token that the model does not have.

    The model's primary end-of-sequence token is no stop reason, whether the engine knows it or not; one that a request
    ignores is, where it is among its stop tokens. ``names`` are the API's own names of the engine's fields, for
    refusals (:mod:`app.runs.names`).
    """
    ignored = request.sampling_params.ignore_eos not in (UNSET, False)
    primary = None if ignored or not model.eos_token_ids else model.eos_token_ids[0]
    chunks = model.engine.generate(request)
    try:
        with said_as(names):
            async for chunk in chunks:
                if chunk.token_ids and not (min(chunk.token_ids) >= 0 and max(chunk.token_ids) < model.vocab_size):
                    raise EngineFailure("The engine answered with a token that the model does not have.")
                if chunk.stop_reason == primary:
                    chunk.stop_reason = None
                yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
