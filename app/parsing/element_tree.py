"""Elements within elements to the JSON value that they stand for, by the argument's schema."""

import re

from app.parsing.schema_values import Schema, as_json, quote

__all__ = ("Tags", "tree_json")

DEPTH_LIMIT = 64
"""Elements in elements; a deeper one is text."""
TEXT_KEY = "$text"
"""The key of text that stands between elements, where no element has it."""


class Tags:
    """The tags of elements that stand behind a marker: ``marker<name>`` and ``marker</name>``."""

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.pattern = re.compile(re.escape(marker) + r"<(/?)([^<>/\s][^<>]{0,255})>")


Tree = str | list[tuple[str, "Tree"]]
"""An element's content: its text, or its elements in order."""


def tree_json(text: str, tags: Tags, schema: Schema) -> str:
    """JSON of an element's inside.

    Text alone is a value typed by the schema, nothing at all an empty list or object where only such fits. Elements
    are a list's items where the schema has a list, else an object's properties; a name that comes again makes a list
    of its values. What is no well-formed element is text.
    """
    tree = _tree(text, tags)
    return as_json(text, schema.types) if tree is None else _json(tree, schema)


def _tree(text: str, tags: Tags) -> Tree | None:
    """None where the tags don't match each other."""
    open_names: list[str] = []
    elements: list[list[tuple[str, Tree]]] = [[]]
    texts: list[str] = [""]
    at = 0
    for found in tags.pattern.finditer(text):
        texts[-1] += text[at : found.start()]
        at = found.end()
        if not found[1]:
            if len(open_names) == DEPTH_LIMIT:
                return None
            open_names.append(found[2])
            elements.append([])
            texts.append("")
            continue
        if not open_names or open_names.pop() != found[2]:
            return None
        children, between = elements.pop(), texts.pop()
        elements[-1].append((found[2], _content(children, between)))
    texts[-1] += text[at:]
    return None if open_names or tags.marker in texts[-1] else _content(elements[0], texts[0])


def _content(children: list[tuple[str, Tree]], between: str) -> Tree:
    if not children:
        return between
    if between.strip():
        key = TEXT_KEY
        while any(name == key for name, _ in children):
            key = "$" + key
        children.append((key, between))
    return children


def _json(tree: Tree, schema: Schema) -> str:
    types = schema.types
    if isinstance(tree, str):
        if not tree.strip() and "string" not in types and types & {"array", "object"}:
            return "[]" if "array" in types else "{}"
        return as_json(tree, types)
    if "array" in types and "object" not in types:
        return "[" + ", ".join(_json(child, schema.items()) for _, child in tree) + "]"
    values: dict[str, list[str]] = {}
    for name, child in tree:
        values.setdefault(name, []).append(_json(child, schema.property(name)))
    pairs = [
        f'"{quote(name)}": {found[0] if len(found) == 1 else "[" + ", ".join(found) + "]"}'
        for name, found in values.items()
    ]
    return "{" + ", ".join(pairs) + "}"
