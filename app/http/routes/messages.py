"""Anthropic's messages, whole and streamed, and the count of their tokens."""

from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.di import NamedDependency

from app.http.codec import StructDTO, encode, json_body
from app.http.docs import error_replies
from app.http.exchange import Exchange, exchange_of
from app.http.json_route import JsonRoute
from app.http.public import answered
from app.http.service import Service
from app.protocol.messages import MESSAGES_EXAMPLE, CountTokensRequest, MessagesRequest
from app.protocol.messages_reply import MessageReply
from app.protocol.tokenize import TokenCount
from app.runs import messages as runs

__all__ = ("JSON_ROUTES", "ROUTES")

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
    prepared = await runs.message(
        data, model=model, tenant=exchange.tenant, header_id=exchange.client_id, long=exchange.large
    )
    return await answered(prepared, request, "anthropic", keep_alive_s=service.settings.keep_alive_s)


async def count_tokens(service: Service, data: CountTokensRequest, exchange: Exchange) -> bytes:
    """Prompt tokens of a messages request, which may be more than the model's context."""
    model = service.model(data.model, exchange)
    exchange.tokens_in = await runs.count_tokens(data, model=model, long=exchange.large)
    return encode(TokenCount(input_tokens=exchange.tokens_in))


ROUTES: list[Any] = [messages]
JSON_ROUTES = [
    JsonRoute(
        path=f"{PATH}/count_tokens",
        run=count_tokens,
        takes=CountTokensRequest,
        gives=TokenCount,
        example={key: value for key, value in MESSAGES_EXAMPLE.items() if key in ("model", "messages", "system")},
        tag="messages",
    ),
]
