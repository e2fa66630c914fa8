"""Content parts of Responses items to text and media parts."""

from collections.abc import Mapping
from typing import Any

from app.dialects.chat.parts import read_media
from app.errors import InvalidRequest, Unsupported
from app.rendering.conversation import Part, Text

__all__ = ("joined_text", "read_parts")

_TEXTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
"""Type of a text part to the field that holds the text."""


def read_parts(content: Any, param: str) -> str | list[Part]:
    """A message's or an output's content: a text, or parts; one text part alone is its text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest("Content is a text or a list of parts.", param=param)
    parts = [_read_part(part, f"{param}[{position}]") for position, part in enumerate(content)]
    if len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].extra:
        return parts[0].text
    return parts


def joined_text(parts: Any, param: str, separator: str) -> str:
    """The texts of a reasoning item's ``content`` or ``summary``."""
    if parts is None:
        return ""
    if not isinstance(parts, list):
        raise InvalidRequest("A list of text parts is wanted.", param=param)
    texts = []
    for position, part in enumerate(parts):
        read = _read_part(part, f"{param}[{position}]")
        if not isinstance(read, Text):
            raise InvalidRequest("Reasoning has text parts only.", param=f"{param}[{position}].type")
        texts.append(read.text)
    return separator.join(texts)


def _read_part(part: Any, param: str) -> Part:
    if not isinstance(part, Mapping):
        raise InvalidRequest("A content part is an object.", param=param)
    kind = part.get("type")
    if isinstance(kind, str) and (field := _TEXTS.get(kind)) is not None:
        text = part.get(field)
        if not isinstance(text, str):
            raise InvalidRequest(f"`{field}` of a part of type {kind} is a text.", param=f"{param}.{field}")
        return Text(text)
    match kind:
        case "input_image" | "image_url":
            return read_media(part, "image_url", "image", param)
        case "input_video" | "video_url":
            return read_media(part, "video_url", "video", param)
        case "input_audio":
            return read_media(part, "input_audio", "audio", param)
        case "input_file" | "computer_screenshot":
            raise Unsupported(f"Parts of type {kind} are not served.", param=f"{param}.type")
    raise InvalidRequest("There is no such type of content part.", param=f"{param}.type")
