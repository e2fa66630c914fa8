"""OpenAI's chat completions, the whole path: render, generate, derender; whole and streamed."""

from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.di import NamedDependency

from app.http.codec import StructDTO, json_body
from app.http.docs import error_replies
from app.http.exchange import exchange_of
from app.http.public import answered
from app.http.service import Service
from app.protocol.chat import CHAT_EXAMPLE, ChatRequest
from app.protocol.chat_reply import ChatCompletion
from app.runs.chat import chat

__all__ = ("ROUTES",)

PATH = "/v1/chat/completions"


@post(PATH, status_code=200, dto=StructDTO, return_dto=None, tags=["chat completions"], responses=error_replies(PATH))
async def chat_completions(
    data: Annotated[ChatRequest, json_body(CHAT_EXAMPLE)],
    request: Request[Any, Any, State],
    service: NamedDependency[Service],
) -> Response[ChatCompletion]:
    """Answer a conversation. With `stream`, chunks as an event stream that ends with `data: [DONE]`."""
    exchange = exchange_of(request.scope)
    model = service.model(data.model, exchange)
    prepared = await chat(data, model=model, tenant=exchange.tenant, header_id=exchange.client_id, long=exchange.large)
    return await answered(prepared, request, "openai", keep_alive_s=service.settings.keep_alive_s)


ROUTES: list[Any] = [chat_completions]
