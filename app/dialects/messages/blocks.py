"""Anthropic messages and their content blocks to the conversation's messages."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import InvalidRequest, Unsupported
from app.protocol.messages import AnthropicMessage
from app.rendering.conversation import Media, Message, Part, Text, ToolCall

__all__ = ("read_messages", "read_system")

BILLING = "x-anthropic-billing-header"
"""How a text begins that Anthropic's own client adds with a new number each time, which would defeat prefix caches."""

_ROLES = ("user", "assistant", "system")
_REFUSED = (
    "container_upload",
    "document",
    "mcp_tool_result",
    "mcp_tool_use",
    "search_result",
    "server_tool_use",
    "web_fetch_tool_result",
    "web_search_tool_result",
)


def read_system(system: str | Sequence[Mapping[str, Any]] | None) -> list[Message]:
    """The system prompt as a message, if there is anything in it."""
    if system is None:
        return []
    if isinstance(system, str):
        text = _kept(system)
    else:
        text = "".join(_kept(_text_block(block, f"system[{n}]")) for n, block in enumerate(system))
    return [Message(role="system", content=text)] if text else []


def read_messages(messages: Sequence[AnthropicMessage]) -> list[Message]:
    """The messages in order: a tool's results come before the user's text of the same message."""
    read: list[Message] = []
    for position, message in enumerate(messages):
        param = f"messages[{position}]"
        match message.role:
            case "user":
                read.extend(_read_user(message.content, f"{param}.content"))
            case "assistant":
                read.append(_read_assistant(message.content, f"{param}.content"))
            case "system":
                read.extend(_read_inline_system(message.content, f"{param}.content"))
            case _:
                raise InvalidRequest(f"A message's role is one of {', '.join(_ROLES)}.", param=f"{param}.role")
    return read


def _read_user(content: str | Sequence[Mapping[str, Any]], param: str) -> list[Message]:
    if isinstance(content, str):
        return [Message(role="user", content=content)]
    results: list[Message] = []
    images: list[Part] = []
    parts: list[Part] = []
    for position, block in enumerate(content):
        path = f"{param}[{position}]"
        match block.get("type"):
            case "text":
                parts.append(Text(_text_block(block, path)))
            case "image":
                parts.append(_read_image(block, path))
            case "tool_result":
                _read_result(block, path, results, images)
            case "tool_reference":
                parts.append(Text(_tool_name(block, path)))
            case "tool_use" | "thinking" | "redacted_thinking":
                raise InvalidRequest(f"A {block['type']} block belongs to the assistant.", param=f"{path}.type")
            case _:
                raise _no_such(block, path)
    if images:
        results.append(Message(role="user", content=images))
    if parts:
        results.append(Message(role="user", content=_content(parts)))
    return results


def _read_assistant(content: str | Sequence[Mapping[str, Any]], param: str) -> Message:
    if isinstance(content, str):
        return Message(role="assistant", content=content)
    parts: list[Part] = []
    calls: list[ToolCall] = []
    thinking: list[str] = []
    for position, block in enumerate(content):
        path = f"{param}[{position}]"
        match block.get("type"):
            case "text":
                parts.append(Text(_text_block(block, path)))
            case "image":
                parts.append(_read_image(block, path))
            case "thinking":
                thinking.append(_text(block, "thinking", path))
            case "redacted_thinking":
                pass  # nothing that a model could read
            case "tool_use":
                calls.append(_read_call(block, path))
            case "tool_result":
                parts.append(Text(f"Tool result: {_result_text(block, path)}"))
            case _:
                raise _no_such(block, path)
    return Message(
        role="assistant",
        content=_content(parts) if parts else None,
        reasoning="".join(thinking) if thinking else None,
        tool_calls=calls,
    )


def _read_inline_system(content: str | Sequence[Mapping[str, Any]], param: str) -> list[Message]:
    """A system message between others; what changes the tools is read by ``messages.tools``."""
    if isinstance(content, str):
        text = _kept(content)
    else:
        texts = []
        for position, block in enumerate(content):
            if block.get("type") not in ("tool_addition", "tool_removal"):
                texts.append(_kept(_text_block(block, f"{param}[{position}]")))
        text = "".join(texts)
    return [Message(role="system", content=text)] if text else []


def _read_call(block: Mapping[str, Any], param: str) -> ToolCall:
    given = block.get("input")
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRequest("`input` is an object.", param=f"{param}.input")
    return ToolCall(
        name=_text(block, "name", param),
        arguments=json.dumps(given or {}, ensure_ascii=False),
        id=_text(block, "id", param),
    )


def _read_result(block: Mapping[str, Any], param: str, results: list[Message], images: list[Part]) -> None:
    """A tool message; its images go to a user message after it, its references to a tool message of their own."""
    call_id = _text(block, "tool_use_id", param)
    references: list[str] = []
    content = block.get("content")
    if isinstance(content, list):
        for position, item in enumerate(content):
            path = f"{param}.content[{position}]"
            if isinstance(item, Mapping) and item.get("type") == "image":
                images.append(_read_image(item, path))
            elif isinstance(item, Mapping) and item.get("type") == "tool_reference":
                references.append(_tool_name(item, path))
    results.append(Message(role="tool", content=_result_text(block, param), tool_call_id=call_id))
    if references:
        results.append(Message(role="tool", content="\n".join(references), tool_call_id=call_id))


def _result_text(block: Mapping[str, Any], param: str) -> str:
    """The texts of a result, a line each; no content is ""."""
    content, path = block.get("content"), f"{param}.content"
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest("A result's content is a text or a list of blocks.", param=path)
    texts = []
    for position, item in enumerate(content):
        if not isinstance(item, Mapping):
            raise InvalidRequest("A block is an object.", param=f"{path}[{position}]")
        if item.get("type") == "text":
            texts.append(_text_block(item, f"{path}[{position}]"))
        elif item.get("type") not in ("image", "tool_reference"):
            raise _no_such(item, f"{path}[{position}]")
    return "\n".join(texts)


def _read_image(block: Mapping[str, Any], param: str) -> Media:
    source, path = block.get("source"), f"{param}.source"
    if not isinstance(source, Mapping):
        raise InvalidRequest("An image has a `source`.", param=path)
    match source.get("type"):
        case "base64":
            kind = source.get("media_type", "image/jpeg")
            if not isinstance(kind, str):
                raise InvalidRequest("`media_type` is a text.", param=f"{path}.media_type")
            url = f"data:{kind};base64,{_text(source, 'data', path)}"
            return Media(modality="image", url=url, param=f"{path}.data")
        case "url":
            return Media(modality="image", url=_text(source, "url", path), param=f"{path}.url")
        case "file":
            raise Unsupported("Files by id are not served; give the image itself.", param=f"{path}.type")
    raise InvalidRequest("An image's source is base64 or url.", param=f"{path}.type")


def _content(parts: list[Part]) -> str | list[Part]:
    """One text alone as a plain string."""
    first = parts[0]
    return first.text if len(parts) == 1 and isinstance(first, Text) else parts


def _kept(text: str) -> str:
    return "" if text.startswith(BILLING) else text


def _text_block(block: Mapping[str, Any], param: str) -> str:
    if block.get("type") != "text":
        raise _no_such(block, param)
    return _text(block, "text", param)


def _tool_name(block: Mapping[str, Any], param: str) -> str:
    key = "tool_name" if "tool_name" in block else "name"
    return _text(block, key, param)


def _text(block: Mapping[str, Any], key: str, param: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise InvalidRequest(f"`{key}` is a text.", param=f"{param}.{key}")
    return value


def _no_such(block: Mapping[str, Any], param: str) -> InvalidRequest:
    kind = block.get("type")
    if kind in _REFUSED:
        return Unsupported(f"Blocks of type {kind} are not served.", param=f"{param}.type")
    return InvalidRequest("There is no such type of block here.", param=f"{param}.type")
