"""Token ids to API replies, whole or chunk by chunk: the ``/derender`` endpoints. All state is in the request."""

import asyncio
import time
from typing import Any

from app.dialects.chat.derender import derender as chat
from app.dialects.completions.derender import derender as completions
from app.dialects.messages.derender import derender as messages
from app.dialects.responses.derender import derender as responses
from app.http.codec import encode
from app.http.exchange import Exchange
from app.http.json_route import JsonRoute
from app.http.service import Service
from app.http.shell import SCALE_OUT
from app.protocol.chat import CHAT_EXAMPLE
from app.protocol.chat_reply import ChatCompletion
from app.protocol.completions import COMPLETIONS_EXAMPLE
from app.protocol.completions_reply import Completion
from app.protocol.derender import (
    ChatDerendered,
    ChatDerenderRequest,
    CompletionDerendered,
    CompletionsDerenderRequest,
    EventsDerendered,
    MessagesDerenderRequest,
    ResponsesDerenderRequest,
)
from app.protocol.messages import MESSAGES_EXAMPLE
from app.protocol.messages_reply import MessageReply
from app.protocol.responses import RESPONSES_EXAMPLE
from app.protocol.responses_reply import Response

__all__ = ("ROUTES",)

LONG = 2_000
"""Output tokens from which a call is done in a thread, so that the event loop never waits for it."""


async def derender_chat(service: Service, data: ChatDerenderRequest, exchange: Exchange) -> bytes:
    """Turn a generate answer into a chat completion, or with `stream` one chunk of it into a chat completion chunk."""
    return await _derender(service, chat, data, exchange)


async def derender_completions(service: Service, data: CompletionsDerenderRequest, exchange: Exchange) -> bytes:
    """Turn generate answers, one a prompt, into a completion, or with `stream` one chunk into a completion chunk."""
    return await _derender(service, completions, data, exchange)


async def derender_responses(service: Service, data: ResponsesDerenderRequest, exchange: Exchange) -> bytes:
    """Turn a generate answer into a response, or with `stream` one chunk of it into the API's own events."""
    return await _derender(service, responses, data, exchange)


async def derender_messages(service: Service, data: MessagesDerenderRequest, exchange: Exchange) -> bytes:
    """Turn a generate answer into an Anthropic message, or with `stream` one chunk of it into the API's own events."""
    return await _derender(service, messages, data, exchange)


async def _derender(service: Service, derender: Any, data: Any, exchange: Exchange) -> bytes:
    model = service.model(data.model, exchange)
    now = int(time.time())
    exchange.tokens_out = tokens = _tokens(data)
    if tokens < LONG:
        return encode(derender(data, model, service.seal, now=now))
    return await asyncio.to_thread(lambda: encode(derender(data, model, service.seal, now=now)))


def _tokens(data: Any) -> int:
    answers = [data.generate_chunk, getattr(data, "generate_response", None)]
    answers += getattr(data, "generate_responses", None) or []
    return sum(len(choice.token_ids or ()) for answer in answers if answer is not None for choice in answer.choices)


ANSWER: dict[str, Any] = {
    "request_id": "chatcmpl-1",
    "choices": [{"index": 0, "token_ids": [504, 3575, 282, 4649, 314, 7042, 30, 2]}],
}
ROUTES = [
    JsonRoute(
        path="/v1/chat/completions/derender",
        run=derender_chat,
        takes=ChatDerenderRequest,
        gives=ChatCompletion | ChatDerendered,
        example={"model": "demo", "generate_response": ANSWER, "chat_request": CHAT_EXAMPLE},
        tag="derender",
        opt=SCALE_OUT,
    ),
    JsonRoute(
        path="/v1/completions/derender",
        run=derender_completions,
        takes=CompletionsDerenderRequest,
        gives=Completion | CompletionDerendered,
        example={"model": "demo", "generate_responses": [ANSWER], "completion_request": COMPLETIONS_EXAMPLE},
        tag="derender",
        opt=SCALE_OUT,
    ),
    JsonRoute(
        path="/v1/responses/derender",
        run=derender_responses,
        takes=ResponsesDerenderRequest,
        gives=Response | EventsDerendered,
        example={"model": "demo", "generate_response": ANSWER, "responses_request": RESPONSES_EXAMPLE},
        tag="derender",
        opt=SCALE_OUT,
    ),
    JsonRoute(
        path="/v1/messages/derender",
        run=derender_messages,
        takes=MessagesDerenderRequest,
        gives=MessageReply | EventsDerendered,
        example={"model": "demo", "generate_response": ANSWER, "messages_request": MESSAGES_EXAMPLE},
        tag="derender",
        opt=SCALE_OUT,
    ),
]
