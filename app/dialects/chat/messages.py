"""Chat messages and tools to the conversation."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from app.dialects.chat.parts import read_content
from app.errors import InvalidRequest, Unsupported
from app.protocol.chat import ChatMessage, ChatTool, ChatToolCall
from app.rendering.conversation import Message, Tool, ToolCall

__all__ = ("arguments_text", "read_messages", "read_tools")

_MAY_BE_NULL = ("assistant", "function")
"""Roles whose content may be an explicit null."""


def read_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """All messages, in order; an empty conversation is refused."""
    if not messages:
        raise InvalidRequest("`messages` must have at least one message.", param="messages")
    return [_read_message(message, f"messages[{position}]") for position, message in enumerate(messages)]


def _read_message(message: ChatMessage, param: str) -> Message:
    content = message.content
    if content is None and message.role not in _MAY_BE_NULL:
        raise InvalidRequest(f"A {message.role} message needs a `content`.", param=f"{param}.content")
    read = None if content is None or content is UNSET else read_content(content, f"{param}.content")
    if message.role == "assistant":
        reasoning = message.reasoning if message.reasoning is not None else message.reasoning_content
        calls = [_read_call(call, f"{param}.tool_calls[{n}]") for n, call in enumerate(message.tool_calls or ())]
    else:
        reasoning, calls = None, []
    extra: dict[str, Any] = {}
    if message.tools is not None:
        extra["tools"] = message.tools
    if message.task is not None:
        extra["task"] = message.task
    return Message(
        role=message.role,
        content=read,
        reasoning=reasoning,
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
        extra=extra,
    )


def _read_call(call: ChatToolCall, param: str) -> ToolCall:
    if call.type not in (None, "function"):
        raise Unsupported("Only function calls are served.", param=f"{param}.type")
    if call.function is None:
        raise InvalidRequest("A tool call needs its `function`.", param=f"{param}.function")
    return ToolCall(name=call.function.name, arguments=arguments_text(call.function.arguments), id=call.id)


def arguments_text(arguments: str | dict[str, Any] | None) -> str:
    """Arguments as JSON text, as written where they were text; null is ""."""
    if isinstance(arguments, dict):
        return json.dumps(arguments, ensure_ascii=False)
    return arguments or ""


def read_tools(tools: Sequence[ChatTool] | None) -> list[Tool] | None:
    """Function definitions; an empty list is refused, as OpenAI does."""
    if tools is None:
        return None
    if not tools:
        raise InvalidRequest("`tools` must have at least one tool; leave it out instead.", param="tools")
    return [_read_tool(tool, f"tools[{position}]") for position, tool in enumerate(tools)]


def _read_tool(tool: ChatTool, param: str) -> Tool:
    if tool.type != "function":
        raise Unsupported("Only tools of the type function are served.", param=f"{param}.type")
    function = tool.function
    if function is None:
        raise InvalidRequest("A tool needs its `function`.", param=f"{param}.function")
    return Tool(
        name=function.name,
        description=function.description,
        parameters=function.parameters,
        strict=function.strict,
        defer_loading=function.defer_loading if function.defer_loading is not None else tool.defer_loading,
    )
