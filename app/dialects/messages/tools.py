"""Anthropic tools and tool choices to function definitions and one resolved choice."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.dialects.model import DialectModel
from app.dialects.tool_choice import ToolChoice, check_tool_choice
from app.errors import InvalidRequest, Unsupported
from app.protocol.messages import AnthropicMessage, AnthropicTool, AnthropicToolChoice
from app.rendering.conversation import Tool
from app.rendering.request import NamedTool

__all__ = ("read_tool_choice", "read_tools")


def read_tools(tools: Sequence[AnthropicTool] | None, messages: Sequence[AnthropicMessage]) -> list[Tool] | None:
    """The tools that the model sees.

    ``tool_addition`` and ``tool_removal`` blocks of system messages are applied in order; where there are any, deferred
    tools that none of them adds are left out.
    """
    if tools is None:
        return None
    read = [_read_tool(tool, f"tools[{position}]") for position, tool in enumerate(tools)]
    changes = list(_changes(messages))
    if not changes:
        return read
    shown = {tool.name: not tool.defer_loading for tool in read}
    for name, added, param in changes:
        if name not in shown:
            raise InvalidRequest(f"`tools` has no tool '{name}'.", param=param)
        shown[name] = added
    return [replace(tool, defer_loading=None) for tool in read if shown[tool.name]]


def _read_tool(tool: AnthropicTool, param: str) -> Tool:
    if tool.type not in (None, "custom"):
        raise Unsupported("Only tools that the client runs are served.", param=f"{param}.type")
    if tool.input_schema is None:
        raise InvalidRequest("A tool needs an `input_schema`.", param=f"{param}.input_schema")
    schema = tool.input_schema if "type" in tool.input_schema else {**tool.input_schema, "type": "object"}
    return Tool(
        name=tool.name,
        description=tool.description,
        parameters=schema,
        strict=tool.strict,
        defer_loading=tool.defer_loading,
    )


def _changes(messages: Sequence[AnthropicMessage]) -> Sequence[tuple[str, bool, str]]:
    """Name, whether it is added, and the path of each change to the tools."""
    found = []
    for position, message in enumerate(messages):
        if isinstance(message.content, str):
            continue
        for place, block in enumerate(message.content):
            kind, param = block.get("type"), f"messages[{position}].content[{place}]"
            if kind not in ("tool_addition", "tool_removal"):
                continue
            if message.role != "system":
                raise InvalidRequest("Only a system message changes the tools.", param=f"{param}.type")
            found.append((_changed_tool(block, param), kind == "tool_addition", f"{param}.tool"))
    return found


def _changed_tool(block: Mapping[str, Any], param: str) -> str:
    tool = block.get("tool")
    fields = tool if isinstance(tool, Mapping) else block
    name = fields.get("name", fields.get("tool_name"))
    if not isinstance(name, str):
        raise InvalidRequest("A change to the tools names a tool.", param=f"{param}.tool")
    return name


def read_tool_choice(
    choice: AnthropicToolChoice | None, tools: list[Tool] | None, model: DialectModel
) -> ToolChoice | None:
    """The resolved choice; None where the request has neither a choice nor tools."""
    resolved: ToolChoice | None
    match choice.type if choice is not None else None:
        case None:
            resolved = "auto" if tools is not None else None
        case "auto":
            resolved = "auto"
        case "any":
            resolved = "required"
        case "none":
            resolved = "none"
        case "tool":
            assert choice is not None
            if not choice.name:
                raise InvalidRequest("A choice of the type tool needs a `name`.", param="tool_choice.name")
            resolved = NamedTool(choice.name)
        case _:
            raise InvalidRequest("`tool_choice.type` is auto, any, tool or none.", param="tool_choice.type")
    check_tool_choice(resolved, tools, model)
    return resolved
