"""Responses items to the conversation's messages.

Everything that an assistant wrote between two inputs (reasoning, a message, calls) is one message of the assistant.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.dialects.responses.parts import joined_text, read_parts
from app.dialects.responses.tools import function_name
from app.errors import InvalidRequest, Unsupported
from app.rendering.conversation import Message, Part, ToolCall

__all__ = ("UNRENDERED", "read_items")

UNRENDERED = (
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
)
"""Items of tools that others run: kept in a history, never shown to the model."""

_ROLES = ("user", "assistant", "system", "developer")
_UNFINISHED = ("in_progress", "incomplete")


def read_items(
    items: Sequence[Any], *, history: int = 0, place: str = "previous_response_id"
) -> tuple[list[Message], bool]:
    """The messages of the items, and whether the last one is to be continued.

    It is where the last item is a message or reasoning of the assistant with the status ``in_progress`` or
    ``incomplete``. Fields that items of clients often lack (``type``, ``id``, ``status``) are not needed.

    The first ``history`` items are of earlier turns, and refusals of them name ``place``, the field that stands for
    them; refusals of the others name their place in ``input``.
    """
    reader = _Reader()
    last: Mapping[str, Any] = {}
    for position, item in enumerate(items):
        path = f"input[{position - history}]" if position >= history else place
        if not isinstance(item, Mapping):
            raise InvalidRequest("An item is an object.", param=path)
        try:
            reader.read(item, path)
        except InvalidRequest as error:
            if position < history:
                error.param = place
            raise
        last = item
    ours = last.get("type") == "reasoning" or last.get("role") == "assistant"
    unfinished = ours and last.get("status") in _UNFINISHED and bool(reader.messages)
    return reader.messages, unfinished and reader.messages[-1].role == "assistant"


def item_type(item: Mapping[str, Any], param: str) -> str:
    """The item's type; without one it is a message if it has a role, else a reference to a stored item."""
    kind = item.get("type")
    if kind is None:
        if "role" in item:
            return "message"
        if "id" in item:
            return "item_reference"
    if not isinstance(kind, str):
        raise InvalidRequest("An item needs a `type` or a `role`.", param=f"{param}.type")
    return kind


class _Reader:
    """Collects messages; ``messages[-1]`` is open to more of the assistant until another's message follows."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.silent = False
        """Whether the assistant's last message had nothing in it."""

    def read(self, item: Mapping[str, Any], param: str) -> None:
        kind = item_type(item, param)
        match kind:
            case "message":
                self.message(item, param)
            case "reasoning":
                self.reasoning(item, param)
            case "function_call" | "custom_tool_call":
                self.call(item, kind, param)
            case "function_call_output" | "custom_tool_call_output":
                self.output(item, param)
            case "item_reference":
                raise Unsupported("A reference to an item needs a store; give the item itself.", param=f"{param}.type")
            case "compaction":
                raise Unsupported("A compacted history can't be opened here.", param=f"{param}.type")
            case _ if kind not in UNRENDERED and ":" not in kind:
                # Third parties mark their own types with a prefix; any other is a mistake.
                raise InvalidRequest(f"There is no item of the type {kind!r}.", param=f"{param}.type")

    def message(self, item: Mapping[str, Any], param: str) -> None:
        role = item.get("role")
        if role not in _ROLES:
            raise InvalidRequest(f"A message's role is one of {', '.join(_ROLES)}.", param=f"{param}.role")
        content = item.get("content")
        if content is None and role != "assistant":
            raise InvalidRequest("A message needs a `content`.", param=f"{param}.content")
        read = [] if content is None else read_parts(content, f"{param}.content")
        if role == "assistant":
            if read == []:
                self.silent = True
            else:
                self.merge(content=read)
            return
        if role == "user" and self.silent and self.messages and self.messages[-1].role == "user":
            # An empty message shows nothing, but many templates want user and assistant to take turns.
            self.add(Message(role="assistant", content=""))
        self.add(Message(role=role, content=read))

    def reasoning(self, item: Mapping[str, Any], param: str) -> None:
        text = joined_text(item.get("content"), f"{param}.content", "")
        text = text or joined_text(item.get("summary"), f"{param}.summary", "\n\n")
        if text:
            self.merge(reasoning=text)
        elif item.get("encrypted_content") is not None:
            raise Unsupported("Encrypted reasoning can't be opened here.", param=f"{param}.encrypted_content")

    def call(self, item: Mapping[str, Any], kind: str, param: str) -> None:
        name = function_name(_text(item, "name", param), _text(item, "namespace", param, needed=False))
        if kind == "custom_tool_call":
            arguments = json.dumps({"input": _text(item, "input", param)}, ensure_ascii=False)
        elif isinstance(given := item.get("arguments"), Mapping):
            arguments = json.dumps(given, ensure_ascii=False)
        else:
            arguments = _text(item, "arguments", param, needed=given is not None) or ""
        call = ToolCall(name=name, arguments=arguments, id=_text(item, "call_id", param, needed=False))
        self.merge(call=call)

    def output(self, item: Mapping[str, Any], param: str) -> None:
        output = item.get("output")
        read = "" if output is None else read_parts(output, f"{param}.output")
        self.add(Message(role="tool", content=read, tool_call_id=_text(item, "call_id", param, needed=False)))

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.silent = False

    def merge(
        self,
        *,
        content: str | list[Part] | None = None,
        reasoning: str | None = None,
        call: ToolCall | None = None,
    ) -> None:
        """Add to the assistant's message, or begin one where it has this already."""
        open_ = self.messages[-1] if self.messages and self.messages[-1].role == "assistant" else None
        taken = open_ is None or (
            (content is not None and open_.content not in (None, ""))
            or (reasoning is not None and open_.reasoning is not None)
        )
        if taken or open_ is None:
            calls = [call] if call is not None else []
            self.add(Message(role="assistant", content=content, reasoning=reasoning, tool_calls=calls))
        elif call is not None:
            open_.tool_calls.append(call)  # the list is this reader's own, and there may be very many calls
        elif content is not None:
            self.messages[-1] = replace(open_, content=content)
        else:
            self.messages[-1] = replace(open_, reasoning=reasoning)


def _text(item: Mapping[str, Any], key: str, param: str, *, needed: bool = True) -> Any:
    value = item.get(key)
    if value is None and not needed:
        return None
    if not isinstance(value, str):
        raise InvalidRequest(f"`{key}` is a text.", param=f"{param}.{key}")
    return value
