"""One request to up to three workers: encode, prefill, decode (disaggregated serving), as vLLM's renderer splits it.

1. **encode** gets the media tensors (``kwargs_data``) and answers ``ec_transfer_params``, by which others load the
   embeddings; from there on a request carries only ``mm_metadata``;
2. **prefill** computes the prompt (one token, ``do_remote_decode``) and answers ``kv_transfer_params``;
3. **decode** generates with these. A step whose role has no workers, or that a request does not need, is left out.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from app.engines.engine import EngineHealth, TokenChunk
from app.engines.fleet.fleet import Fleet
from app.errors import EngineFailure
from app.protocol.generate import Features, GenerateRequest, SamplingParams

__all__ = ("Roles",)

REMOTE_DECODE: dict[str, Any] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""What vLLM's KV connectors read as "compute the prompt, another worker will fetch it"."""


class Roles:
    """Fleets by role; ``encode`` and ``prefill`` may be None."""

    def __init__(self, encode: Fleet | None, prefill: Fleet | None, decode: Fleet) -> None:
        self._encode = encode
        self._prefill = prefill
        self._decode = decode
        self.fleets = [fleet for fleet in (encode, prefill, decode) if fleet is not None]

    async def start(self) -> None:
        """Start every fleet."""
        await asyncio.gather(*(fleet.start() for fleet in self.fleets))

    async def stop(self) -> None:
        """Stop every fleet."""
        await asyncio.gather(*(fleet.stop() for fleet in self.fleets))

    def health(self) -> EngineHealth:
        """Good where every role has a usable worker."""
        found = [fleet.health() for fleet in self.fleets]
        return EngineHealth(
            ok=all(health.ok for health in found),
            detail="; ".join(health.detail for health in found),
            running=sum(health.running for health in found),
        )

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End requests in whatever step they are."""
        await asyncio.gather(*(fleet.abort(request_ids) for fleet in self.fleets))

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenChunk, None]:
        """All steps; only the last one's tokens are told."""
        if self._encode is not None and _has_tensors(request.features) and not request.ec_transfer_params:
            request = await self._encoded(self._encode, request)
        prompt_logprobs = None
        cached = None
        if self._prefill is not None and not request.kv_transfer_params:
            last = await _one(self._prefill, _prefill_request(request))
            if last.kv_transfer_params is None:
                raise EngineFailure("The prefill worker handed no transfer parameters on.")
            prompt_logprobs, cached = last.prompt_logprobs, last.cached_tokens
            params = replace(request.sampling_params, prompt_logprobs=UNSET)
            request = replace(request, kv_transfer_params=last.kv_transfer_params, sampling_params=params)
        async with aclosing(self._decode.generate(request)) as chunks:
            async for chunk in chunks:
                if prompt_logprobs is not None or cached is not None:
                    chunk.prompt_logprobs = chunk.prompt_logprobs or prompt_logprobs
                    chunk.cached_tokens = cached if cached is not None else chunk.cached_tokens
                    prompt_logprobs = cached = None
                yield chunk

    async def _encoded(self, fleet: Fleet, request: GenerateRequest) -> GenerateRequest:
        assert request.features is not None
        features = replace(request.features, mm_metadata=None)
        sampling = SamplingParams(max_tokens=1, temperature=0.0)
        last = await _one(fleet, replace(request, features=features, sampling_params=sampling))
        if not last.ec_transfer_params:
            raise EngineFailure("The encode worker handed no transfer parameters on.")
        return replace(
            request,
            features=replace(request.features, kwargs_data=None),
            ec_transfer_params=last.ec_transfer_params,
        )


def _has_tensors(features: Features | None) -> bool:
    data = features.kwargs_data if features is not None else None
    return any(item is not None for items in (data or {}).values() for item in items)


def _prefill_request(request: GenerateRequest) -> GenerateRequest:
    params = replace(
        request.sampling_params, n=UNSET, max_tokens=1, min_tokens=UNSET, logprobs=UNSET, logprob_token_ids=UNSET
    )
    return replace(request, sampling_params=params, kv_transfer_params=dict(REMOTE_DECODE))


async def _one(fleet: Fleet, request: GenerateRequest) -> TokenChunk:
    """Run a step that hands something on; answers what its chunks carried, in one."""
    found = TokenChunk()
    async with aclosing(fleet.generate(request)) as chunks:
        async for chunk in chunks:
            found.kv_transfer_params = chunk.kv_transfer_params or found.kv_transfer_params
            found.ec_transfer_params = chunk.ec_transfer_params or found.ec_transfer_params
            found.prompt_logprobs = chunk.prompt_logprobs or found.prompt_logprobs
            if chunk.cached_tokens is not None:
                found.cached_tokens = chunk.cached_tokens
    return found
