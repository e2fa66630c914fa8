"""A tool choice to the constraint that makes the model keep to it.

A required or named choice becomes a plain JSON schema of the calls: a list of objects with a name and arguments. Where
the format itself writes such a list, the schema has the format's own keys; else they are ``name`` and ``parameters``,
and a named choice is the schema of the arguments alone (as in vLLM 0.33).
"""

from collections.abc import Sequence
from typing import Any

from app.errors import InvalidRequest
from app.parsing.format import JsonCalls, ToolFormat
from app.protocol.generate import StructuredOutputs
from app.rendering.conversation import Tool
from app.rendering.request import NamedTool, RenderInput

__all__ = ("calls_schema", "constrain")


def constrain(request: RenderInput, tool_format: ToolFormat | None) -> StructuredOutputs | None:
    """The constraint of a request: its tool choice's, else the one that it asks for, else None."""
    tools = request.conversation.tools if request.conversation is not None else None
    choice = request.tool_choice
    if not tools or tool_format is None or not (choice == "required" or isinstance(choice, NamedTool)):
        return request.sampling.structured_outputs
    if isinstance(choice, NamedTool):
        tools = [tool for tool in tools if tool.name == choice.name]
    own = _own_keys(tool_format)
    if own is None:
        if isinstance(choice, NamedTool):
            return StructuredOutputs(json=_parameters(tools[0]))
        return StructuredOutputs(json=calls_schema(tools, "name", "parameters"))
    if request.dialect == "responses":
        # vLLM constrains no Responses request of such a format, and an engine's grammar must be the same for both.
        return request.sampling.structured_outputs
    return StructuredOutputs(json=calls_schema(tools, *own, most=1 if isinstance(choice, NamedTool) else None))


def calls_schema(tools: Sequence[Tool], name: str, arguments: str, *, most: int | None = None) -> dict[str, Any]:
    """JSON schema of a list of at least one call, to ``most`` calls, of any of the tools.

    ``$defs`` of the tools' schemas move to the root, where their references look for them.

    Raises:
        InvalidRequest: two tools define one name under ``$defs`` in different ways.
    """
    calls: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for tool in tools:
        parameters = dict(_parameters(tool))
        for key, definition in (parameters.pop("$defs", None) or {}).items():
            if definitions.setdefault(key, definition) != definition:
                raise InvalidRequest(f"Two tools define `$defs.{key}` in different ways.", param="tools")
        calls.append(
            {
                "type": "object",
                "properties": {name: {"type": "string", "enum": [tool.name]}, arguments: parameters},
                "required": [name, arguments],
            }
        )
    schema: dict[str, Any] = {"type": "array", "minItems": 1}
    if most is not None:
        schema["maxItems"] = most
    schema["items"] = {"type": "object", "anyOf": calls}
    if definitions:
        schema["$defs"] = definitions
    return schema


def _parameters(tool: Tool) -> dict[str, Any]:
    return tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}


def _own_keys(tool_format: ToolFormat) -> tuple[str, str] | None:
    """The keys of a format whose calls are a list of JSON objects after an opener, or None."""
    for section in tool_format.sections:
        if isinstance(section.body, JsonCalls) and not (section.bare or section.body.keyed):
            return section.body.name[0], section.body.arguments[0]
    return None
