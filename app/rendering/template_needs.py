"""A template's syntax tree to what it expects of messages beyond their content's shape."""

from jinja2 import nodes
from msgspec import Struct

from app.rendering.content_format import Names, key_of, name_of

__all__ = ("TemplateNeeds", "template_needs")

AS_MAPPING_FILTERS = frozenset({"tojson", "items", "dictsort"})
AS_MAPPING_TESTS = frozenset({"mapping", "string"})


class TemplateNeeds(Struct, frozen=True):
    """``text_arguments``: tool arguments are glued into text as they are, so they must be JSON text, not a mapping.

    ``null_content``: it tells an absent content from an empty one. ``tests_string``: it asks whether content is a
    string, so a string need not become a list of one part. ``developer``: it knows the developer role.
    """

    text_arguments: bool = False
    null_content: bool = False
    tests_string: bool = False
    developer: bool = False


def template_needs(tree: nodes.Template, source: str) -> TemplateNeeds:
    """Read the needs off the tree."""
    names = Names(tree)
    tests = list(tree.find_all(nodes.Test))
    return TemplateNeeds(
        text_arguments=glues_arguments(tree),
        null_content=any(test.name == "none" and names.is_content(test.node) for test in tests),
        tests_string=any(test.name == "string" and names.is_content(test.node) for test in tests),
        developer="developer" in source,
    )


def glues_arguments(tree: nodes.Template) -> bool:
    """Whether tool arguments are written as text and nowhere treated as a mapping.

    DeepSeek R1's and V3's templates say ``tool['function']['arguments'] + '…'``; Llama 3.1, Qwen and Mistral say
    ``arguments | tojson`` or loop over ``arguments.items()``, and would write a string twice encoded.
    """
    named: set[str] = set()

    def is_arguments(node: nodes.Node | None) -> bool:
        if node is None:
            return False
        key = key_of(node)
        return (key is not None and key[1] == "arguments") or name_of(node) in named

    for assign in tree.find_all(nodes.Assign):
        target = name_of(assign.target)
        if target is not None and is_arguments(assign.node):
            named.add(target)
    if any(node.name in AS_MAPPING_FILTERS and is_arguments(node.node) for node in tree.find_all(nodes.Filter)):
        return False
    if any(node.name in AS_MAPPING_TESTS and is_arguments(node.node) for node in tree.find_all(nodes.Test)):
        return False
    if any(is_arguments(loop.iter) for loop in tree.find_all(nodes.For)):
        return False
    if any(is_arguments(node.node) for node in tree.find_all(nodes.Getattr)):
        return False
    if any(is_arguments(node.node) for node in tree.find_all(nodes.Getitem)):
        return False
    glued: list[nodes.Node] = [child for node in tree.find_all(nodes.Add) for child in (node.left, node.right)]
    glued += [child for node in tree.find_all(nodes.Concat) for child in node.nodes]
    glued += [child for node in tree.find_all(nodes.Output) for child in node.nodes]
    return any(is_arguments(node) for node in glued)
