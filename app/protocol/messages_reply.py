"""What ``/v1/messages`` answers, whole and as Anthropic's streamed events; ``type`` is also the SSE event's name."""

from typing import Any

from msgspec import Struct

__all__ = (
    "ContentBlock",
    "ContentBlockDelta",
    "ContentBlockStart",
    "ContentBlockStop",
    "InputJsonDelta",
    "MessageDelta",
    "MessageDeltaBody",
    "MessageError",
    "MessageErrorBody",
    "MessageReply",
    "MessageStart",
    "MessageStop",
    "MessageUsage",
    "TextBlock",
    "TextDelta",
    "ThinkingBlock",
    "ThinkingDelta",
    "ToolUseBlock",
)


class TextBlock(Struct, kw_only=True, tag_field="type", tag="text"):
    """A piece of the answer."""

    text: str
    citations: None = None


class ThinkingBlock(Struct, kw_only=True, tag_field="type", tag="thinking"):
    """The model's reasoning; open models sign nothing."""

    thinking: str
    signature: str = ""


class ToolUseBlock(Struct, kw_only=True, tag_field="type", tag="tool_use"):
    """A tool call; ``input`` is an object (empty in a stream's first event)."""

    id: str
    name: str
    input: Any


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


class MessageUsage(Struct, kw_only=True):
    """Counts in tokens; ``input_tokens`` are those that came from no cache."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class MessageReply(Struct, kw_only=True):
    """The whole message. ``stop_reason``: end_turn, max_tokens, stop_sequence or tool_use."""

    id: str
    type: str = "message"
    role: str = "assistant"
    model: str
    content: list[ContentBlock] = []
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: MessageUsage


class MessageStart(Struct, kw_only=True):
    """The message without content."""

    type: str = "message_start"
    message: MessageReply


class ContentBlockStart(Struct, kw_only=True):
    """A block begins, empty."""

    type: str = "content_block_start"
    index: int
    content_block: ContentBlock


class TextDelta(Struct, tag_field="type", tag="text_delta"):
    """More text."""

    text: str


class ThinkingDelta(Struct, tag_field="type", tag="thinking_delta"):
    """More reasoning."""

    thinking: str


class InputJsonDelta(Struct, tag_field="type", tag="input_json_delta"):
    """More of a tool call's JSON text."""

    partial_json: str


class ContentBlockDelta(Struct, kw_only=True):
    """More of block number ``index``."""

    type: str = "content_block_delta"
    index: int
    delta: TextDelta | ThinkingDelta | InputJsonDelta


class ContentBlockStop(Struct, kw_only=True):
    """Block number ``index`` is whole."""

    type: str = "content_block_stop"
    index: int


class MessageDeltaBody(Struct, kw_only=True):
    """Why the message ended."""

    stop_reason: str | None
    stop_sequence: str | None = None


class MessageDelta(Struct, kw_only=True):
    """The end of the message, with the counts."""

    type: str = "message_delta"
    delta: MessageDeltaBody
    usage: MessageUsage


class MessageStop(Struct, kw_only=True):
    """The stream is over."""

    type: str = "message_stop"


class MessageErrorBody(Struct, kw_only=True):
    """Anthropic's error object."""

    type: str = "api_error"
    message: str


class MessageError(Struct, kw_only=True):
    """A failure after the first byte."""

    type: str = "error"
    error: MessageErrorBody
