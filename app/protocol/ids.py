"""Ids: a prefix and 48 hex digits, from the time, from chance, or from the response that an item belongs to.

``resp_`` + 6 bytes of Unix milliseconds (rows of one time lie together in an index) + 18 random bytes (unguessable).
An item's id starts with the first 32 hex digits of its response's, so that an ``item_reference`` finds its response
by a range of the primary key and no index of items is needed.
"""

import re
import secrets
import time
from hashlib import blake2b

__all__ = ("ITEM_PREFIXES", "item_id", "item_prefix", "new_id", "now_ms", "response_range")

ITEM_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "cto",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "compaction": "cmp",
}
"""Item type to the prefix of its id; every other type is an ``item``."""

_HEX = re.compile(r"[a-z]+_([0-9a-f]{48})")


def now_ms() -> int:
    """Unix time in whole milliseconds."""
    return time.time_ns() // 1_000_000


def new_id(prefix: str, *, at_ms: int | None = None) -> str:
    """A fresh id, of now unless ``at_ms`` (Unix milliseconds) says otherwise."""
    return f"{prefix}_{now_ms() if at_ms is None else at_ms:012x}{secrets.token_hex(18)}"


def item_prefix(item_type: str) -> str:
    """The prefix of an item type's ids."""
    return ITEM_PREFIXES.get(item_type, "item")


def item_id(prefix: str, owner: str, index: int, *, side: str = "output") -> str:
    """The id of an item by its place: the same arguments give the same id, on any replica.

    Args:
        prefix: as in :data:`ITEM_PREFIXES`.
        owner: the response's (or conversation's) id; any text will do, but only ids of ours can be found again.
        index: the item's place on its side.
        side: "output", or "input" for items that came without an id.
    """
    found = _HEX.fullmatch(owner)
    head = found[1][:32] if found else blake2b(owner.encode(errors="replace"), digest_size=16).hexdigest()
    return f"{prefix}_{head}{blake2b(f'{owner}/{side}/{index}'.encode(errors='replace'), digest_size=8).hexdigest()}"


def response_range(item: str) -> tuple[str, str] | None:
    """First id and end (exclusive) of the responses that can have minted this item; None for an id not of ours."""
    found = _HEX.fullmatch(item)
    return None if found is None else (f"resp_{found[1][:32]}", f"resp_{found[1][:32]}g")
