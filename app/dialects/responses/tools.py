"""Tools and tool choices of the Responses API to function definitions and one resolved choice.

A free-form ``custom`` tool is a function with the one text argument ``input``; a namespace's functions are called
``<namespace>__<name>``, names of theirs in the history and in ``tool_choice`` too. Tools that OpenAI runs itself
(web search, file search, …) are left out, as there is nothing here that would run them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.dialects.model import DialectModel
from app.dialects.tool_choice import ToolChoice, check_tool_choice
from app.errors import InvalidRequest, Unsupported
from app.rendering.conversation import Tool
from app.rendering.limits import MAX_TOOLS
from app.rendering.request import NamedTool

__all__ = ("HOSTED_TOOLS", "function_name", "read_tool_choice", "read_tools")

HOSTED_TOOLS = (
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
    "web_search_preview",
)
"""Types of tools that OpenAI runs; some have a date behind (``web_search_2025_08_26``)."""

_CUSTOM_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The freeform text payload for this tool."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""What vLLM 0.33 shows the model for a custom tool."""


def function_name(name: str, namespace: str | None) -> str:
    """What the model calls a function."""
    return f"{namespace}__{name}" if namespace else name


def read_tools(tools: Sequence[Mapping[str, Any]] | None) -> list[Tool] | None:
    """The functions among the tools; None where there are none."""
    read: list[Tool] = []
    for position, tool in enumerate(tools or ()):
        read.extend(_read_tool(tool, f"tools[{position}]", namespace=None))
    if len(read) > MAX_TOOLS:
        raise InvalidRequest(f"`tools` has {len(read)} functions; at most {MAX_TOOLS} are taken.", param="tools")
    return read or None


def _read_tool(tool: Any, param: str, namespace: str | None) -> list[Tool]:
    if not isinstance(tool, Mapping):
        raise InvalidRequest("A tool is an object.", param=param)
    kind = tool.get("type")
    if kind == "function":
        return [_read_function(tool, param, namespace)]
    if kind == "custom":
        return [_read_custom(tool, param, namespace)]
    if kind == "namespace" and namespace is None:
        return _read_namespace(tool, param)
    if isinstance(kind, str) and any(kind == hosted or kind.startswith(f"{hosted}_") for hosted in HOSTED_TOOLS):
        return []
    raise InvalidRequest("There is no such type of tool.", param=f"{param}.type")


def _read_function(tool: Mapping[str, Any], param: str, namespace: str | None) -> Tool:
    # A definition in the form of chat completions is taken, too: many clients send it.
    inner = tool.get("function")
    fields = inner if isinstance(inner, Mapping) and "name" not in tool else tool
    strict = _optional(fields, "strict", bool, param)
    if strict is None:
        strict = _optional(tool, "strict", bool, param)
    return Tool(
        name=function_name(_name(fields, param), namespace),
        description=_optional(fields, "description", str, param),
        parameters=_optional(fields, "parameters", dict, param),
        strict=strict,
        defer_loading=_optional(tool, "defer_loading", bool, param),
    )


def _read_custom(tool: Mapping[str, Any], param: str, namespace: str | None) -> Tool:
    format = tool.get("format")
    if format is not None and (not isinstance(format, Mapping) or format.get("type") != "text"):
        raise Unsupported("Custom tools with a grammar are not served; free-form text is.", param=f"{param}.format")
    return Tool(
        name=function_name(_name(tool, param), namespace),
        description=_optional(tool, "description", str, param),
        parameters=_CUSTOM_PARAMETERS,
    )


def _read_namespace(tool: Mapping[str, Any], param: str) -> list[Tool]:
    name, tools = _name(tool, param), tool.get("tools")
    if not isinstance(tools, list):
        raise InvalidRequest("A namespace has a list of `tools`.", param=f"{param}.tools")
    return [
        read
        for position, inner in enumerate(tools)
        for read in _read_tool(inner, f"{param}.tools[{position}]", namespace=name)
    ]


def read_tool_choice(
    choice: str | Mapping[str, Any] | None, tools: list[Tool] | None, model: DialectModel
) -> tuple[ToolChoice, list[Tool] | None]:
    """The resolved choice, and the tools that it leaves (``allowed_tools`` narrows them)."""
    resolved: ToolChoice
    if choice is None or choice == "auto":
        resolved = "auto" if tools else "none"
    elif choice == "none":
        resolved = "none"
    elif choice == "required":
        resolved = "required"
    elif isinstance(choice, Mapping):
        resolved, tools = _read_object(choice, tools)
    else:
        raise InvalidRequest(
            '`tool_choice` is "none", "auto", "required" or an object that names a tool.', param="tool_choice"
        )
    if resolved == "required" and not tools:
        raise InvalidRequest("A required call needs a function among the `tools`.", param="tool_choice")
    check_tool_choice(resolved, tools, model)
    return resolved, tools


def _read_object(choice: Mapping[str, Any], tools: list[Tool] | None) -> tuple[ToolChoice, list[Tool] | None]:
    match choice.get("type"):
        case "function" | "custom":
            inner = choice.get("function")
            fields = inner if isinstance(inner, Mapping) and "name" not in choice else choice
            known = dict.fromkeys(tool.name for tool in tools or ())
            return NamedTool(_resolved_name(_reference(fields, "tool_choice"), known, "tool_choice.name")), tools
        case "allowed_tools":
            return _read_allowed(choice, tools)
        case "mcp" | "shell" | "apply_patch":
            raise Unsupported("Only functions and custom tools can be chosen.", param="tool_choice.type")
        case str(kind) if kind.startswith(HOSTED_TOOLS):
            raise Unsupported("Only functions and custom tools can be chosen.", param="tool_choice.type")
    raise InvalidRequest("`tool_choice.type` is function, custom or allowed_tools.", param="tool_choice.type")


def _read_allowed(choice: Mapping[str, Any], tools: list[Tool] | None) -> tuple[ToolChoice, list[Tool] | None]:
    mode, allowed = choice.get("mode", "auto"), choice.get("tools")
    if mode not in ("auto", "required"):
        raise InvalidRequest("`tool_choice.mode` is auto or required.", param="tool_choice.mode")
    if not isinstance(allowed, list):
        raise InvalidRequest("`allowed_tools` needs a list of `tools`.", param="tool_choice.tools")
    known = dict.fromkeys(tool.name for tool in tools or ())
    if len(allowed) > MAX_TOOLS:
        raise InvalidRequest(f"`tool_choice.tools` has at most {MAX_TOOLS} entries.", param="tool_choice.tools")
    names = set()
    for position, tool in enumerate(allowed):
        param = f"tool_choice.tools[{position}]"
        if not isinstance(tool, Mapping):
            raise InvalidRequest("A tool is an object.", param=param)
        if tool.get("type", "function") in ("function", "custom"):
            names.add(_resolved_name(_reference(tool, param), known, f"{param}.name"))
    left = [tool for tool in tools or () if tool.name in names] or None
    if mode == "required":
        return "required", left
    return ("auto" if left else "none"), left


def _reference(fields: Mapping[str, Any], param: str) -> str:
    return function_name(_name(fields, param), _optional(fields, "namespace", str, param))


def _resolved_name(name: str, known: Mapping[str, None], param: str) -> str:
    """The function that a choice means: by its full name, or by its name in the only namespace that has it."""
    if name in known:
        return name
    end = f"__{name}"
    inside = [full for full in known if full.endswith(end)]
    if len(inside) == 1:
        return inside[0]
    if inside:
        raise InvalidRequest(f"Several namespaces have a tool '{name}': give its `namespace`.", param=param)
    raise InvalidRequest(f"`tools` has no function '{name}'.", param=param)


def _name(fields: Mapping[str, Any], param: str) -> str:
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("A tool needs a `name`.", param=f"{param}.name")
    return name


def _optional(fields: Mapping[str, Any], key: str, kind: type[Any], param: str) -> Any:
    value = fields.get(key)
    if value is not None and not isinstance(value, kind):
        expected = {str: "a text", bool: "true or false", dict: "an object"}[kind]
        raise InvalidRequest(f"`{key}` is {expected}.", param=f"{param}.{key}")
    return value
