"""``response_format`` and ``structured_outputs`` to one constraint on the output."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from app.errors import InvalidRequest
from app.protocol.generate import StructuredOutputs

__all__ = ("json_schema_constraint", "read_constraints")

_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


def read_constraints(
    structured: StructuredOutputs | None, response_format: Mapping[str, Any] | None
) -> StructuredOutputs | None:
    """The one constraint that a request asks for, or None.

    ``response_format`` is laid onto ``structured_outputs``, which may then bring options such as
    ``disable_any_whitespace`` but no constraint of its own.
    """
    if structured is not None:
        structured = msgspec.structs.replace(
            structured, _backend=None, _backend_was_auto=False, json_object=structured.json_object or None
        )
        _check_structural_tag(structured.structural_tag)
    if response_format is not None:
        wanted = _read_format(response_format)
        if wanted:
            structured = msgspec.structs.replace(structured or StructuredOutputs(), **wanted)
        elif structured is None:
            return None
    return _check(structured) if structured is not None else None


def json_schema_constraint(schema: Any, *, param: str) -> StructuredOutputs:
    """Output that fits a JSON schema (an object, or a boolean)."""
    if not isinstance(schema, (dict, bool)):
        raise InvalidRequest("A JSON schema is an object.", param=param)
    return StructuredOutputs(json=schema)


def _read_format(response_format: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of :class:`StructuredOutputs` that a ``response_format`` sets."""
    match response_format.get("type"):
        case "text":
            return {}
        case "json_object":
            return {"json_object": True}
        case "json_schema":
            given = response_format.get("json_schema")
            if not isinstance(given, dict):
                raise InvalidRequest(
                    "A response format of type json_schema needs the field `json_schema`.",
                    param="response_format.json_schema",
                )
            param = "response_format.json_schema.schema"
            return {"json": json_schema_constraint(given.get("schema"), param=param).json}
        case "structural_tag":
            _check_tag_shape(response_format, "response_format")
            return {"structural_tag": json.dumps(response_format)}
        case _:
            raise InvalidRequest(
                "`response_format.type` is one of text, json_object, json_schema and structural_tag.",
                param="response_format.type",
            )


def _check(structured: StructuredOutputs) -> StructuredOutputs:
    given = [kind for kind in _KINDS if getattr(structured, kind) is not None]
    if len(given) != 1:
        raise InvalidRequest(
            f"One output constraint is taken, of {', '.join(_KINDS)}; given: {', '.join(given) or 'none'}.",
            param="structured_outputs",
        )
    if structured.choice is not None and not structured.choice:
        raise InvalidRequest("`structured_outputs.choice` needs at least one text.", param="structured_outputs.choice")
    if structured.json is not None and not isinstance(structured.json, (dict, str, bool)):
        raise InvalidRequest("A JSON schema is an object or its JSON text.", param="structured_outputs.json")
    return structured


def _check_structural_tag(tag: str | None) -> None:
    if tag is None:
        return
    param = "structured_outputs.structural_tag"
    try:
        value = msgspec.json.decode(tag)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise InvalidRequest(f"`{param}` must be JSON text.", param=param) from None
    _check_tag_shape(value, param)


def _check_tag_shape(value: Any, param: str) -> None:
    """XGrammar's structural tag has a ``format``; the older form ``structures`` and ``triggers``."""
    if isinstance(value, Mapping) and value.get("type") == "structural_tag":
        older = isinstance(value.get("structures"), list) and isinstance(value.get("triggers"), list)
        if older or isinstance(value.get("format"), Mapping):
            return
    raise InvalidRequest(
        "A structural tag has the type structural_tag and a `format` object, or `structures` and `triggers`.",
        param=param,
    )
