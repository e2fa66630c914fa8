"""``/v1/responses/derender``: a token answer to a Response, token chunks to the API's own events."""

from msgspec.structs import replace

from app.derendering.logprobs import LogprobOptions
from app.derendering.stream_state import StateSeal
from app.dialects.binding import DerenderModel, ReadingView, derenderer_of, effective_kwargs, history_calls
from app.dialects.event_stream import Bound, derender_events, response_usage, whole_answer
from app.dialects.identity import base_id
from app.dialects.nested import inside
from app.dialects.responses.opening import open_response, read_called_tools
from app.dialects.responses.read import LOGPROBS, read
from app.dialects.responses.write import ResponsesWriter, fold
from app.dialects.steps import whole
from app.dialects.writer import Usage
from app.protocol.derender import EventsDerendered, ResponsesDerenderRequest
from app.protocol.responses import ResponsesRequest
from app.protocol.responses_reply import Response

__all__ = ("CALL_DIGITS", "CALL_PREFIX", "derender", "make_writer")

DIALECT = "responses"
CALL_PREFIX = "call_"
CALL_DIGITS = 24


def derender(
    request: ResponsesDerenderRequest, model: DerenderModel, seal: StateSeal, *, now: int
) -> Response | EventsDerendered:
    """The reply to a derender call; ``now`` is in Unix seconds.

    The last event comes with the chunk that has the finish reason; a chunk of usage alone after it gives none.

    Raises:
        InvalidRequest: a field is missing, wrong or too large.
        InvalidState: ``stream_state`` is forged, of another key or of another stream.
    """
    asked = request.responses_request
    name = request.model or asked.model or model.name
    if request.stream:
        return derender_events(
            request,
            model,
            seal,
            dialect=DIALECT,
            id_prefix="resp_",
            now=now,
            bind=lambda request_id, calls: bind(asked, model, request_id, calls),
            write=lambda request_id, created, _: make_writer(asked, request_id, created, name),
        )
    response, prompt_ids = whole_answer(request, model)
    request_id = response.request_id or f"resp_{base_id(None, asked.request_id)}"
    bound = bind(asked, model, request_id, None)
    (step,) = whole(bound.derenderer, response, prompt_ids, bound.kwargs)
    writer = make_writer(asked, request_id, now, name)
    usage: Usage = response_usage(request, response, step)
    return fold([*writer.start(), *writer.feed(step), *writer.finish(usage)])


def make_writer(request: ResponsesRequest, response_id: str, created: int, model: str) -> ResponsesWriter:
    """The writer of a request's reply; ``created`` is in Unix seconds, ``model`` the name to tell."""
    opening = open_response(request, response_id=response_id, created_at=created, model=model)
    return ResponsesWriter(
        opening, tools=read_called_tools(request.tools), logprobs=LOGPROBS in (request.include or ())
    )


def bind(request: ResponsesRequest, model: DerenderModel, request_id: str, calls: int | None) -> Bound:
    """The request's derenderer; ``calls`` is None with the first chunk, when the input is read."""
    # History is the store's to resolve, and the prompt is rendered already: neither plays a part here.
    stateless = replace(request, previous_response_id=None, conversation=None, prompt=None)
    if calls is not None:
        stateless = replace(stateless, input=NO_INPUT)
    with inside("responses_request"):
        read_request = read(stateless, model=ReadingView.of(model))
    history = history_calls(read_request) if calls is None else calls
    kwargs = effective_kwargs(model, read_request)
    asked = LOGPROBS in (request.include or ())
    derenderer = derenderer_of(
        model,
        read_request,
        request_id=request_id,
        kwargs=kwargs,
        history_calls=history,
        logprobs=LogprobOptions(top=request.top_logprobs or 0) if asked else None,
        call_prefix=CALL_PREFIX,
        call_digits=CALL_DIGITS,
    )
    return Bound(derenderer, kwargs, history)


NO_INPUT = "-"
"""Stands for an input that has been read already."""
