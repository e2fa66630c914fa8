"""``include`` of a stored response or of its items: checked, and what was not asked for left out.

What OpenAI gives only where it is asked for is given only then: logprobs, the URLs of images, and what its hosted tools
found. ``reasoning.encrypted_content`` comes by default there too. Items are stored whole, whatever a listing shows.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from app.dialects.responses.read import LOGPROBS
from app.errors import InvalidRequest
from app.rendering.limits import INCLUDES

__all__ = ("check_include", "shown_item", "shown_response")

_MARKS = {
    "code_interpreter_call.outputs": b'"outputs":',
    "computer_call_output.output.image_url": b'"image_url":',
    "file_search_call.results": b'"results":',
    "message.input_image.image_url": b'"image_url":',
    LOGPROBS: b'"logprobs":[{',
    "web_search_call.action.sources": b'"sources":',
    "web_search_call.results": b'"results":',
}
"""What JSON cannot lack where there is something to leave out: most items are passed on as they are."""


def check_include(given: Sequence[str]) -> None:
    """Refuse a word that the API does not have. Raises :class:`InvalidRequest`."""
    for place, word in enumerate(given):
        if word not in INCLUDES:
            raise InvalidRequest(f"`include` takes {', '.join(INCLUDES)}.", param=f"include[{place}]")


def shown_response(body: bytes, include: Sequence[str]) -> bytes:
    """A Response as JSON, its output items as :func:`shown_item` shows them and all else as it was answered."""
    hidden = _hidden(body, include)
    if not hidden:
        return body
    response: dict[str, Any] = msgspec.json.decode(body)
    for item in response["output"]:
        _hide(item, hidden)
    return msgspec.json.encode(response)


def shown_item(item: bytes, include: Sequence[str]) -> bytes:
    """One item as JSON: what was not asked for is null, and logprobs are an empty list."""
    hidden = _hidden(item, include)
    if not hidden:
        return item
    fields: dict[str, Any] = msgspec.json.decode(item)
    _hide(fields, hidden)
    return msgspec.json.encode(fields)


def _hidden(data: bytes, include: Sequence[str]) -> set[str]:
    """The words that are not asked for, as far as the data may have something of theirs."""
    return {word for word, mark in _MARKS.items() if word not in include and mark in data}


def _hide(item: dict[str, Any], hidden: set[str]) -> None:
    kind = item.get("type")
    for name in ("outputs", "results"):
        if f"{kind}.{name}" in hidden and name in item:
            item[name] = None
    for name, inner, parts in (("action", "sources", item.get("action")), ("output", "image_url", item.get("output"))):
        if f"{kind}.{name}.{inner}" in hidden and isinstance(parts, dict) and inner in parts:
            parts[inner] = None
    if kind != "message" or not isinstance(item.get("content"), list):
        return
    for part in item["content"]:
        if isinstance(part, dict) and f"message.{part.get('type')}.image_url" in hidden and "image_url" in part:
            part["image_url"] = None
        if isinstance(part, dict) and LOGPROBS in hidden and part.get("logprobs"):
            part["logprobs"] = []
