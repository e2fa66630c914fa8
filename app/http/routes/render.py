"""Requests of the dialects to token ids: the ``/render`` endpoints. Nothing is generated."""

from collections.abc import Callable

from app.dialects.chat.read import read as read_chat
from app.dialects.completions.read import read as read_completions
from app.dialects.messages.read import read as read_messages
from app.dialects.responses.read import read as read_responses
from app.http.exchange import Exchange
from app.http.json_route import JsonRoute
from app.http.service import Service
from app.http.shell import SCALE_OUT
from app.http.wire import written
from app.models import ServedModel
from app.multimodal.splice import Body
from app.protocol.chat import CHAT_EXAMPLE, ChatRequest
from app.protocol.completions import COMPLETIONS_EXAMPLE, CompletionsRequest
from app.protocol.generate import GenerateRequest
from app.protocol.ids import new_id
from app.protocol.messages import MESSAGES_EXAMPLE, MessagesRequest
from app.protocol.responses import RESPONSES_EXAMPLE, ResponsesRequest
from app.rendering.request import RenderInput
from app.runs.reading import reading, reading_all, rendering_all
from app.runs.respond import render

__all__ = ("ROUTES",)


async def render_chat(service: Service, data: ChatRequest, exchange: Exchange) -> bytes | Body:
    """Render a chat completions request to the ids, sampling parameters and media that an engine takes."""
    model = service.model(data.model, exchange)
    return await _rendered(model, lambda: read_chat(data, model=model, request_id=exchange.client_id), exchange)


async def render_completions(service: Service, data: CompletionsRequest, exchange: Exchange) -> bytes | Body:
    """Render a completions request; the answer is a list with one element a prompt, also for a single one."""
    model = service.model(data.model, exchange)
    inputs = await reading_all(
        lambda: read_completions(data, model=model, request_id=exchange.client_id), long=exchange.large
    )
    rendered = await rendering_all(inputs, model.renderer)
    exchange.tokens_in = sum(len(item.token_ids) for item in rendered)
    return await written(rendered, exchange)


async def render_responses(service: Service, data: ResponsesRequest, exchange: Exchange) -> bytes | Body:
    """Render a responses request; `previous_response_id` and `conversation` need a store."""
    model = service.model(data.model, exchange)
    if service.store is not None and (data.previous_response_id is not None or data.conversation is not None):
        response_id = exchange.client_id or data.request_id or new_id("resp")
        found = await render(
            data,
            model=model,
            state=service.store,
            tenant=exchange.tenant,
            response_id=response_id,
            token_exact=service.settings.token_exact,
            long=exchange.large,
        )
        exchange.tokens_in = len(found.prompt.token_ids)
        return await written(found.prompt, exchange)
    return await _rendered(model, lambda: read_responses(data, model=model, request_id=exchange.client_id), exchange)


async def render_messages(service: Service, data: MessagesRequest, exchange: Exchange) -> bytes | Body:
    """Render an Anthropic messages request."""
    model = service.model(data.model, exchange)
    return await _rendered(model, lambda: read_messages(data, model=model, request_id=exchange.client_id), exchange)


async def _rendered(model: ServedModel, read: Callable[[], RenderInput], exchange: Exchange) -> bytes | Body:
    given = await reading(read, long=exchange.large)
    rendered: GenerateRequest = await model.renderer.render(given)
    exchange.tokens_in = len(rendered.token_ids)
    return await written(rendered, exchange)


ROUTES = [
    JsonRoute(
        path="/v1/chat/completions/render",
        run=render_chat,
        takes=ChatRequest,
        gives=GenerateRequest,
        example=CHAT_EXAMPLE,
        tag="render",
        opt=SCALE_OUT,
    ),
    JsonRoute(
        path="/v1/completions/render",
        run=render_completions,
        takes=CompletionsRequest,
        gives=list[GenerateRequest],
        example=COMPLETIONS_EXAMPLE,
        tag="render",
        opt=SCALE_OUT,
    ),
    JsonRoute(
        path="/v1/responses/render",
        run=render_responses,
        takes=ResponsesRequest,
        gives=GenerateRequest,
        example=RESPONSES_EXAMPLE,
        tag="render",
        opt=SCALE_OUT,
    ),
    JsonRoute(
        path="/v1/messages/render",
        run=render_messages,
        takes=MessagesRequest,
        gives=GenerateRequest,
        example=MESSAGES_EXAMPLE,
        tag="render",
        opt=SCALE_OUT,
    ),
]
