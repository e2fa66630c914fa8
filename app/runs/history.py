"""``previous_response_id``, ``conversation`` and ``item_reference`` to the items that they stand for.

Rendering knows no store: it gets the whole conversation inline, as a client without a store would have sent it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from app.errors import InvalidRequest, NotFound
from app.protocol.ids import response_range
from app.store.exact import ExactIds
from app.store.items import as_list, probe, with_ids

if TYPE_CHECKING:
    from app.store.conversations import ConversationStore
    from app.store.store import ResponseStore

__all__ = ("ResolvedInput", "as_dicts", "check_calls", "conversation_id_of", "resolve_input")


class ResolvedInput(Struct, frozen=True):
    """What a request is generated from.

    ``history`` are the items of earlier turns, oldest first; ``input`` this request's own, with ids and without
    references: what is stored with the turn. ``exact`` are the previous turn's token ids, of the model ``model``.
    """

    history: list[Raw]
    input: list[Raw]
    exact: ExactIds | None = None
    model: str | None = None


async def resolve_input(
    given: Raw | bytes,
    *,
    response_id: str,
    store: "ResponseStore",
    conversations: "ConversationStore",
    previous_response_id: str | None = None,
    conversation: str | None = None,
    with_exact: bool = False,
) -> ResolvedInput:
    """Resolve a request's input against the store.

    Args:
        given: the request's ``input`` as JSON.
        response_id: the response to be; ids of items that have none are derived from it.
        store: the caller's responses.
        conversations: the caller's conversations.
        previous_response_id: the response that this one continues.
        conversation: the conversation that it belongs to.
        with_exact: whether the previous turn's token ids are wanted.

    Raises:
        InvalidRequest: both are given, the input is malformed, or the previous response is not found or has no end.
        NotFound: the conversation, or an item that is referred to, is not found.
    """
    if previous_response_id is not None and conversation is not None:
        raise InvalidRequest(
            "`previous_response_id` and `conversation` exclude each other.", param="previous_response_id"
        )
    history: list[Raw] = []
    exact = model = None
    if previous_response_id is not None:
        chain = await store.resolve(previous_response_id, with_ids=with_exact)
        history, exact, model = chain.items(), chain.exact, chain.model
    elif conversation is not None:
        history = await conversations.items(conversation)
    items = await _without_references(as_list(given), history, store)
    return ResolvedInput(history, with_ids(items, response_id), exact, model)


async def _without_references(items: Sequence[Raw], history: Sequence[Raw], store: "ResponseStore") -> list[Raw]:
    """Each reference by its item; what the history has already is not said twice."""
    known = {name for item in history if (name := probe(item).id)}
    result = []
    for index, item in enumerate(items):
        try:
            found = probe(item)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"The item is malformed: {error}", param=f"input[{index}]") from error
        # A client that keeps its own copy of what we answered sends it along; its own ids mean nothing to us.
        if found.id in known and (found.kind == "item_reference" or response_range(found.id or "") is not None):
            continue
        if found.kind == "item_reference":
            stored = await store.find_item(found.id or "")
            if stored is None:
                raise NotFound(
                    f"Item with id '{found.id}' not found. Items are not persisted when `store` is set to false.",
                    param=f"input[{index}]",
                )
            item = stored
        result.append(item)
    return result


def conversation_id_of(value: str | Mapping[str, Any] | None) -> str | None:
    """The id in a request's ``conversation``: a string, or an object with an ``id``."""
    if isinstance(value, Mapping):
        value = value.get("id")
        if not isinstance(value, str):
            raise InvalidRequest("A conversation is given by its id.", param="conversation.id")
    return value


def as_dicts(items: Sequence[Raw]) -> list[dict[str, Any]]:
    """Items decoded, as :func:`app.dialects.responses.read.read` takes a history."""
    return [msgspec.json.decode(item) for item in items]


def check_calls(items: Sequence[Raw]) -> None:
    """Refuse a conversation in which a call lacks its output or an output its call.

    Raises:
        InvalidRequest: names the first such call.
    """
    open_calls: dict[str, None] = {}
    called: set[str] = set()
    for item in items:
        found = probe(item)
        if found.call_id is None:
            continue
        if found.kind in ("function_call", "custom_tool_call"):
            open_calls[found.call_id] = None
            called.add(found.call_id)
        elif found.kind in ("function_call_output", "custom_tool_call_output"):
            if found.call_id not in called:
                raise InvalidRequest(
                    f"No tool call found for function call output with call_id {found.call_id}.", param="input"
                )
            open_calls.pop(found.call_id, None)
    if open_calls:
        raise InvalidRequest(f"No tool output found for function call {next(iter(open_calls))}.", param="input")
