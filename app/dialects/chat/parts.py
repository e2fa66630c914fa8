"""Content parts of chat messages to text and media parts."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from app.errors import InvalidRequest, Unsupported
from app.rendering.conversation import Media, Part, Text

__all__ = ("read_content", "read_media", "read_part")

_TEXT_FIELDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
"""Type of a text part to the field that holds the text."""

_MEDIA_FIELDS: Mapping[str, tuple[str, Literal["image", "video", "audio"]]] = {
    "image_url": ("image_url", "image"),
    "input_image": ("image_url", "image"),
    "video_url": ("video_url", "video"),
    "input_video": ("video_url", "video"),
    "audio_url": ("audio_url", "audio"),
    "input_audio": ("input_audio", "audio"),
}
"""Type of a media part to the field that holds the reference, and its modality."""

_REFUSED = ("image_embeds", "audio_embeds", "video_embeds", "prompt_embeds", "image_pil", "file", "tool_reference")


def read_content(content: str | Sequence[Mapping[str, Any]], param: str) -> str | list[Part]:
    """A message's content; ``param`` is the path of the field, for refusals."""
    if isinstance(content, str):
        return content
    return [read_part(part, f"{param}[{position}]") for position, part in enumerate(content)]


def read_part(part: Mapping[str, Any], param: str) -> Part:
    """One part. A missing ``type`` is inferred from the field that the part has."""
    kind = part.get("type")
    if kind is None:
        kind = next((name for name in (*_TEXT_FIELDS, *_MEDIA_FIELDS, *_REFUSED) if name in part), None)
    if not isinstance(kind, str):
        raise InvalidRequest("A content part needs a `type`.", param=f"{param}.type")
    if (field := _TEXT_FIELDS.get(kind)) is not None:
        return _read_text(part, kind, field, param)
    if kind in _MEDIA_FIELDS:
        field, modality = _MEDIA_FIELDS[kind]
        return read_media(part, field, modality, param)
    if kind in _REFUSED:
        raise Unsupported(f"Content parts of type {kind} are not served.", param=f"{param}.type")
    raise InvalidRequest(f"There is no content part of the type {kind!r}.", param=f"{param}.type")


def _read_text(part: Mapping[str, Any], kind: str, field: str, param: str) -> Text:
    text = part.get(field)
    if not isinstance(text, str):
        raise InvalidRequest(f"`{field}` of a {kind} part is a text.", param=f"{param}.{field}")
    if len(part) <= 2 and "type" in part:
        return Text(text)
    return Text(text, {key: value for key, value in part.items() if key not in ("type", field)})


def read_media(part: Mapping[str, Any], field: str, modality: Literal["image", "video", "audio"], param: str) -> Media:
    """An image, video or audio part: ``{field: url | {"url": …, "detail": …}}``, ``detail`` and ``uuid`` beside it."""
    if part.get("file_id") is not None:
        raise Unsupported("Files by id are not served; give the content as a URL.", param=f"{param}.file_id")
    value, detail, uuid, path = part.get(field), part.get("detail"), part.get("uuid"), f"{param}.{field}"
    if isinstance(value, Mapping):
        detail = value.get("detail", detail)
        if field == "input_audio":
            value = _audio_url(value, path)
        else:
            value, path = value.get("url"), f"{path}.url"
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"`{field}` is a URL, or an object with one.", param=path)
    if uuid is not None and not isinstance(uuid, str):
        raise InvalidRequest("`uuid` is a text.", param=f"{param}.uuid")
    if not value and uuid is None:
        raise InvalidRequest(f"`{field}` needs a URL.", param=path)
    if detail is not None and not isinstance(detail, str):
        raise InvalidRequest("`detail` is a text.", param=f"{param}.detail")
    return Media(modality=modality, url=value or None, uuid=uuid, detail=detail, param=path)


def _audio_url(value: Mapping[str, Any], param: str) -> str:
    data, kind = value.get("data"), value.get("format", "wav")
    if not isinstance(data, str) or not isinstance(kind, str):
        raise InvalidRequest("`input_audio` has the texts `data` (base64) and `format`.", param=f"{param}.data")
    return f"data:audio/{kind};base64,{data}"
