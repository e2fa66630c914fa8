"""``previous_response_id``, ``conversation`` and ``item_reference`` to the items that they stand for.

Rendering knows no store: it gets the whole conversation inline, as a client without a store would have sent it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from app.errors import InvalidRequest, NotFound
from app.protocol.ids import response_range
from app.rendering.prompt import LONG_WORK, in_thread
from app.store.exact import ExactIds, TurnIds
from app.store.items import Probe, as_list, probe, with_ids

if TYPE_CHECKING:
    from app.store.conversations import ConversationStore
    from app.store.store import ResponseStore

__all__ = ("ResolvedInput", "as_dicts", "check_outputs", "conversation_id_of", "resolve_input")

T = TypeVar("T")

LOOP_BYTES = 131_072
"""Bytes of an input that is resolved on the event loop: a millisecond or two."""
TURNS_TRIED = 3
"""How many of a conversation's last turns are asked for their token ids (items may have been added by hand)."""
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


class ResolvedInput(Struct, frozen=True):
    """What a request is generated from.

    ``history`` are the items of earlier turns, oldest first; ``input`` this request's own, with ids and without
    references: what is stored with the turn. ``exact`` are the previous turn's token ids, of the model ``model``; in a
    conversation that turn is ``before``.
    """

    history: list[Raw]
    input: list[Raw]
    exact: ExactIds | None = None
    model: str | None = None
    before: str | None = None


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
    exact = model = before = None
    if previous_response_id is not None:
        chain = await store.resolve(previous_response_id, with_ids=with_exact)
        history, exact, model = chain.items(), chain.exact, chain.model
    elif conversation is not None:
        try:
            history = await conversations.items(conversation)
        except NotFound as error:
            error.param = "conversation"
            raise
        if with_exact and (last := await _last_turn(history, store)) is not None:
            before, exact, model = last.response_id, last.ids, last.model
    long = len(bytes(given)) > LOOP_BYTES
    probed = await _in_turn(lambda: _probed(as_list(given)), long=long)
    items = await _without_references(probed, history, store)
    named = await _in_turn(lambda: with_ids(items, response_id), long=long)
    return ResolvedInput(history, named, exact, model, before)


async def _in_turn(work: Callable[[], T], *, long: bool) -> T:
    return await in_thread(LONG_WORK, work) if long else work()


async def _last_turn(history: Sequence[Raw], store: "ResponseStore") -> TurnIds | None:
    """The token ids of a conversation's newest turn: its items' ids tell which one it was."""
    tried: set[tuple[str, str]] = set()
    for item in reversed(history):
        between = response_range(probe(item).id or "")
        if between is None or between in tried:
            continue
        if len(tried) == TURNS_TRIED:
            break
        tried.add(between)
        if (found := await store.token_ids(between)) is not None:
            return found
    return None


def _probed(items: Sequence[Raw]) -> list[tuple[Raw, Probe]]:
    """Items with what they are."""
    probed = []
    for index, item in enumerate(items):
        try:
            probed.append((item, probe(item)))
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"The item is malformed: {error}", param=f"input[{index}]") from error
    return probed


async def _without_references(
    items: Sequence[tuple[Raw, Probe]], history: Sequence[Raw], store: "ResponseStore"
) -> list[Raw]:
    """Each reference by its item; what the history has already is not said twice."""
    known = {name for item in history if (name := probe(item).id)}
    result = []
    for index, (item, found) in enumerate(items):
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


def check_outputs(items: Sequence[Raw], history: Sequence[Raw]) -> None:
    """Refuse an output whose call is nowhere before it, as OpenAI does: no template can say what it answers.

    A call without its output is taken as it is (the user may have gone on without waiting for it), and so is an output
    behind a compaction, which may have summed up its call.

    Args:
        items: the request's own; outputs among the history were taken when they came.
        history: all before them.

    Raises:
        InvalidRequest: names the call.
    """
    called: set[str | None] = set()
    for place, item in enumerate((*history, *items), -len(history)):
        found = probe(item)
        if found.kind == "compaction":
            return
        if found.kind in ("function_call", "custom_tool_call"):
            called.add(found.call_id)
        elif place >= 0 and found.kind in _OUTPUTS and found.call_id is not None and found.call_id not in called:
            raise InvalidRequest(
                f"No tool call found for function call output with call_id {found.call_id}.", param=f"input[{place}]"
            )
