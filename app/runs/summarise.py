"""``POST /v1/responses/compact``: a conversation to the model's own summary of it, sealed, and the user's messages."""

import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.errors import EngineFailure
from app.models import ServedModel
from app.protocol.ids import new_id
from app.protocol.responses import ResponsesRequest
from app.protocol.responses_reply import MessageItem, Response, ResponseUsage
from app.runs.compact import compacted, opened, to_summarise
from app.runs.history import as_dicts, conversation_id_of, resolve_input
from app.runs.respond import Prepared, prepare, stream
from app.runs.sealed import Seal
from app.store.items import as_list, with_ids

if TYPE_CHECKING:
    from app.runs.state import State

__all__ = ("Compaction", "compact")


class Compaction(Struct, kw_only=True):
    """The compacted conversation: ``output`` is the next request's ``input``. Time in Unix seconds."""

    id: str
    object: str = "response.compaction"
    created_at: int
    output: list[Raw]
    usage: ResponseUsage


class _Terminal(Struct):
    response: Response


async def compact(
    request: ResponsesRequest, *, model: ServedModel, state: "State | None", tenant: str, seal: Seal
) -> Compaction:
    """Summarise a conversation. Nothing is stored.

    Args:
        request: ``input``, ``previous_response_id`` or ``conversation`` say what; ``instructions`` are obeyed.
        model: writes the summary.
        state: where earlier turns are; None: there are none.
        tenant: whose conversation it is, and who can use the answer.
        seal: seals the summary.

    Raises:
        InvalidRequest: there is nothing to sum up, or a field is wrong.
        EngineFailure: the model wrote no summary.
    """
    compaction_id = new_id("resp")
    items = with_ids(as_list(msgspec.json.encode(request.input)), compaction_id)
    if state is not None:
        resolved = await resolve_input(
            msgspec.json.encode(request.input),
            response_id=compaction_id,
            store=state.responses(tenant),
            conversations=state.conversations(tenant),
            previous_response_id=request.previous_response_id,
            conversation=conversation_id_of(request.conversation),
        )
        items = [*resolved.history, *resolved.input]
        request = replace(request, previous_response_id=None, conversation=None)
    asked = replace(
        request,
        input=as_dicts(to_summarise(opened(items, tenant=tenant, seal=seal))),
        tool_choice="none" if request.tools else "auto",
        text=None,
        background=False,
        stream=False,
        store=False,
    )
    prepared = await prepare(asked, model=model, state=None, tenant=tenant)
    assert isinstance(prepared, Prepared)
    last = b""
    async for event in stream(prepared):
        last = event.data
    response = msgspec.json.decode(last, type=_Terminal).response
    summary = "".join(
        part.text for item in response.output if isinstance(item, MessageItem) for part in item.content
    ).strip()
    if response.error is not None or not summary:
        raise EngineFailure(response.error.message if response.error is not None else "The model wrote no summary.")
    return Compaction(
        id=compaction_id,
        created_at=int(time.time()),
        output=compacted(items, summary, compaction_id=compaction_id, tenant=tenant, seal=seal),
        usage=response.usage or ResponseUsage(),
    )
