"""Pieces of xgrammar's structural tags: each function gives one format node, keys in the order xgrammar writes them."""

from collections.abc import Sequence
from typing import Any

__all__ = (
    "Node",
    "any_text",
    "calls_list",
    "constant",
    "either",
    "json_schema",
    "maybe",
    "regex",
    "repeated",
    "sequence",
    "tag",
    "triggered",
)

Node = dict[str, Any]
"""One node of a structural tag's ``format``."""


def any_text(excludes: Sequence[str] = ()) -> Node:
    """Text without the excluded strings."""
    return {"type": "any_text", "excludes": list(excludes), "max_tokens": None, "max_chars": None}


def constant(text: str) -> Node:
    """This text."""
    return {"type": "const_string", "value": text}


def regex(pattern: str) -> Node:
    """Text that matches a pattern."""
    return {"type": "regex", "pattern": pattern}


def json_schema(schema: Any, style: str = "json") -> Node:
    """Text that fits a JSON schema (an object; True takes any), written in a style."""
    return {
        "type": "json_schema",
        "json_schema": schema,
        "style": style,
        "any_order": False,
        "max_whitespace_cnt": None,
        "excludes": [],
    }


def sequence(*elements: Node) -> Node:
    """One node after the other."""
    return {"type": "sequence", "elements": list(elements)}


def either(elements: Sequence[Node]) -> Node:
    """One of several nodes; the node itself where there is but one."""
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": list(elements)}


def maybe(content: Node) -> Node:
    """Once or not at all."""
    return {"type": "optional", "content": content}


def repeated(content: Node) -> Node:
    """Any number of times, none included."""
    return {"type": "star", "content": content}


def tag(begin: str, content: Node, end: str | Sequence[str]) -> Node:
    """Content between ``begin`` and ``end``, or one of several ends."""
    return {"type": "tag", "begin": begin, "content": content, "end": end if isinstance(end, str) else list(end)}


def calls_list(tags: Sequence[Node], separator: str, *, one: bool) -> Node:
    """Tags and nothing else: at least one, and not more than that where ``one``."""
    return {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": one,
    }


def triggered(trigger: str, tags: Sequence[Node], excludes: Sequence[str], *, needed: bool, one: bool) -> Node:
    """Free text in which the trigger begins one of the tags; ``needed``: once at least, ``one``: nothing follows it."""
    return {
        "type": "triggered_tags",
        "triggers": [trigger],
        "tags": list(tags),
        "at_least_one": needed,
        "stop_after_first": one,
        "excludes": list(excludes),
    }
