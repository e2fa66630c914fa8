"""Anthropic's messages, whole and streamed."""

from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.di import NamedDependency

from app.http.codec import StructDTO, json_body
from app.http.docs import error_replies
from app.http.exchange import exchange_of
from app.http.public import answered
from app.http.service import Service
from app.protocol.messages import MESSAGES_EXAMPLE, MessagesRequest
from app.protocol.messages_reply import MessageReply
from app.runs.messages import message

__all__ = ("ROUTES",)

PATH = "/v1/messages"


@post(PATH, status_code=200, dto=StructDTO, return_dto=None, tags=["messages"], responses=error_replies(PATH))
async def messages(
    data: Annotated[MessagesRequest, json_body(MESSAGES_EXAMPLE)],
    request: Request[Any, Any, State],
    service: NamedDependency[Service],
) -> Response[MessageReply]:
    """Answer a conversation in content blocks: thinking, text and tool use. With `stream`, the API's own events.

    `anthropic-version` and `anthropic-beta` are taken and change nothing; the key may come as `x-api-key`.
    """
    exchange = exchange_of(request.scope)
    model = service.model(data.model, exchange)
    prepared = await message(data, model=model, tenant=exchange.tenant, header_id=exchange.client_id)
    return await answered(prepared, request, "anthropic", keep_alive_s=service.settings.keep_alive_s)


ROUTES: list[Any] = [messages]
