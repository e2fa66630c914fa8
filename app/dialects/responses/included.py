"""``include`` of a stored response or of its items: checked, and what was not asked for left out."""

from collections.abc import Sequence
from typing import Any

import msgspec

from app.dialects.responses.read import LOGPROBS
from app.errors import InvalidRequest
from app.rendering.limits import INCLUDES

__all__ = ("check_include", "shown_item", "shown_response")

_MARK = b'"logprobs":[{'


def check_include(given: Sequence[str]) -> None:
    """Refuse a word that the API does not have. Raises :class:`InvalidRequest`."""
    for place, word in enumerate(given):
        if word not in INCLUDES:
            raise InvalidRequest(f"`include` takes {', '.join(INCLUDES)}.", param=f"include[{place}]")


def shown_response(body: bytes, include: Sequence[str]) -> bytes:
    """A Response as JSON; logprobs only where they are asked for, all else as it was answered."""
    if LOGPROBS in include or _MARK not in body:
        return body
    response: dict[str, Any] = msgspec.json.decode(body)
    for item in response["output"]:
        _hide(item)
    return msgspec.json.encode(response)


def shown_item(item: bytes, include: Sequence[str]) -> bytes:
    """One item as JSON, likewise."""
    if LOGPROBS in include or _MARK not in item:
        return item
    fields: dict[str, Any] = msgspec.json.decode(item)
    _hide(fields)
    return msgspec.json.encode(fields)


def _hide(item: dict[str, Any]) -> None:
    for part in item.get("content") or ():
        if isinstance(part, dict) and part.get("logprobs"):
            part["logprobs"] = []
