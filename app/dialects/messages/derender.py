"""``/v1/messages/derender``: a token answer to a message, token chunks to Anthropic's own events."""

from msgspec.structs import replace

from app.derendering.stream_state import StateSeal
from app.dialects.binding import DerenderModel, ReadingView, derenderer_of, effective_kwargs, history_calls
from app.dialects.event_stream import Bound, derender_events, response_usage, whole_answer
from app.dialects.identity import base_id
from app.dialects.messages.read import read
from app.dialects.messages.write import MessagesWriter, fold
from app.dialects.nested import inside
from app.dialects.steps import whole
from app.dialects.writer import ReplyHead, Usage
from app.protocol.derender import EventsDerendered, MessagesDerenderRequest
from app.protocol.messages import AnthropicMessage, MessagesRequest
from app.protocol.messages_reply import MessageReply

__all__ = ("CALL_DIGITS", "CALL_PREFIX", "derender")

DIALECT = "messages"
CALL_PREFIX = "toolu_"
CALL_DIGITS = 24
NO_MESSAGES = [AnthropicMessage(role="user", content="-")]
"""Stand for messages that have been read already."""


def derender(
    request: MessagesDerenderRequest, model: DerenderModel, seal: StateSeal, *, now: int
) -> MessageReply | EventsDerendered:
    """The reply to a derender call; ``now`` is in Unix seconds.

    The last events come with the chunk that has the finish reason; a chunk of usage alone after it gives none.

    Raises:
        InvalidRequest: a field is missing, wrong or too large.
        InvalidState: ``stream_state`` is forged, of another key or of another stream.
    """
    asked = request.messages_request
    name = request.model or asked.model

    def write(request_id: str, created: int, prompt: Usage) -> MessagesWriter:
        return MessagesWriter(ReplyHead(id=request_id, created=created, model=name), prompt)

    if request.stream:
        return derender_events(
            request,
            model,
            seal,
            dialect=DIALECT,
            id_prefix="msg_",
            now=now,
            bind=lambda request_id, calls: bind(asked, model, request_id, calls),
            write=write,
        )
    response, prompt_ids = whole_answer(request, model)
    request_id = response.request_id or f"msg_{base_id(None, None)}"
    bound = bind(asked, model, request_id, None)
    (step,) = whole(bound.derenderer, response, prompt_ids, bound.kwargs)
    usage = response_usage(request, response, step)
    writer = write(request_id, now, usage)
    return fold([*writer.start(), *writer.feed(step), *writer.finish(usage)])


def bind(request: MessagesRequest, model: DerenderModel, request_id: str, calls: int | None) -> Bound:
    """The request's derenderer; ``calls`` is None with the first chunk, when the messages are read."""
    asked = request if calls is None else replace(request, messages=NO_MESSAGES)
    with inside("messages_request"):
        read_request = read(asked, model=ReadingView.of(model))
    history = history_calls(read_request) if calls is None else calls
    kwargs = effective_kwargs(model, read_request)
    derenderer = derenderer_of(
        model,
        read_request,
        request_id=request_id,
        kwargs=kwargs,
        history_calls=history,
        call_prefix=CALL_PREFIX,
        call_digits=CALL_DIGITS,
    )
    return Bound(derenderer, kwargs, history)
