"""Requests of the four dialects to token ids: the four ``/render`` endpoints."""

from app.dialects.chat import read as chat
from app.http.codec import encode
from app.http.exchange import Exchange
from app.http.json_route import JsonRoute
from app.http.service import Service
from app.http.shell import SCALE_OUT
from app.protocol.chat import CHAT_EXAMPLE, ChatRequest
from app.protocol.generate import GenerateRequest

__all__ = ("ROUTES",)


async def render_chat(service: Service, data: ChatRequest, exchange: Exchange) -> bytes:
    """A chat completions request to the ids, sampling parameters and media that an engine takes."""
    model = service.model(data.model, exchange)
    rendered: GenerateRequest = await model.renderer.render(chat.read(data, model=model, request_id=exchange.client_id))
    exchange.tokens_in = len(rendered.token_ids)
    return encode(rendered)


ROUTES = [
    JsonRoute(
        path="/v1/chat/completions/render",
        run=render_chat,
        takes=ChatRequest,
        gives=GenerateRequest,
        example=CHAT_EXAMPLE,
        tag="render",
        opt=SCALE_OUT,
    )
]
