"""A token answer, or one chunk of a stream with its state, to derendered steps."""

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from app.derendering.choice_state import ChoiceState, pack, unpack
from app.derendering.derenderer import Derenderer, Step
from app.derendering.logprobs import read_logprobs
from app.derendering.stream_state import StreamState
from app.protocol.generate import GenerateChunk, GenerateChunkChoice, GenerateResponse
from app.protocol.usage import GenerateUsage

__all__ = ("advance", "chunk_usage", "first_id", "first_state", "whole")


def whole(
    derenderer: Derenderer,
    response: GenerateResponse,
    prompt_ids: Sequence[int] | None,
    kwargs: Mapping[str, Any],
    *,
    param: str = "generate_response",
) -> list[Step]:
    """One step per choice of a whole answer: a stream of a single chunk each."""
    steps = []
    for number, choice in enumerate(response.choices):
        steps.append(
            derenderer.feed(
                derenderer.start(prompt_ids, kwargs),
                choice.index,
                choice.token_ids or (),
                logprobs=read_logprobs(choice.logprobs, param=f"{param}.choices[{number}].logprobs"),
                finish_reason=choice.finish_reason or "stop",
                stop_reason=choice.stop_reason,
            )
        )
    return steps


def first_id(prefix: str, prompt_ids: Sequence[int] | None, chunk: GenerateChunk) -> str:
    """An id for a stream whose chunks bear none: the same if the first chunk is sent again."""
    seed = msgspec.msgpack.encode((prompt_ids, [(choice.index, choice.token_ids) for choice in chunk.choices]))
    return prefix + hashlib.blake2b(seed, digest_size=8).hexdigest()


def first_state(
    derenderer: Derenderer,
    prompt_ids: Sequence[int] | None,
    kwargs: Mapping[str, Any],
    *,
    request_id: str,
    created: int,
    history_calls: int = 0,
) -> StreamState:
    """The state before a stream's first chunk."""
    initial = pack(derenderer.start(prompt_ids, kwargs), derenderer.parser)
    return StreamState(
        request_id=request_id,
        created=created,
        initial=initial,
        history_calls=history_calls,
        prompt_tokens=len(prompt_ids or ()),
    )


def advance(derenderer: Derenderer, state: StreamState, chunk: GenerateChunk) -> list[Step]:
    """The steps of one chunk; ``state`` goes forward. A choice that is over already gives none."""
    steps = []
    for number, choice in enumerate(chunk.choices):
        packed = state.choices.get(choice.index)
        choice_state = unpack(deepcopy(state.initial) if packed is None else packed, derenderer.parser)
        over = choice_state.finished
        step = _feed(derenderer, choice_state, choice, f"generate_chunk.choices[{number}].logprobs")
        if not over:
            steps.append(step)
        state.choices[choice.index] = pack(choice_state, derenderer.parser)
    return steps


def _feed(derenderer: Derenderer, state: ChoiceState, choice: GenerateChunkChoice, param: str) -> Step:
    return derenderer.feed(
        state,
        choice.index,
        choice.token_ids or (),
        logprobs=None if choice.logprobs is None else read_logprobs(choice.logprobs, param=param),
        finish_reason=choice.finish_reason,
        stop_reason=choice.stop_reason,
    )


def chunk_usage(chunk: GenerateChunk, state: StreamState, prompt_tokens: int | None) -> GenerateUsage | None:
    """The chunk's usage with the caller's prompt count, less the tokens after a stop string that was found here."""
    told = chunk.usage
    if told is None:
        return None
    counted = [choice.index for choice in chunk.choices] or list(state.choices)
    unused = sum(state.choices[index].unused_tokens for index in counted)
    prompt = told.prompt_tokens if prompt_tokens is None else prompt_tokens
    completion = max(0, told.completion_tokens - unused)
    return GenerateUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=told.prompt_tokens_details,
        completion_tokens_details=told.completion_tokens_details,
    )
