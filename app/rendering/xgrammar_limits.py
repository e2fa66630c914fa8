"""A JSON schema to whether xgrammar holds output to all of it.

xgrammar reads some keywords and lets them pass without effect. A schema that uses them must stay a constraint by
itself, which an engine can give to another of its backends; inside a structural tag it would be loosened.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ("holds_fully",)

_STRING_FORMATS = frozenset(
    [
        *("email", "date", "time", "date-time", "duration", "ipv4", "ipv6", "hostname", "uuid"),
        *("uri", "uri-reference", "uri-template", "json-pointer", "relative-json-pointer"),
    ]
)
_ARRAY_KEYWORDS = ("uniqueItems", "contains", "minContains", "maxContains")


def holds_fully(schema: Any) -> bool:
    """Whether no part of the schema uses what xgrammar (0.2.9) passes over."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            if _loosened(part):
                return False
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(item for item in part if isinstance(item, Mapping))
    return True


def _loosened(schema: Mapping[str, Any]) -> bool:
    types = schema.get("type")
    kinds = {types} if isinstance(types, str) else {kind for kind in types or () if isinstance(kind, str)}
    alternatives = schema.get("allOf")
    return (
        (bool(kinds & {"integer", "number"}) and "multipleOf" in schema)
        or ("array" in kinds and any(keyword in schema for keyword in _ARRAY_KEYWORDS))
        or ("string" in kinds and (schema.get("format", "uri") not in _STRING_FORMATS or _shape_and_length(schema)))
        or ("object" in kinds and _loosened_keys(schema))
        or (isinstance(alternatives, list) and len(alternatives) > 1)
    )


def _loosened_keys(schema: Mapping[str, Any]) -> bool:
    names, patterns = schema.get("propertyNames"), schema.get("patternProperties")
    if "propertyNames" in schema:
        others = "patternProperties" in schema or "properties" in schema
        closed = schema.get("unevaluatedProperties", True) is not True
        if others or closed or (isinstance(names, Mapping) and _shape_and_length(names)):
            return True
    return isinstance(patterns, Mapping) and ("properties" in schema or len(patterns) > 1)


def _shape_and_length(schema: Mapping[str, Any]) -> bool:
    return ("pattern" in schema or "format" in schema) and ("minLength" in schema or "maxLength" in schema)
