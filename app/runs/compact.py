"""A long conversation to a short one: the user's messages, and the model's own summary of the rest, sealed.

``POST /v1/responses/compact`` answers all user messages and one ``compaction`` item, whose ``encrypted_content`` a
later request brings back; there it is opened and stands as a message of the assistant, who wrote it.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from app.errors import InvalidRequest
from app.protocol.ids import item_id
from app.runs.sealed import Seal
from app.store.items import listed, probe

__all__ = ("PROMPT", "compacted", "opened", "to_summarise")

PROMPT = (
    "Summarise this conversation so that it can go on from your summary alone. Keep what the user wants and has "
    "decided, every fact, name, number and identifier that may be needed again, the results of tool calls, what has "
    "been done, and what is still open. Write the summary only."
)
"""The last user message of the run that writes the summary."""

_HEAD = "Summary of the conversation so far:\n\n"


def to_summarise(items: Sequence[Raw]) -> list[Raw]:
    """The input of the run that writes the summary. Raises :class:`InvalidRequest` where there is nothing to sum up."""
    if not items:
        raise InvalidRequest("There is nothing to compact.", param="input")
    ask = {"type": "message", "role": "user", "content": PROMPT}
    return [*items, Raw(msgspec.json.encode(ask))]


def compacted(items: Sequence[Raw], summary: str, *, compaction_id: str, tenant: str, seal: Seal) -> list[Raw]:
    """The compacted conversation: every user message as it was sent, then the summary.

    Earlier compactions are left out: the new summary was written over them.
    """
    kept: list[Raw] = []
    for item in items:
        found = probe(item)
        if found.kind == "message" and found.role == "user":
            kept.append(listed(item, found.id or item_id("msg", compaction_id, len(kept), side="input")))
    last = {
        "id": item_id("cmp", compaction_id, len(kept)),
        "type": "compaction",
        "encrypted_content": seal.seal(summary, tenant=tenant),
    }
    return [*kept, Raw(msgspec.json.encode(last))]


def opened(items: Sequence[Raw], *, tenant: str, seal: Seal, param: str = "input") -> list[Raw]:
    """Items to render, with each compaction as the summary that it holds.

    Raises:
        InvalidRequest: a compaction is not ours, or another tenant's.
    """
    result = []
    for index, item in enumerate(items):
        if probe(item).kind != "compaction":
            result.append(item)
            continue
        place = f"{param}[{index}].encrypted_content"
        token = msgspec.json.decode(item).get("encrypted_content")
        if not isinstance(token, str):
            raise InvalidRequest("A compaction needs its encrypted content.", param=place)
        text = _HEAD + seal.open(token, tenant=tenant, param=place)
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        result.append(Raw(msgspec.json.encode(message)))
    return result
