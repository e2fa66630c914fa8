"""A constraint on the whole output to the node that stands for it inside a structural tag."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.protocol.generate import StructuredOutputs
from app.rendering.tag_pieces import Node, constant, json_schema, regex, tag
from app.rendering.xgrammar_limits import holds_fully

__all__ = ("output_node",)


def output_node(asked: StructuredOutputs, *, whole: bool = False) -> Node | None:
    """The node, or None where a structural tag can't hold the output to what is asked.

    ``whole``: the constraint has no other place to go, so a schema is taken even where xgrammar loosens it.
    """
    if asked.json_object:
        return json_schema({"type": "object"})
    if asked.json is not None:
        schema = _decoded(asked.json) if isinstance(asked.json, str) else asked.json
        return json_schema(schema) if schema is not None and (whole or holds_fully(schema)) else None
    if asked.regex is not None:
        return regex(asked.regex)
    if asked.choice is not None:
        return {"type": "or", "elements": [constant(choice) for choice in asked.choice]}
    if asked.grammar is not None:
        # Other grammar languages than EBNF (Lark) don't stand in structural tags.
        return {"type": "grammar", "grammar": asked.grammar} if "::=" in asked.grammar else None
    if asked.structural_tag is not None:
        return _tag_node(_decoded(asked.structural_tag))
    return None


def _tag_node(given: Any) -> Node | None:
    """The format of a structural tag; the older form of ``structures`` and ``triggers`` in terms of the newer."""
    if not isinstance(given, Mapping):
        return None
    structures, triggers = given.get("structures"), given.get("triggers")
    if not isinstance(structures, list):
        format = given.get("format")
        return dict(format) if isinstance(format, Mapping) else None
    if not isinstance(triggers, list) or not all(isinstance(item, Mapping) for item in structures):
        return None
    tags = [
        tag(item.get("begin", ""), json_schema(item.get("schema", True)), item.get("end", "")) for item in structures
    ]
    return {
        "type": "triggered_tags",
        "triggers": triggers,
        "tags": tags,
        "at_least_one": False,
        "stop_after_first": False,
        "excludes": [],
    }


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
