"""OpenAI's conversations and their items."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.datastructures import State as Scope
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from app.dialects.responses.included import shown_item
from app.dialects.responses.items import read_items
from app.errors import InvalidRequest, Unsupported
from app.http.codec import StructDTO, encode, json_body, reply
from app.http.docs import error_replies
from app.http.exchange import exchange_of
from app.http.routes.responses import included, shown_page, state_of
from app.http.service import Service
from app.store.conversation import StoredConversation
from app.store.items import Page

if TYPE_CHECKING:
    from app.store.conversations import ConversationStore

__all__ = ("ROUTES",)

PATH = "/v1/conversations"
BODILESS = error_replies(PATH, bodiless=True)


class NewConversation(msgspec.Struct, frozen=True):
    """Up to 20 items to begin with, and metadata."""

    items: list[dict[str, Any]] | None = None
    metadata: dict[str, str] | None = None


class NewItems(msgspec.Struct, frozen=True):
    """Up to 20 items to append."""

    items: list[dict[str, Any]]


class NewMetadata(msgspec.Struct, frozen=True):
    """What replaces the metadata."""

    metadata: dict[str, str] | None = None


class DeletedConversation(msgspec.Struct):
    """What is answered to a delete."""

    id: str
    object: str = "conversation.deleted"
    deleted: bool = True


ITEM: dict[str, Any] = {"type": "message", "role": "user", "content": "Hello."}


@post(PATH, status_code=200, dto=StructDTO, return_dto=None, tags=["conversations"], responses=error_replies(PATH))
async def create_conversation(
    data: Annotated[NewConversation, json_body({"items": [ITEM], "metadata": {"topic": "greetings"}})],
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
) -> Response[StoredConversation]:
    """Begin a conversation."""
    return reply(await _store(request, service).create(_raw(data.items or []), data.metadata))


@get(PATH + "/{conversation_id:str}", tags=["conversations"], responses=BODILESS)
async def retrieve_conversation(
    request: Request[Any, Any, Scope], service: NamedDependency[Service], conversation_id: FromPath[str]
) -> Response[StoredConversation]:
    """A conversation without its items."""
    return reply(await _store(request, service).retrieve(conversation_id))


@post(
    PATH + "/{conversation_id:str}",
    status_code=200,
    dto=StructDTO,
    return_dto=None,
    tags=["conversations"],
    responses=error_replies(PATH),
)
async def update_conversation(
    data: Annotated[NewMetadata, json_body({"metadata": {"topic": "farewells"}})],
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
    conversation_id: FromPath[str],
) -> Response[StoredConversation]:
    """Replace a conversation's metadata."""
    return reply(await _store(request, service).update(conversation_id, data.metadata or {}))


@delete(PATH + "/{conversation_id:str}", status_code=200, tags=["conversations"], responses=BODILESS)
async def delete_conversation(
    request: Request[Any, Any, Scope], service: NamedDependency[Service], conversation_id: FromPath[str]
) -> Response[DeletedConversation]:
    """Delete a conversation with its items."""
    await _store(request, service).delete(conversation_id)
    return reply(DeletedConversation(conversation_id))


@post(
    PATH + "/{conversation_id:str}/items",
    status_code=200,
    dto=StructDTO,
    return_dto=None,
    tags=["conversations"],
    responses=error_replies(PATH),
)
async def add_items(
    data: Annotated[NewItems, json_body({"items": [ITEM]})],
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
    conversation_id: FromPath[str],
) -> Response[Page]:
    """Append items."""
    return reply(await _store(request, service).add(conversation_id, _raw(data.items)))


@get(PATH + "/{conversation_id:str}/items", tags=["conversations"], responses=BODILESS)
async def list_items(
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
    conversation_id: FromPath[str],
    after: FromQuery[str | None] = None,
    limit: FromQuery[int] = 20,
    order: FromQuery[Literal["asc", "desc"]] = "desc",
) -> Response[Page]:
    """A conversation's items, newest first."""
    include = included(request)
    page = await _store(request, service).page(conversation_id, after=after, limit=limit, order=order)
    return reply(shown_page(page, include))


@get(PATH + "/{conversation_id:str}/items/{item_id:str}", tags=["conversations"], responses=BODILESS)
async def retrieve_item(
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
    conversation_id: FromPath[str],
    item_id: FromPath[str],
) -> Response[dict[str, Any]]:
    """One item."""
    include = included(request)
    item = await _store(request, service).item(conversation_id, item_id)
    return reply(msgspec.Raw(shown_item(bytes(item), include)))


@delete(
    PATH + "/{conversation_id:str}/items/{item_id:str}", status_code=200, tags=["conversations"], responses=BODILESS
)
async def delete_item(
    request: Request[Any, Any, Scope],
    service: NamedDependency[Service],
    conversation_id: FromPath[str],
    item_id: FromPath[str],
) -> Response[StoredConversation]:
    """Take one item out; the conversation is answered."""
    return reply(await _store(request, service).delete_item(conversation_id, item_id))


def _store(request: Request[Any, Any, Scope], service: Service) -> "ConversationStore":
    return state_of(service).conversations(exchange_of(request.scope).tenant)


def _raw(items: list[dict[str, Any]]) -> list[msgspec.Raw]:
    """Items as they are stored; one that no turn could be read with is refused, or the conversation would be lost."""
    for place, item in enumerate(items):
        try:
            read_items([item])
        except Unsupported:
            continue  # what it refers to may be served when a turn reads it
        except InvalidRequest as error:
            param = (error.param or "input[0]").replace("input[0]", f"items[{place}]", 1)
            raise InvalidRequest(error.message, param=param) from error
    return [msgspec.Raw(encode(item)) for item in items]


ROUTES: list[Any] = [
    create_conversation,
    retrieve_conversation,
    update_conversation,
    delete_conversation,
    add_items,
    list_items,
    retrieve_item,
    delete_item,
]
