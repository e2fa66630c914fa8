"""A template's syntax tree to the shape of content that it wants: a string, or a list of parts.

Templates of multimodal models loop over ``message.content``; the others print it. Reading that off the tree (names that
stand for the messages, for one message, for its content; then a loop over such content) gives the same answer as vLLM's
"auto" (``shared/reference/vllm_wire.md`` A.4).
"""

from collections.abc import Iterator
from typing import Literal

from jinja2 import nodes

__all__ = ("ContentFormat", "Names", "content_format")

ContentFormat = Literal["string", "openai"]


def content_format(tree: nodes.Template) -> ContentFormat:
    """ "openai" where the template loops over a message's content, else "string"."""
    names = Names(tree)
    return "openai" if any(names.is_content(loop.iter) for loop in tree.find_all(nodes.For)) else "string"


def name_of(node: nodes.Node) -> str | None:
    """The variable that an expression or a target is, a namespace's attribute included."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.NSRef):
        return f"{node.name}.{node.attr}"
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return f"{node.node.name}.{node.attr}"
    return None


def plain(node: nodes.Node) -> nodes.Node:
    """An expression without the filters and slices around it."""
    while True:
        sliced = isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
        inner = getattr(node, "node", None) if sliced or isinstance(node, nodes.Filter) else None
        if not isinstance(inner, nodes.Node):
            return node
        node = inner


def key_of(node: nodes.Node) -> tuple[nodes.Node, str] | None:
    """``x.key``, ``x["key"]`` and ``x.get("key")`` as (x, key)."""
    if isinstance(node, nodes.Getattr):
        return node.node, node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
        return node.node, node.arg.value
    if (
        isinstance(node, nodes.Call)
        and isinstance(node.node, nodes.Getattr)
        and node.node.attr == "get"
        and node.args
        and isinstance(node.args[0], nodes.Const)
        and isinstance(node.args[0].value, str)
    ):
        return node.node.node, node.args[0].value
    return None


class Names:
    """Which names of a template stand for the message list, for a message, and for a message's content.

    Names are followed through ``set``, namespaces, slices, filters, loops and macro parameters until no more are found.
    Scopes are ignored: a template that uses one name for two things is read generously.
    """

    def __init__(self, tree: nodes.Template) -> None:
        self.lists = {"messages"}
        self.messages: set[str] = set()
        self.contents: set[str] = set()
        bindings = list(assignments(tree))
        loops = [(name_of(loop.target), loop.iter) for loop in tree.find_all(nodes.For)]
        while True:
            before = len(self.lists) + len(self.messages) + len(self.contents)
            for target, value in bindings:
                if self.is_list(value):
                    self.lists.add(target)
                if self.is_message(value):
                    self.messages.add(target)
                if self.is_content(value):
                    self.contents.add(target)
            self.messages.update(target for target, over in loops if target is not None and self.is_list(over))
            if len(self.lists) + len(self.messages) + len(self.contents) == before:
                return

    def is_list(self, node: nodes.Node) -> bool:
        """Whether an expression is the messages, or some of them."""
        return name_of(plain(node)) in self.lists

    def is_message(self, node: nodes.Node) -> bool:
        """Whether an expression is one message."""
        node = plain(node)
        if isinstance(node, nodes.Getitem) and not isinstance(node.arg, nodes.Slice):
            return self.is_list(node.node) and key_of(node) is None
        return name_of(node) in self.messages

    def is_content(self, node: nodes.Node) -> bool:
        """Whether an expression is a message's content."""
        node = plain(node)
        if name_of(node) in self.contents:
            return True
        key = key_of(node)
        return key is not None and key[1] == "content" and self.is_message(key[0])


def assignments(tree: nodes.Template) -> Iterator[tuple[str, nodes.Node]]:
    """(name, expression) of every ``set``, ``namespace(…)`` argument and macro parameter."""
    macros = {macro.name: [arg.name for arg in macro.args] for macro in tree.find_all(nodes.Macro)}
    for assign in tree.find_all(nodes.Assign):
        target = name_of(assign.target)
        if target is not None:
            yield target, assign.node
            if isinstance(assign.node, nodes.Call):
                for keyword in assign.node.kwargs:
                    yield f"{target}.{keyword.key}", keyword.value
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name in macros:
            yield from zip(macros[call.node.name], call.args, strict=False)
            for keyword in call.kwargs:
                yield keyword.key, keyword.value
