"""A tool format's constraints and a request's tools to the structural tag of its calls."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from app.parsing.format import Constraints, LooseArguments
from app.rendering.conversation import Tool
from app.rendering.tag_pieces import (
    Node,
    any_text,
    calls_list,
    constant,
    either,
    json_schema,
    regex,
    repeated,
    sequence,
    tag,
    triggered,
)

__all__ = ("call_tags", "checked_schema")

_NOT_PLAIN = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
"""Keywords of a schema whose ``properties`` aren't all that an object may hold."""


def call_tags(
    constraints: Constraints, tools: Sequence[Tool], choice: Literal["auto", "required", "named"], *, one: bool
) -> Node:
    """What an engine may write: text and calls where the choice is auto, else calls.

    Args:
        constraints: the format's pieces.
        tools: those that may be called; for a named choice, the one.
        choice: what the request asks for.
        one: the first call is the last.
    """
    loose = constraints.loose
    held = loose is None or all(tool.strict for tool in tools)
    tags = [
        _call(begin, end, tool, constraints.style, None if held or tool.strict else loose)
        for tool in tools
        for begin, end in constraints.tags
    ]
    if choice == "auto":
        found = [_section(constraints, _listed(constraints, tags, one))] if constraints.section_open else tags
        return _triggered(constraints, found, needed=False, one=one or constraints.once)
    if choice == "required" and constraints.required == "triggered" and held:
        return _triggered(constraints, tags, needed=True, one=one)
    content = _listed(constraints, tags, one or choice == "named")
    if choice == "named" and held and constraints.named != "listed":
        content = tags[0]
        if constraints.named == "merged":
            return content | {
                "begin": constraints.section_open + content["begin"],
                "end": content["end"] + constraints.section_close[0],
            }
    if not constraints.section_open:
        return content
    if constraints.lead is None:
        return _section(constraints, content)
    before, after = constraints.lead + constraints.section_open, constraints.section_close[0]
    return sequence(constant(before), content, constant(after))


def checked_schema(tool: Tool) -> Any:
    """The schema that a call's arguments must fit: a strict tool's own, else any."""
    return tool.parameters if tool.strict and tool.parameters is not None else True


def _call(begin: str, end: str, tool: Tool, style: str, loose: LooseArguments | None) -> Node:
    before, numbered, after = begin.replace("{name}", tool.name).partition("{index}")
    arguments = json_schema(checked_schema(tool), style)
    if loose is not None:
        properties = _plain_properties(tool.parameters)
        if properties:
            pairs = [_pair(loose, key, schema) for key, schema in properties.items()]
            arguments = repeated(either(pairs))
    if numbered:
        arguments = sequence(regex(r"\d+"), constant(after), arguments)
    return tag(before, arguments, end.replace("{name}", tool.name))


def _listed(constraints: Constraints, tags: Sequence[Node], one: bool) -> Node:
    return calls_list(tags, constraints.separator, one=one)


def _section(constraints: Constraints, content: Node) -> Node:
    close = constraints.section_close
    return tag(constraints.section_open, content, close[0] if len(close) == 1 else close)


def _triggered(constraints: Constraints, tags: Sequence[Node], *, needed: bool, one: bool) -> Node:
    return triggered(constraints.trigger, tags, constraints.excludes, needed=needed, one=one)


def _plain_properties(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The properties of an object that holds no others, or None where that can't be told."""
    properties = schema.get("properties") if schema else None
    if schema is None or not isinstance(properties, Mapping):
        return None
    open_ended = schema.get("additionalProperties") is True or any(key in schema for key in _NOT_PLAIN)
    return None if open_ended else properties


def _pair(loose: LooseArguments, key: str, schema: Any) -> Node:
    value = _value(loose, schema if isinstance(schema, Mapping) else {})
    return sequence(constant(loose.open.replace("{key}", key)), value, constant(loose.close))


def _value(loose: LooseArguments, schema: Mapping[str, Any]) -> Node:
    """A value by its enumeration or basic type: strings as bare text, all else as JSON."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return either([constant(value if isinstance(value, str) else json.dumps(value)) for value in choices])
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        nodes = [json_schema({"type": name}) for name in kind if name != "string"]
        if "string" in kind:
            nodes.append(any_text(loose.excludes))
        return either(nodes)
    if kind is None or kind == "string" or not isinstance(kind, str):
        return any_text(loose.excludes)
    return json_schema({"type": kind})
