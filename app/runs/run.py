"""A rendered request to the public API's own events: the engine's chunks derendered and handed to a writer.

::

    GenerateRequest ─accept→ engine.generate ─derender→ steps ─writer→ events

A whole reply is the fold of the same events (law 2). Nothing here knows HTTP or a particular API.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from msgspec import UNSET, Struct

from app.derendering.derenderer import Derenderer, Step
from app.dialects.writer import Event, Usage, Writer
from app.errors import EngineFailure
from app.models import ServedModel
from app.protocol.generate import GenerateRequest
from app.runs.chunks import engine_chunks
from app.runs.tally import Tally

__all__ = ("Run", "events", "steps")


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
    abort_fails: bool = False
    """Whether an output that was aborted is a failure: for APIs that have no word for it."""
    names: Mapping[str, str] = {}
    """What the API calls the engine's fields, for refusals (:mod:`app.runs.names`)."""


async def steps(run: Run, tally: Tally) -> AsyncGenerator[Step, None]:
    """The run's derendered steps, counted in ``tally``; closing the iterator stops the generation.

    A choice that a stop string ends before its engine did is over there; when all are, the engine is stopped.

    Raises:
        EngineFailure: the engine failed, or ended before every choice had finished.
    """
    request, derenderer = run.request, run.derenderer
    count = 1 if request.sampling_params.n is UNSET else request.sampling_params.n
    states = {index: derenderer.start(request.token_ids, run.kwargs) for index in range(count)}
    open_choices = set(states)
    async with aclosing(engine_chunks(request, run.model, run.names)) as chunks:
        async for chunk in chunks:
            tally.note(chunk)
            if chunk.index not in open_choices:
                continue
            if run.abort_fails and chunk.finish_reason == "abort":
                raise EngineFailure("The generation was aborted.")
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
            tally.count(step.index, step.tokens, step.reasoning_tokens)
            if step.finish_reason is not None:
                open_choices.discard(chunk.index)
            yield step
            if not open_choices:
                return
    raise EngineFailure("The engine ended the stream before the output was finished.")


async def events(
    run: Run, writer: Writer, *, tally: Tally | None = None, eager: bool = True
) -> AsyncGenerator[tuple[Event, Usage], None]:
    """The reply's events in order, each with the tokens so far; closing the iterator stops the generation.

    Args:
        run: what is generated.
        writer: writes it in its API's shape.
        tally: where counts and facts are kept, for a caller that wants them.
        eager: whether what comes before any output is given before the engine is asked; otherwise with its first
            chunk, so that its refusal can still be an error reply.

    Raises:
        EngineFailure: the engine failed, or ended before every choice had finished.
    """
    tally = tally or Tally(len(run.request.token_ids))
    begun = eager
    if eager:
        for event in writer.start():
            yield event, tally.usage()
    async with aclosing(steps(run, tally)) as found:
        async for step in found:
            usage = tally.usage()
            if not begun:
                begun = True
                for event in writer.start():
                    yield event, usage
            for event in writer.feed(step, usage):
                yield event, usage
    usage = tally.usage()
    for event in writer.finish(usage):
        yield event, usage
