"""A request's tools, tool choice and output constraint to the one constraint that makes the model keep to them.

A format that says how it is constrained (:class:`~app.parsing.format.Constraints`, Harmony's messages) gets a
structural tag of its own syntax; any other a plain JSON schema of the calls: a list of objects with ``name`` and
``parameters`` (or the format's own keys), and for a named choice the schema of the arguments alone. What is constrained
when, and every tag, is as in vLLM 0.33.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from app.errors import InvalidRequest
from app.parsing.format import HarmonyMessages, ReasoningFormat, ToolFormat
from app.protocol.generate import StructuredOutputs
from app.rendering.call_tags import call_tags
from app.rendering.conversation import Tool
from app.rendering.harmony_tags import harmony_calls, harmony_final
from app.rendering.output_tags import output_node
from app.rendering.request import NamedTool, RenderInput
from app.rendering.tag_pieces import Node, either

__all__ = ("calls_schema", "constrain")


def constrain(
    request: RenderInput, tool_format: ToolFormat | None, reasoning_format: ReasoningFormat | None = None
) -> StructuredOutputs | None:
    """The constraint of a request: its calls', its output's, one of both, or None.

    Raises:
        InvalidRequest: tools whose schemas can't stand in one constraint.
    """
    asked = request.sampling.structured_outputs
    if request.conversation is None:
        return asked
    messages = _harmony(tool_format, reasoning_format)
    if messages is not None and asked is not None:
        asked = _in_final(messages, asked)
    tools, choice = _callable(request)
    if not tools or tool_format is None:
        return asked
    constraints = tool_format.constraints
    if constraints is None and messages is None:
        return asked if choice == "auto" else _by_schema(request, tool_format, tools, choice)
    one = not request.parallel_tool_calls
    output = None
    if choice == "auto":
        held = any(tool.strict for tool in tools) or (constraints is not None and constraints.always)
        output = output_node(asked) if asked is not None and held else None
        if not held and (asked is not None or not one):
            return asked
        if asked is not None and output is None:
            return asked
    wanted: Literal["auto", "required", "named"] = "required" if output is not None else choice
    if constraints is not None:
        node = call_tags(constraints, tools, wanted, one=one)
    else:
        assert messages is not None
        node = harmony_calls(messages, tools, needed=wanted != "auto")
    return _tagged(node if output is None else either([node, output]))


def _callable(request: RenderInput) -> tuple[list[Tool], Literal["auto", "required", "named"]]:
    """The tools that may be called, and whether one must be."""
    given = request.conversation.tools if request.conversation is not None else None
    if not given or request.tool_choice == "none":
        return [], "auto"
    if isinstance(request.tool_choice, NamedTool):
        return [tool for tool in given if tool.name == request.tool_choice.name], "named"
    return given, request.tool_choice or "auto"


def _tagged(node: Node, options: StructuredOutputs | None = None) -> StructuredOutputs:
    """A node as the text of a whole structural tag."""
    try:
        text = json.dumps({"type": "structural_tag", "format": node})
    except RecursionError:
        raise InvalidRequest("A schema is nested too deeply to be a constraint.", param="tools") from None
    return msgspec.structs.replace(options or StructuredOutputs(), structural_tag=text)


def _harmony(tool: ToolFormat | None, reasoning: ReasoningFormat | None) -> HarmonyMessages | None:
    for section in tool.sections if tool is not None else ():
        if isinstance(section.body, HarmonyMessages):
            return section.body
    return reasoning.harmony if reasoning is not None else None


def _in_final(messages: HarmonyMessages, asked: StructuredOutputs) -> StructuredOutputs:
    """An output's constraint, on the message that the user is to see."""
    content = output_node(asked, whole=True)
    if content is None:
        return asked
    options = msgspec.structs.replace(asked, json=None, regex=None, choice=None, grammar=None, json_object=None)
    return _tagged(harmony_final(messages, content), options)


def _by_schema(
    request: RenderInput, tool_format: ToolFormat, tools: Sequence[Tool], choice: Literal["required", "named"]
) -> StructuredOutputs | None:
    """A constraint for formats without tags."""
    own = tool_format.forced_keys
    if own is None:
        if choice == "named":
            return StructuredOutputs(json=_parameters(tools[0]))
        most = None if request.parallel_tool_calls else 1
        return StructuredOutputs(json=calls_schema(tools, "name", "parameters", most=most))
    if request.dialect == "responses":
        # vLLM constrains no Responses request of such a format, and an engine's grammar must be the same for both.
        return request.sampling.structured_outputs
    return StructuredOutputs(json=calls_schema(tools, *own, most=1 if choice == "named" else None, typed=True))


def calls_schema(
    tools: Sequence[Tool], name: str, arguments: str, *, most: int | None = None, typed: bool = False
) -> dict[str, Any]:
    """JSON schema of a list of at least one call, to ``most`` calls, of any of the tools.

    ``typed`` says of each call by itself that it is an object, as vLLM does for Mistral's keys only; the list does.

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
            ({"type": "object"} if typed else {})
            | {
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
