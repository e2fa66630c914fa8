"""Derendered steps to Anthropic's message events, and the events to a whole message."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.derendering.derenderer import Step
from app.derendering.well_formed import well_formed_value
from app.dialects.writer import Event, ReplyHead, Usage
from app.parsing.deltas import CallArguments, CallEnd, CallStart, Content, Reasoning
from app.protocol.messages_reply import (
    ContentBlock,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJsonDelta,
    MessageDelta,
    MessageDeltaBody,
    MessageError,
    MessageErrorBody,
    MessageReply,
    MessageStart,
    MessageStop,
    MessageUsage,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)

__all__ = ("MessagesWriter", "WriterState", "fold")


class WriterState(Struct, array_like=True):
    """``index``: of the block that is open (``kind``) or comes next. ``called``: a tool was. Then why it ended."""

    index: int = 0
    kind: str | None = None
    called: bool = False
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class MessagesWriter:
    """Writes one message.

    Args:
        head: id, time and model.
        prompt: the prompt's counts, which the first event tells already.
    """

    def __init__(self, head: ReplyHead, prompt: Usage | None = None) -> None:
        self._head = head
        self._prompt = prompt or Usage()
        self._state = WriterState()

    def start(self) -> list[Event]:
        """message_start."""
        usage = wire_usage(replace(self._prompt, completion_tokens=0))
        message = MessageReply(id=self._head.id, model=self._head.model, usage=usage)
        return [Event("message_start", MessageStart(message=message))]

    def feed(self, step: Step, usage: Usage | None = None) -> list[Event]:
        """The events of the first choice's step; there is but one in this API."""
        if step.index != 0:
            return []
        found: list[Event] = []
        state = self._state
        for delta in step.deltas:
            match delta:
                case Content(text):
                    self._switch(found, "text", TextBlock(text=""))
                    found.append(self._delta(TextDelta(text)))
                case Reasoning(text):
                    self._switch(found, "thinking", ThinkingBlock(thinking=""))
                    found.append(self._delta(ThinkingDelta(text)))
                case CallStart(_, name, call_id):
                    self._close(found)
                    self._open(found, "tool_use", ToolUseBlock(id=call_id or "", name=name, input={}))
                    state.called = True
                case CallArguments(_, text) if state.kind == "tool_use":
                    found.append(self._delta(InputJsonDelta(text)))
                case CallEnd() if state.kind == "tool_use":
                    self._close(found)
                case _:
                    pass
        if step.finish_reason is not None:
            self._close(found)
            state.finish_reason, state.stop_reason = step.finish_reason, step.stop_reason
        return found

    def finish(self, usage: Usage) -> list[Event]:
        """message_delta with the stop reason and the counts, then message_stop."""
        found: list[Event] = []
        self._close(found)
        reason, sequence = self._stop_reason()
        body = MessageDeltaBody(stop_reason=reason, stop_sequence=sequence)
        found.append(Event("message_delta", MessageDelta(delta=body, usage=wire_usage(usage))))
        return [*found, Event("message_stop", MessageStop())]

    def fail(self, message: str, *, code: str = "api_error") -> list[Event]:
        """Anthropic's error event; ``code`` is its error type."""
        return [Event("error", MessageError(error=MessageErrorBody(type=code, message=message)))]

    def dump(self) -> WriterState:
        """The open block and what is known of the end."""
        return self._state

    def load(self, state: Any) -> None:
        """Go on from :meth:`dump`'s state."""
        self._state = msgspec.convert(state, WriterState)

    def _stop_reason(self) -> tuple[str, str | None]:
        state = self._state
        if state.finish_reason in ("length", None):
            return "max_tokens", None
        if isinstance(state.stop_reason, str):
            return "stop_sequence", state.stop_reason
        return ("tool_use" if state.called else "end_turn"), None

    def _switch(self, found: list[Event], kind: str, block: ContentBlock) -> None:
        if self._state.kind != kind:
            self._close(found)
            self._open(found, kind, block)

    def _open(self, found: list[Event], kind: str, block: ContentBlock) -> None:
        self._state.kind = kind
        found.append(Event("content_block_start", ContentBlockStart(index=self._state.index, content_block=block)))

    def _close(self, found: list[Event]) -> None:
        if self._state.kind is not None:
            found.append(Event("content_block_stop", ContentBlockStop(index=self._state.index)))
            self._state.index += 1
            self._state.kind = None

    def _delta(self, delta: TextDelta | ThinkingDelta | InputJsonDelta) -> Event:
        return Event("content_block_delta", ContentBlockDelta(index=self._state.index, delta=delta))


def wire_usage(usage: Usage) -> MessageUsage:
    """As Anthropic reports it: tokens from the cache stand apart."""
    cached = usage.cached_tokens or 0
    return MessageUsage(
        input_tokens=max(0, usage.prompt_tokens - cached),
        cache_read_input_tokens=cached,
        output_tokens=usage.completion_tokens,
    )


def fold(written: Iterable[Event]) -> MessageReply:
    """The whole message that the events make up."""
    reply: MessageReply | None = None
    blocks: list[ContentBlock] = []
    texts: list[list[str]] = []
    for event in written:
        match event.data:
            case MessageStart():
                reply = replace(event.data.message)
            case ContentBlockStart():
                blocks.append(event.data.content_block)
                texts.append([])
            case ContentBlockDelta():
                match event.data.delta:
                    case TextDelta(text) | ThinkingDelta(text) | InputJsonDelta(text):
                        texts[event.data.index].append(text)
            case MessageDelta() if reply is not None:
                reply.stop_reason = event.data.delta.stop_reason
                reply.stop_sequence = event.data.delta.stop_sequence
                reply.usage = event.data.usage
            case _:
                pass
    assert reply is not None
    reply.content = [_whole(block, "".join(text)) for block, text in zip(blocks, texts, strict=True)]
    return reply


def _whole(block: ContentBlock, text: str) -> ContentBlock:
    match block:
        case TextBlock():
            return replace(block, text=text)
        case ThinkingBlock():
            return replace(block, thinking=text)
        case ToolUseBlock():
            return replace(block, input=read_input(text))


def read_input(text: str) -> Any:
    """A call's arguments as an object: what is whole of them, where the call was cut."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = _whole_members(text)
    return well_formed_value(value) if isinstance(value, dict) else {}


def _whole_members(text: str) -> Any:
    """The object that the last whole member of a cut JSON text ends."""
    closers: list[str] = []
    best = "{}"
    in_string = escaped = False
    for at, character in enumerate(text):
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "{[":
            closers.append("}" if character == "{" else "]")
        elif character in "}]" and closers:
            closers.pop()
            best = text[: at + 1] + "".join(reversed(closers))
        elif character == ",":
            best = text[:at] + "".join(reversed(closers))
    try:
        return json.loads(best)
    except ValueError:
        return {}
