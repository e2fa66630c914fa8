"""A set of literal strings to one regular expression that finds the longest of them at every place.

Python's ``re`` tries an alternation's branches one by one, which is slow for the thousands of added tokens that some
vocabularies have; sharing prefixes (a radix tree, written as nested groups) makes it one step a character.
"""

import re
from collections.abc import Iterable, Mapping

__all__ = ("alternation", "first_character")

END = r"\Z"

_Tree = dict[str, "_Tree"]


def _tree(literals: Iterable[str]) -> _Tree:
    """A character tree; the key "" marks a node where a literal ends."""
    root: _Tree = {}
    for literal in literals:
        node = root
        for character in literal:
            node = node.setdefault(character, {})
        node[""] = {}
    return root


def _write(node: Mapping[str, _Tree], *, also: str) -> str:
    """The expression for all that may follow ``node``; ``also`` is tried at each inner node after its branches."""
    branches: list[str] = []
    for character in sorted(filter(None, node)):
        run, below = re.escape(character), node[character]
        while len(below) == 1 and "" not in below and not also:
            ((following, deeper),) = below.items()
            run, below = run + re.escape(following), deeper
        branches.append(run + _write(below, also=also))
    if not branches:
        return ""
    if also and "" not in node:
        branches.append(also)
    optional = "?" if "" in node else ""
    return branches[0] if len(branches) == 1 and not optional else f"(?:{'|'.join(branches)}){optional}"


def alternation(literals: Iterable[str]) -> str:
    """An expression that matches the longest of ``literals`` starting at a place; never empty strings."""
    return _write(_tree(filter(None, literals)), also="") or r"(?!)"


def first_character(literals: Iterable[str]) -> str:
    """An expression for the first character of any of ``literals``, also of one that the text's end cuts off."""
    root = _tree(filter(None, literals))
    return (
        "|".join(f"{re.escape(first)}(?={_write(below, also=END)})" for first, below in sorted(root.items())) or "(?!)"
    )
