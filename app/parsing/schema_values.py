"""Bare text of an argument and its JSON schema to the JSON value it stands for."""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ("ANY", "STRING", "Schema", "Schemas", "as_json", "half_json", "quote")

ANY = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
STRING = frozenset({"string"})
PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
REFERENCE_LIMIT = 16


class Schemas:
    """The types that a request's tools allow for each of their arguments.

    Args:
        tools: definitions in Chat's shape (``{"type": "function", "function": {…}}``) or flat.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._parameters: dict[str, Mapping[str, Any]] = {}
        self._types: dict[tuple[str, str], frozenset[str]] = {}
        names: list[str] = []
        for tool in tools:
            function = tool.get("function")
            definition = function if isinstance(function, Mapping) else tool
            name, parameters = definition.get("name"), definition.get("parameters")
            if parameters is None:
                parameters = definition.get("input_schema")
            if isinstance(name, str):
                names.append(name)
                if isinstance(parameters, Mapping):
                    self._parameters[name] = parameters
        self.names = frozenset(names)
        """The tools' names."""

    def types(self, tool: str, argument: str) -> frozenset[str]:
        """JSON type names that ``argument`` may have; :data:`ANY` where no schema says."""
        known = self._types.get((tool, argument))
        if known is None:
            known = self._look_up(tool, argument)
            if tool in self._parameters:
                self._types[tool, argument] = known
        return known

    def _look_up(self, tool: str, argument: str) -> frozenset[str]:
        return self.parameters(tool).property(argument).types

    def parameters(self, tool: str) -> "Schema":
        """The schema of a tool's arguments; one that allows everything where there is none."""
        root = self._parameters.get(tool, {})
        return Schema(root, root)


class Schema:
    """One place in a tool's JSON schema, with the root that its references start from."""

    def __init__(self, here: Any, root: Mapping[str, Any]) -> None:
        self._here = here
        self._root = root

    @property
    def types(self) -> frozenset[str]:
        """JSON type names that a value may have here; :data:`ANY` where the schema does not say."""
        return _types(self._here, self._root, REFERENCE_LIMIT)

    def property(self, name: str) -> "Schema":
        """The schema of an object's property, or of its additional ones."""
        branches = _branches(self._here, self._root, REFERENCE_LIMIT)
        for branch in branches:
            properties = branch.get("properties")
            if isinstance(properties, Mapping) and name in properties:
                return Schema(properties[name], self._root)
        return self._first(branches, "additionalProperties")

    def items(self) -> "Schema":
        """The schema of a list's items."""
        return self._first(_branches(self._here, self._root, REFERENCE_LIMIT), "items")

    def _first(self, branches: Sequence[Mapping[str, Any]], word: str) -> "Schema":
        found = next((branch[word] for branch in branches if isinstance(branch.get(word), Mapping)), None)
        return Schema(found, self._root)


def _branches(schema: Any, root: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    """The schema and all that it refers to or combines."""
    if not isinstance(schema, Mapping) or depth == 0:
        return []
    found: list[Mapping[str, Any]] = [schema]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found += _branches(_resolve(reference, root), root, depth - 1)
    for word in ("anyOf", "oneOf", "allOf"):
        options = schema.get(word)
        if isinstance(options, Sequence) and not isinstance(options, str):
            for option in options:
                found += _branches(option, root, depth - 1)
    return found


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    if not reference.startswith("#"):
        return None
    node: Any = root
    for part in reference[1:].strip("/").split("/"):
        if not part:
            continue
        part = part.replace("~1", "/").replace("~0", "~")
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str]:
    if not isinstance(schema, Mapping) or depth == 0:
        return ANY
    declared = schema.get("type")
    if isinstance(declared, str):
        own = frozenset({declared}) & ANY or ANY
    elif isinstance(declared, Sequence):
        own = frozenset(word for word in declared if isinstance(word, str)) & ANY or ANY
    elif isinstance(schema.get("enum"), Sequence):
        own = frozenset(_type_of(value) for value in schema["enum"]) or ANY
    elif "const" in schema:
        own = frozenset({_type_of(schema["const"])})
    elif "properties" in schema:
        own = frozenset({"object"})
    elif "items" in schema:
        own = frozenset({"array"})
    else:
        own = ANY
    if isinstance(schema.get("$ref"), str):
        own = own & _types(_resolve(schema["$ref"], root), root, depth - 1) or own
    for word in ("anyOf", "oneOf"):
        options = schema.get(word)
        if isinstance(options, Sequence) and options:
            union = frozenset[str]().union(*(_types(option, root, depth - 1) for option in options))
            own = own & union or own
    for option in schema.get("allOf") or ():
        own = own & _types(option, root, depth - 1) or own
    if schema.get("nullable") is True:
        own |= {"null"}
    return own


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list | tuple) else "object"


def quote(text: str) -> str:
    """``text`` as the inside of a JSON string, characters outside ASCII as they are."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def as_json(text: str, types: frozenset[str]) -> str:
    """The argument that ``text`` writes: JSON as written if its type is allowed, else a string.

    ``True``, ``False`` and ``None`` are read as JSON's own words, Python lists and dicts as arrays and objects.
    """
    bare = text.strip()
    word = PYTHON_WORDS.get(bare, bare)
    try:
        value = json.loads(word, parse_constant=_refuse)
    except (ValueError, RecursionError):
        written = _python(bare, types) if bare[:1] in ("[", "{", "(") else None
        return written if written is not None else f'"{quote(text)}"'
    return word if _allowed(value, types) else f'"{quote(text)}"'


def _allowed(value: Any, types: frozenset[str]) -> bool:
    kind = _type_of(value)
    if kind == "integer":
        return "integer" in types or "number" in types
    if kind == "number":
        return "number" in types or ("integer" in types and float(value).is_integer())
    return kind in types


def _refuse(word: str) -> None:
    raise ValueError(word)


def _python(text: str, types: frozenset[str]) -> str | None:
    if not types & {"array", "object"}:
        return None
    try:
        value = ast.literal_eval(text)
        if isinstance(value, tuple):
            value = list(value)
        if _type_of(value) not in types or not isinstance(value, list | dict):
            return None
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def half_json(text: str, types: frozenset[str]) -> str:
    """What is written of a value that the output's end cut: never more than the whole one would begin with."""
    bare = text.strip()
    if not bare:
        return ""
    for python, word in PYTHON_WORDS.items():
        if python.startswith(bare):
            return word[: len(bare)]
    first = bare[0]
    fits = (
        (first == "[" and "array" in types)
        or (first == "{" and "object" in types)
        or (first in "-0123456789" and types & {"integer", "number"})
        or (first == '"' and "string" in types)
        or any(word.startswith(bare) and kind in types for word, kind in WORDS)
    )
    return bare if fits else f'"{quote(text)}'


WORDS = (("true", "boolean"), ("false", "boolean"), ("null", "null"))
