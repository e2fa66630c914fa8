"""An accepted generate request to its whole answer or its events, in the wire form of ``/inference/v1/generate``.

::

    body → generate_check.accept → engine.generate → output (text and logprobs of each chunk) → whole | events

The whole answer is the fold of the steps that the events are made of. Layout of both: wire protocol, sections 10.3
and 11. Nothing here knows HTTP: an error after the first event is written by the function that the caller gives.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from app.engines.engine import TokenChunk
from app.errors import EngineFailure
from app.models import ServedModel
from app.protocol.chat_reply import ChatChunkChoice
from app.protocol.generate import (
    GenerateChoice,
    GenerateChunk,
    GenerateChunkChoice,
    GenerateRequest,
    GenerateResponse,
)
from app.protocol.usage import GenerateUsage
from app.runs.chunks import engine_chunks
from app.runs.generate_output import Output, Piece, finish_derendered, output_of
from app.runs.tally import Tally

__all__ = ("DONE", "abort", "events", "steps", "whole")

DONE = b"data: [DONE]\n\n"
encode = msgspec.json.Encoder().encode


class _FinalUsage(Struct, omit_defaults=True):
    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: dict[str, Any] | None = None


class _UsageEvent(Struct):
    """The last event before [DONE]: the one that carries no nulls."""

    request_id: str
    usage: _FinalUsage
    output_mode: str
    choices: list[Any] = []


class Step(Struct, frozen=True):
    """One chunk of one choice, and what it comes to in the request's output mode."""

    chunk: TokenChunk
    piece: Piece


async def steps(request: GenerateRequest, model: ServedModel) -> AsyncGenerator[Step, None]:
    """Run ``request`` (as ``accept`` answered it) until every choice has finished.

    Closing the iterator aborts the generation. A choice that a stop string ends before its engine did is finished
    there; when all are, the engine's run is closed.

    Raises:
        EngineFailure: the engine ended before every choice had finished.
    """
    outputs: dict[int, Output] = {}
    count = 1 if request.sampling_params.n is UNSET else request.sampling_params.n
    open_choices = set(range(count))
    async with aclosing(engine_chunks(request, model)) as chunks:
        async for chunk in chunks:
            if chunk.index not in open_choices:
                continue
            output = outputs.get(chunk.index)
            if output is None:
                output = outputs[chunk.index] = output_of(request, model)
            piece = output.feed(chunk)
            if chunk.finish_reason is not None:
                open_choices.discard(chunk.index)
            yield Step(chunk, piece)
            if not open_choices:
                return
    raise EngineFailure("The engine ended the stream before the output was finished.")


def _counted(tally: Tally, chunk: TokenChunk) -> None:
    tally.note(chunk)
    tally.count(chunk.index, tally.completion.get(chunk.index, 0) + len(chunk.token_ids))


def _usage(tally: Tally, index: int | None = None) -> GenerateUsage:
    """Of one choice, or of all."""
    new = tally.generated if index is None else tally.completion.get(index, 0)
    return GenerateUsage(
        prompt_tokens=tally.prompt,
        total_tokens=tally.prompt + new,
        completion_tokens=new,
        prompt_tokens_details={"cached_tokens": tally.cached} if tally.cached else None,
    )


async def whole(request: GenerateRequest, model: ServedModel) -> GenerateResponse:
    """The whole answer to a request that ``accept`` answered: the fold of its steps."""
    tally = Tally(len(request.token_ids))
    choices: dict[int, GenerateChoice] = {}
    texts: dict[int, list[str]] = {}
    pieces: list[ChatChunkChoice] = []
    async with aclosing(steps(request, model)) as run:
        async for step in run:
            chunk = step.chunk
            _counted(tally, chunk)
            choice = choices.get(chunk.index)
            if choice is None:
                choice = choices[chunk.index] = GenerateChoice(index=chunk.index, finish_reason=None, token_ids=[])
            assert choice.token_ids is not None
            choice.token_ids += chunk.token_ids
            piece = step.piece
            if piece.logprobs is not None:
                if choice.logprobs is None:
                    choice.logprobs = piece.logprobs
                else:
                    choice.logprobs.content += piece.logprobs.content
            if piece.text is not None:
                texts.setdefault(chunk.index, []).append(piece.text)
            if piece.chat is not None:
                pieces.append(piece.chat)
            if chunk.finish_reason is not None:
                choice.finish_reason, choice.stop_reason = chunk.finish_reason, chunk.stop_reason
    for index, parts in texts.items():
        choices[index].text = "".join(parts)
    if pieces:
        finish_derendered(request, choices, pieces)
    return GenerateResponse(
        request_id=request.request_id,
        model=request.model or model.name,
        created=int(time.time()),
        usage=_usage(tally),
        prompt_logprobs=tally.prompt_logprobs,
        prompt_token_ids=request.token_ids if request.return_token_ids else None,
        mm_placeholders=_placeholders(request) if request.return_token_ids else None,
        metrics=tally.metrics,
        kv_transfer_params=tally.kv_transfer_params,
        ec_transfer_params=tally.ec_transfer_params,
        output_mode=request.output_mode,
        choices=[choices[index] for index in sorted(choices)],
    )


async def events(
    request: GenerateRequest,
    model: ServedModel,
    fault: Callable[[Exception], Any],
    counted: Callable[[int], None] = lambda _: None,
) -> AsyncGenerator[bytes, None]:
    """The stream's events, each ``data: <json>`` with a blank line, the last one ``[DONE]``.

    The first chunk is awaited before this returns, so that a request that fails at once is answered with a status.

    Args:
        request: as ``accept`` answered it.
        model: the one that serves it.
        fault: an exception to the body of an error event, ``{"error": {...}}``.
        counted: told the tokens of all choices so far, with every event.

    Raises:
        IsthmusError: the engine failed before its first chunk.
    """
    stream = _write(request, model, fault, counted)
    await anext(stream)
    return stream


async def _write(
    request: GenerateRequest,
    model: ServedModel,
    fault: Callable[[Exception], Any],
    counted: Callable[[int], None],
) -> AsyncGenerator[bytes, None]:
    """Events, after one empty item that says that the first chunk is there."""
    options = request.stream_options
    totals = bool(options and options.include_usage)
    continuous = totals and bool(options and options.continuous_usage_stats)
    tally = Tally(len(request.token_ids))
    async with aclosing(steps(request, model)) as run:
        step: Step | None = await anext(run)
        opening = bool(request.return_token_ids)
        yield b""
        try:
            while step is not None:
                _counted(tally, step.chunk)
                counted(tally.generated)
                event = _event(request, step, _usage(tally, step.chunk.index) if continuous else None)
                if opening:
                    event.prompt_token_ids = request.token_ids
                    event.mm_placeholders = _placeholders(request)
                    opening = False
                yield b"data: " + encode(event) + b"\n\n"
                step = await anext(run, None)
        except Exception as error:
            yield b"data: " + encode(fault(error)) + b"\n\n"
            yield DONE
            return
    if totals:
        usage = _usage(tally)
        final = _FinalUsage(
            usage.prompt_tokens, usage.total_tokens, usage.completion_tokens, usage.prompt_tokens_details
        )
        yield b"data: " + encode(_UsageEvent(request.request_id, final, request.output_mode)) + b"\n\n"
    yield DONE


def _event(request: GenerateRequest, step: Step, usage: GenerateUsage | None) -> GenerateChunk:
    chunk = step.chunk
    return GenerateChunk(
        request_id=request.request_id,
        usage=usage,
        output_mode=request.output_mode,
        choices=[
            GenerateChunkChoice(
                index=chunk.index,
                finish_reason=chunk.finish_reason,
                stop_reason=chunk.stop_reason,
                token_ids=chunk.token_ids,
                text=UNSET if step.piece.text is None else step.piece.text,
                logprobs=step.piece.logprobs,
            )
        ],
        metrics=UNSET if chunk.metrics is None else chunk.metrics,
        prompt_logprobs=UNSET if chunk.prompt_logprobs is None else chunk.prompt_logprobs,
        kv_transfer_params=UNSET if chunk.kv_transfer_params is None else chunk.kv_transfer_params,
        ec_transfer_params=UNSET if chunk.ec_transfer_params is None else chunk.ec_transfer_params,
    )


def _placeholders(request: GenerateRequest) -> Any:
    return None if request.features is None else request.features.mm_placeholders


async def abort(models: Iterable[ServedModel], request_ids: Sequence[str]) -> None:
    """End running requests by the ids that their answers carry; unknown ids are ignored."""
    engines = {id(model.engine): model.engine for model in models if model.engine is not None}
    for engine in engines.values():
        await engine.abort(request_ids)
