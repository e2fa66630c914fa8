"""Token ids to token ids by the model's engine: /inference/v1/generate, and its aborts."""

from typing import Annotated, Any

from litestar import MediaType, Request, Response, post
from litestar.datastructures import State
from litestar.di import NamedDependency
from msgspec import Meta, Struct

from app.http.codec import TAKES_MSGPACK, StructDTO, encode, json_body, reply
from app.http.docs import error_replies
from app.http.errors import fault_body
from app.http.exchange import exchange_of
from app.http.service import Service
from app.http.shell import SCALE_OUT
from app.http.streams import event_stream, unless_gone
from app.protocol.generate import GenerateRequest, GenerateResponse
from app.runs import generate as runs
from app.runs.generate_check import accept, check_parse_context

__all__ = ("ROUTES",)

EXAMPLE: dict[str, Any] = {
    "model": "demo",
    "token_ids": [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198],
    "sampling_params": {"temperature": 0, "max_tokens": 16},
}


class AbortRequest(Struct, frozen=True, kw_only=True):
    """Requests to end, by the ids that their answers carry."""

    request_ids: Annotated[list[str], Meta(description="Unknown ones are ignored.")]


@post(
    "/inference/v1/generate",
    status_code=200,
    dto=StructDTO,
    return_dto=None,
    tags=["generate"],
    opt={**SCALE_OUT, **TAKES_MSGPACK},
    responses=error_replies("/inference/v1/generate"),
)
async def generate(
    data: Annotated[GenerateRequest, json_body(EXAMPLE)],
    request: Request[Any, Any, State],
    service: NamedDependency[Service],
) -> Response[GenerateResponse]:
    """Generate from a rendered prompt; takes what a render endpoint answers, as JSON or as msgpack.

    With `stream` the answer is an event stream: one `data:` event per chunk of a choice, then `data: [DONE]`.
    """
    exchange = exchange_of(request.scope)
    if data.output_mode == "derender":
        check_parse_context(await request.body())
    model = service.model(data.model, exchange)
    accepted = accept(data, model, header_id=exchange.client_id)
    exchange.tokens_in = len(accepted.token_ids)
    if not accepted.stream:
        answer = await unless_gone(request.receive, runs.whole(accepted, model))
        exchange.tokens_out = answer.usage.completion_tokens if answer.usage else 0
        return reply(answer)

    def counted(tokens: int) -> None:
        exchange.tokens_out = tokens

    opening = runs.events(accepted, model, fault_body, counted)
    silence = service.settings.keep_alive_s
    return await event_stream(opening, _failed, receive=request.receive, keep_alive_s=silence)


@post(
    "/inference/v1/abort_requests",
    status_code=200,
    media_type=MediaType.TEXT,
    dto=StructDTO,
    return_dto=None,
    tags=["generate"],
    opt=SCALE_OUT,
    responses=error_replies("/inference/v1/abort_requests"),
)
async def abort_requests(
    data: Annotated[AbortRequest, json_body({"request_ids": ["generate-tokens-chatcmpl-0123456789abcdef"]})],
    service: NamedDependency[Service],
) -> None:
    """End running generations. Their answers close with finish reason `abort`."""
    await runs.abort(service.models, data.request_ids)


def _failed(error: Exception) -> bytes:
    return b"data: " + encode(fault_body(error)) + b"\n\n" + runs.DONE


ROUTES: list[Any] = [generate, abort_requests]
