"""A rendered request to the public API's own events: the engine's chunks derendered and handed to a writer.

::

    GenerateRequest ─accept→ engine.generate ─derender→ steps ─writer→ events

A whole reply is the fold of the same events (law 2). Nothing here knows HTTP or a particular API.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from msgspec import UNSET, Struct

from app.derendering.derenderer import Derenderer
from app.dialects.writer import Event, Usage, Writer
from app.engines.engine import TokenChunk
from app.errors import EngineFailure
from app.models import ServedModel
from app.protocol.generate import GenerateRequest

__all__ = ("Run", "events")


class Run(Struct, frozen=True, kw_only=True):
    """What is generated, and how its output is read.

    ``request`` is as ``app.runs.generate_check.accept`` answered it; ``kwargs`` are the effective template kwargs.
    """

    model: ServedModel
    request: GenerateRequest
    derenderer: Derenderer
    kwargs: Mapping[str, Any]
    sampled: list[int] | None = None
    """Where the first output's ids are noted as the engine gives them."""


class Tally:
    """Tokens so far, over all outputs."""

    def __init__(self, prompt: int) -> None:
        self.prompt = prompt
        self.completion: dict[int, int] = {}
        self.reasoning: dict[int, int] = {}
        self.cached: int | None = None

    def usage(self) -> Usage:
        """As a writer takes it."""
        return Usage(
            prompt_tokens=self.prompt,
            completion_tokens=sum(self.completion.values()),
            cached_tokens=self.cached,
            reasoning_tokens=sum(self.reasoning.values()) or None,
        )


async def events(run: Run, writer: Writer) -> AsyncGenerator[tuple[Event, Usage], None]:
    """The reply's events in order, each with the tokens so far; closing the iterator stops the generation.

    A choice that a stop string ends before its engine did is over there; when all are, the engine is stopped.

    Raises:
        EngineFailure: the engine failed, or ended before every choice had finished.
    """
    request, derenderer = run.request, run.derenderer
    count = 1 if request.sampling_params.n is UNSET else request.sampling_params.n
    states = {index: derenderer.start(request.token_ids, run.kwargs) for index in range(count)}
    open_choices = set(states)
    tally = Tally(len(request.token_ids))
    for event in writer.start():
        yield event, tally.usage()
    async with aclosing(_generate(run)) as chunks:
        async for chunk in chunks:
            if chunk.cached_tokens is not None:
                tally.cached = max(tally.cached or 0, chunk.cached_tokens)
            if chunk.index not in open_choices:
                continue
            if run.sampled is not None and chunk.index == 0:
                run.sampled.extend(chunk.token_ids)
            step = derenderer.feed(
                states[chunk.index],
                chunk.index,
                chunk.token_ids,
                logprobs=chunk.logprobs,
                finish_reason=chunk.finish_reason,
                stop_reason=chunk.stop_reason,
            )
            tally.completion[chunk.index] = step.tokens
            tally.reasoning[chunk.index] = step.reasoning_tokens
            usage = tally.usage()
            for event in writer.feed(step, usage):
                yield event, usage
            if step.finish_reason is not None:
                open_choices.discard(chunk.index)
                if not open_choices:
                    break
    if open_choices:
        raise EngineFailure("The engine ended the stream before the output was finished.")
    usage = tally.usage()
    for event in writer.finish(usage):
        yield event, usage


async def _generate(run: Run) -> AsyncGenerator[TokenChunk, None]:
    """The engine's chunks as a generator, whose end also ends whatever kind of iterator the engine gave."""
    chunks = run.model.engine.generate(run.request)
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
