"""OpenAI's completions: prompts continued as they are, whole and streamed."""

from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.di import NamedDependency

from app.http.codec import StructDTO, json_body
from app.http.docs import error_replies
from app.http.exchange import exchange_of
from app.http.public import answered
from app.http.service import Service
from app.protocol.completions import COMPLETIONS_EXAMPLE, CompletionsRequest
from app.protocol.completions_reply import Completion
from app.runs.completions import complete

__all__ = ("ROUTES",)

PATH = "/v1/completions"


@post(PATH, status_code=200, dto=StructDTO, return_dto=None, tags=["completions"], responses=error_replies(PATH))
async def completions(
    data: Annotated[CompletionsRequest, json_body(COMPLETIONS_EXAMPLE)],
    request: Request[Any, Any, State],
    service: NamedDependency[Service],
) -> Response[Completion]:
    """Continue one or many prompts. With `stream`, chunks as an event stream that ends with `data: [DONE]`."""
    exchange = exchange_of(request.scope)
    model = service.model(data.model, exchange)
    prepared = await complete(
        data, model=model, tenant=exchange.tenant, header_id=exchange.client_id, long=exchange.large
    )
    return await answered(prepared, request, "openai", keep_alive_s=service.settings.keep_alive_s)


ROUTES: list[Any] = [completions]
