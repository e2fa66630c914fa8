"""OpenAI's Responses: created whole, streamed or in the background; retrieved, replayed, cancelled, deleted, listed."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.datastructures import State as Scope
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from app.dialects.responses.included import check_include, shown_item, shown_response
from app.errors import Conflict, NotFound
from app.http.codec import StructDTO, encode, json_body, reply
from app.http.docs import error_replies
from app.http.errors import fault_body
from app.http.exchange import Exchange, exchange_of
from app.http.service import Service
from app.http.streams import event_stream, unless_gone
from app.protocol.ids import new_id
from app.protocol.responses import RESPONSES_EXAMPLE, ResponsesRequest
from app.protocol.responses_reply import Response as ResponseObject
from app.runs.events import RunEvent
from app.runs.respond import prepare, render, stream
from app.runs.sealed import Seal
from app.runs.summarise import Compaction, compact
from app.store.items import Page
from app.store.turn import RUNNING, StoredResponse

if TYPE_CHECKING:
    from app.runs.state import State

__all__ = ("ROUTES", "included", "shown_page", "state_of")

PATH = "/v1/responses"
BODILESS = error_replies(PATH, bodiless=True)
DONE = b"data: [DONE]\n\n"
BEFORE_OUTPUT = frozenset({"response.created", "response.queued", "response.in_progress", "error"})
Events = AsyncGenerator[RunEvent, None]


class DeletedResponse(msgspec.Struct):
    """What is answered to a delete."""

    id: str
    object: str = "response"
    deleted: bool = True


class InputTokens(msgspec.Struct):
    """Tokens that a request's prompt has."""

    input_tokens: int
    object: str = "response.input_tokens"


@post(PATH, status_code=200, dto=StructDTO, return_dto=None, tags=["responses"], responses=error_replies(PATH))
async def create_response(
    data: Annotated[ResponsesRequest, json_body(RESPONSES_EXAMPLE)],
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
) -> Response[ResponseObject]:
    """Answer input items, or continue a stored response or a conversation. With `stream`, the API's own events."""
    exchange = exchange_of(request.scope)
    model = service.model(data.model, exchange)
    begun = await prepare(
        data,
        model=model,
        state=service.store,
        tenant=exchange.tenant,
        token_exact=service.settings.token_exact,
        seal=seal_of(service),
        idempotency_key=request.headers.get("idempotency-key"),
        request_hash=hashlib.sha256(encode(data)).digest(),
        long=exchange.large,
    )
    if isinstance(begun, StoredResponse):
        return await _again(begun, data, service, exchange)
    exchange.tokens_in = len(begun.rendered.prompt.token_ids)
    if not data.background:
        run = stream(begun)
        if data.stream:
            silence = service.settings.keep_alive_s
            opening = _begun(run, exchange)
            return await event_stream(opening, _failed, receive=request.receive, keep_alive_s=silence)
        return _json(await unless_gone(request.receive, _folded(run, exchange)))
    if data.stream:
        return await _replayed(service, exchange, begun.opening.id, -1)
    return reply(begun.opening)


@get(PATH + "/{response_id:str}", tags=["responses"], responses=BODILESS)
async def retrieve_response(
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
    response_id: FromPath[str],
    stream: FromQuery[bool | None] = None,
    starting_after: FromQuery[int | None] = None,
) -> Response[ResponseObject]:
    """A stored response. With `stream`, the events of a background one, those after `starting_after` and to come."""
    exchange = exchange_of(request.scope)
    if stream:
        return await _replayed(service, exchange, response_id, -1 if starting_after is None else starting_after)
    include = included(request)
    found = await state_of(service).responses(exchange.tenant).retrieve(response_id)
    return _json(shown_response(found.body, include))


@delete(PATH + "/{response_id:str}", status_code=200, tags=["responses"], responses=BODILESS)
async def delete_response(
    request: Request[Any, Any, Scope], service: NamedDependency[Service], response_id: FromPath[str]
) -> Response[DeletedResponse]:
    """Delete a stored response; what continues it is not found from then on."""
    await state_of(service).responses(exchange_of(request.scope).tenant).delete(response_id)
    return reply(DeletedResponse(response_id))


@post(PATH + "/{response_id:str}/cancel", status_code=200, tags=["responses"], responses=BODILESS)
async def cancel_response(
    request: Request[Any, Any, Scope], service: NamedDependency[Service], response_id: FromPath[str]
) -> Response[ResponseObject]:
    """Cancel a background response; one that has ended is answered as it is."""
    state = state_of(service)
    found = await state.background.cancel(state.responses(exchange_of(request.scope).tenant), response_id)
    return _json(found.body)


@get(PATH + "/{response_id:str}/input_items", tags=["responses"], responses=BODILESS)
async def list_input_items(
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
    response_id: FromPath[str],
    after: FromQuery[str | None] = None,
    limit: FromQuery[int] = 20,
    order: FromQuery[Literal["asc", "desc"]] = "desc",
) -> Response[Page]:
    """The items that a response was generated from, its history included, newest first."""
    store = state_of(service).responses(exchange_of(request.scope).tenant)
    include = included(request)
    return reply(shown_page(await store.input_items(response_id, after=after, limit=limit, order=order), include))


@post(
    PATH + "/input_tokens",
    status_code=200,
    dto=StructDTO,
    return_dto=None,
    tags=["responses"],
    responses=error_replies(PATH),
)
async def count_input_tokens(
    data: Annotated[ResponsesRequest, json_body(RESPONSES_EXAMPLE)],
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
) -> Response[InputTokens]:
    """Count the tokens of a request's prompt, history included."""
    exchange = exchange_of(request.scope)
    rendered = await render(
        data,
        model=service.model(data.model, exchange),
        state=service.store,
        tenant=exchange.tenant,
        response_id=new_id("resp"),
        token_exact=service.settings.token_exact,
        seal=seal_of(service),
        long=exchange.large,
    )
    return reply(InputTokens(len(rendered.prompt.token_ids)))


@post(
    PATH + "/compact",
    status_code=200,
    dto=StructDTO,
    return_dto=None,
    tags=["responses"],
    responses=error_replies(PATH),
)
async def compact_response(
    data: Annotated[ResponsesRequest, json_body(RESPONSES_EXAMPLE)],
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
) -> Response[Compaction]:
    """Shorten a conversation to the user's messages and the model's summary of it."""
    exchange = exchange_of(request.scope)
    work = compact(
        data,
        model=service.model(data.model, exchange),
        state=service.store,
        tenant=exchange.tenant,
        seal=seal_of(service),
    )
    return reply(await unless_gone(request.receive, work))


def included(request: Request[Any, Any, Scope]) -> list[str]:
    """The query's ``include[]`` (or ``include``), as the SDK sends it. Raises :class:`InvalidRequest`."""
    given = [*request.query_params.getall("include[]", []), *request.query_params.getall("include", [])]
    check_include(given)
    return given


def shown_page(page: Page, include: list[str]) -> Page:
    """A page of items, with what is asked for."""
    return msgspec.structs.replace(page, data=[msgspec.Raw(shown_item(bytes(item), include)) for item in page.data])


def state_of(service: Service) -> "State":
    """The store. Raises :class:`NotFound` on a server without one."""
    if service.store is None:
        raise NotFound("Nothing is stored here: this server runs without a database (database_url).")
    return service.store


def seal_of(service: Service) -> Seal:
    """What compactions are sealed with, store or none."""
    return service.store.seal if service.store is not None else Seal([service.settings.state_key])


async def _again(found: StoredResponse, data: ResponsesRequest, service: Service, exchange: Exchange) -> Response[Any]:
    """The answer to a repeated idempotency key."""
    if found.background and data.stream:
        return await _replayed(service, exchange, found.id, -1)
    if found.status in RUNNING and not found.background:
        raise Conflict("A request with this idempotency key is being answered.", code="idempotency_key_in_use")
    if data.stream:
        # The deltas are not kept; the whole is.
        events = [
            {"type": "response.created", "sequence_number": 0, "response": msgspec.Raw(found.body)},
            {"type": f"response.{found.status}", "sequence_number": 1, "response": msgspec.Raw(found.body)},
        ]

        async def opening() -> AsyncIterator[bytes]:
            return _listed([_sse(str(event["type"]), encode(event)) for event in events])

        return await event_stream(opening(), _failed)
    return _json(found.body)


async def _replayed(service: Service, exchange: Exchange, response_id: str, after: int) -> Response[Any]:
    events = state_of(service).replay(exchange.tenant, response_id, after=after)
    return await event_stream(_opened(events), _failed, keep_alive_s=service.settings.keep_alive_s)


async def _folded(run: Events, exchange: Exchange) -> bytes:
    """The Response of the last event; a refusal behind it becomes the reply's own error."""
    last: RunEvent | None = None
    async with aclosing(run):
        async for event in run:
            last = event
            exchange.tokens_out = max(exchange.tokens_out, event.tokens)
    if last is None or last.ended is None:
        raise RuntimeError("the run ended without a last event")
    if last.ended.error is not None:
        raise last.ended.error
    return bytes(msgspec.json.decode(last.data, type=_Terminal).response)


class _Terminal(msgspec.Struct):
    response: msgspec.Raw


async def _begun(run: Events, exchange: Exchange) -> AsyncIterator[bytes]:
    """The events as bytes, once the engine has said something: what it refuses before that is an error reply."""
    before: list[RunEvent] = []
    async for event in run:
        before.append(event)
        if event.ended is not None and event.ended.error is not None:
            await run.aclose()
            raise event.ended.error
        if event.type not in BEFORE_OUTPUT:
            break
    return _written(before, run, exchange)


async def _opened(run: Events) -> AsyncIterator[bytes]:
    """The events as bytes, once the first is there."""
    first = await anext(run, None)
    return _written([] if first is None else [first], run, None)


async def _written(before: list[RunEvent], run: Events, exchange: Exchange | None) -> AsyncIterator[bytes]:
    async with aclosing(run):
        for event in before:
            yield _sse(event.type, event.data)
        async for event in run:
            if exchange is not None:
                exchange.tokens_out = max(exchange.tokens_out, event.tokens)
            yield _sse(event.type, event.data)
        yield DONE


async def _listed(events: list[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        yield event
    yield DONE


def _sse(kind: str, data: bytes) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _failed(error: Exception) -> bytes:
    return b"event: error\ndata: " + encode(fault_body(error, "openai")) + b"\n\n" + DONE


def _json(body: bytes) -> Response[Any]:
    return Response(body, media_type="application/json")


ROUTES: list[Any] = [
    create_response,
    count_input_tokens,
    compact_response,
    retrieve_response,
    delete_response,
    cancel_response,
    list_input_items,
]
