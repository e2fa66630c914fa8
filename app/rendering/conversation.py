"""What the inputs of all dialects become: messages, parts, tool calls, tool definitions.

Values are what the caller wrote; nothing is normalised for a particular template here
(:mod:`app.rendering.template` does that).
"""

from typing import Any

from msgspec import Struct

from app.multimodal.reference import Media

__all__ = ("Conversation", "Media", "Message", "Part", "Text", "Tool", "ToolCall")


class Text(Struct, frozen=True):
    """A text part; ``extra`` are further keys that a template may read (``cache_control`` and the like)."""

    text: str
    extra: dict[str, Any] = {}


Part = Text | Media


class ToolCall(Struct, frozen=True):
    """A call that the assistant made. ``arguments`` is its JSON text as written, which need not be valid."""

    name: str
    arguments: str
    id: str | None = None


class Message(Struct, frozen=True):
    """One turn. ``content`` None is an absent content, which some templates tell from an empty one."""

    role: str
    content: str | list[Part] | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None
    extra: dict[str, Any] = {}


class Tool(Struct, frozen=True):
    """A function that the model may call; ``parameters`` is its JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class Conversation(Struct, frozen=True):
    """A whole input."""

    messages: list[Message]
    tools: list[Tool] | None = None
    documents: list[dict[str, Any]] | None = None
