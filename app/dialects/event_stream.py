"""One chunk of a Responses or Messages derender stream to that API's events, and the state for the next chunk."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, UnsetType

from app.derendering.derenderer import Derenderer, Step
from app.derendering.stream_state import StateSeal, StreamState
from app.dialects.binding import DerenderModel, has_formats
from app.dialects.derender_limits import MAX_COUNT, check_length, check_prompt, check_response
from app.dialects.recent import Recent
from app.dialects.steps import advance, chunk_usage, first_id, first_state
from app.dialects.writer import Usage, Writer
from app.errors import InvalidRequest
from app.protocol.derender import EventsDerendered, MessagesDerenderRequest, ResponsesDerenderRequest
from app.protocol.generate import GenerateChunk, GenerateResponse

__all__ = ("Bound", "Call", "derender_events", "response_usage", "whole_answer")

Call = ResponsesDerenderRequest | MessagesDerenderRequest


RECENT: Recent["Bound"] = Recent()


class Bound(Struct, frozen=True):
    """A request's derenderer, its effective template kwargs and its conversation's calls."""

    derenderer: Derenderer
    kwargs: Mapping[str, Any]
    history_calls: int


def whole_answer(call: Call, model: DerenderModel) -> tuple[GenerateResponse, Sequence[int] | None]:
    """The one answer of a call that is not streamed, and the prompt's ids if they came."""
    response = call.generate_response
    if response is None:
        raise InvalidRequest("`generate_response` is needed.", param="generate_response")
    check_response(model, response)
    check_prompt(model, call.prompt_token_ids)
    if len(response.choices) != 1:
        raise InvalidRequest(
            "This API has one output: `choices` must have one entry.", param="generate_response.choices"
        )
    return response, response.prompt_token_ids if call.prompt_token_ids is None else call.prompt_token_ids


def response_usage(call: Call, response: GenerateResponse, step: Step) -> Usage:
    """Counts of a whole answer: the caller's prompt count, else the engine's, else that of the ids."""
    told = response.usage
    ids = call.prompt_token_ids or response.prompt_token_ids or ()
    return Usage(
        prompt_tokens=_prompt_count(call.prompt_tokens, None if told is None else told.prompt_tokens, len(ids)),
        completion_tokens=step.tokens,
        cached_tokens=_cached(None if told is None else told.prompt_tokens_details),
        reasoning_tokens=step.reasoning_tokens,
    )


def derender_events(
    call: Call,
    model: DerenderModel,
    seal: StateSeal,
    *,
    dialect: str,
    id_prefix: str,
    now: int,
    bind: Callable[[str, int | None], Bound],
    write: Callable[[str, int, Usage], Writer],
) -> EventsDerendered:
    """The events of one chunk.

    Args:
        id_prefix: begins the id of a stream whose chunks bear none.
        now: Unix seconds.
        bind: the derenderer for a request id; the count of the conversation's calls is given after the first chunk.
        write: the writer for an id, a time and the prompt's counts.
    """
    chunk = call.generate_chunk
    if chunk is None:
        raise InvalidRequest("`generate_chunk` is needed with `stream: true`.", param="generate_chunk")
    check_response(model, chunk, param="generate_chunk")
    check_prompt(model, call.prompt_token_ids)
    if any(choice.index != 0 for choice in chunk.choices):
        raise InvalidRequest("This API has one output: `index` must be 0.", param="generate_chunk.choices[0].index")
    first = call.stream_state is None
    if call.stream_state is None:
        prompt_ids = _prompt_ids(call, chunk, model)
        request_id = chunk.request_id or first_id(id_prefix, prompt_ids, chunk)
        bound = bind(request_id, None)
        state = first_state(
            bound.derenderer,
            prompt_ids,
            bound.kwargs,
            request_id=request_id,
            created=now,
            history_calls=bound.history_calls,
        )
    else:
        state = seal.open(call.stream_state, dialect=dialect, model=model.name, request_id=chunk.request_id)
        request_id, calls = state.request_id, state.history_calls
        bound = RECENT.get(dialect, request_id, model, _asked(call), lambda: bind(request_id, calls))
    check_length(model, call.prompt_token_ids, state, chunk)
    if first or call.prompt_tokens is not None or chunk.usage is not None:
        told = None if chunk.usage is None else chunk.usage.prompt_tokens
        state.prompt_tokens = _prompt_count(call.prompt_tokens, told, state.prompt_tokens)
    steps = advance(bound.derenderer, state, chunk)
    usage = _chunk_usage(chunk, state, steps)
    writer = write(state.request_id, state.created, usage)
    events = writer.start() if first else []
    if state.writer is not None:
        writer.load(state.writer)
    for step in steps:
        events += writer.feed(step, usage)
        if step.finish_reason is not None:
            events += writer.finish(usage)
    # The terminal event has told all; what came before it is needed no more.
    state.writer = None if _over(state) else writer.dump()
    return EventsDerendered([event.data for event in events], seal.seal(state, dialect=dialect, model=model.name))


def _asked(call: Call) -> object:
    return call.responses_request if isinstance(call, ResponsesDerenderRequest) else call.messages_request


def _over(state: StreamState) -> bool:
    return bool(state.choices) and all(choice.finished for choice in state.choices.values())


def _prompt_ids(call: Call, chunk: GenerateChunk, model: DerenderModel) -> Sequence[int] | None:
    if call.prompt_token_ids is not None:
        return call.prompt_token_ids
    if not isinstance(chunk.prompt_token_ids, UnsetType) and chunk.prompt_token_ids is not None:
        return chunk.prompt_token_ids
    if has_formats(model):
        raise InvalidRequest(
            "`prompt_token_ids` are needed with the first chunk: they tell whether the prompt left reasoning open.",
            param="prompt_token_ids",
        )
    return None


def _chunk_usage(chunk: GenerateChunk, state: StreamState, steps: Sequence[Step]) -> Usage:
    wire = chunk_usage(chunk, state, state.prompt_tokens)
    last = steps[-1] if steps else None
    return Usage(
        prompt_tokens=state.prompt_tokens,
        completion_tokens=last.tokens if last is not None else 0,
        cached_tokens=None if wire is None else _cached(wire.prompt_tokens_details),
        reasoning_tokens=None if last is None else last.reasoning_tokens,
    )


def _prompt_count(given: int | None, told: int | None, known: int) -> int:
    if given is not None:
        return given
    return told or known


def _cached(details: Mapping[str, Any] | None) -> int | None:
    cached = (details or {}).get("cached_tokens")
    return cached if isinstance(cached, int) and 0 <= cached <= MAX_COUNT else None
