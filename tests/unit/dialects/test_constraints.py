import json

import pytest

from app.protocol.generate import StructuredOutputs
from tests.unit.dialects.bodies import chat, refused, responses

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def constraint(**body: object) -> StructuredOutputs | None:
    return chat(**body).sampling.structured_outputs


def test_response_formats() -> None:
    assert constraint(response_format={"type": "text"}) is None
    assert constraint(response_format={"type": "json_object"}) == StructuredOutputs(json_object=True)
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    assert constraint(response_format=wanted) == StructuredOutputs(json=SCHEMA)


def test_a_structural_tag_is_passed_on_whole() -> None:
    tag = {"type": "structural_tag", "format": {"type": "any_text"}, "note": "ü"}
    asked = constraint(response_format=tag)
    assert asked is not None
    assert json.loads(asked.structural_tag or "") == tag
    older = {"type": "structural_tag", "structures": [], "triggers": ["<"]}
    assert constraint(structured_outputs={"structural_tag": json.dumps(older)}) is not None


@pytest.mark.parametrize(
    ("format", "param"),
    [
        ({}, "type"),
        ({"type": "xml"}, "type"),
        ({"type": "json_schema"}, "json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": "{}"}}, "json_schema.schema"),
    ],
)
def test_wrong_formats(format: dict[str, object], param: str) -> None:
    refused(chat, f"response_format.{param}", response_format=format)


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({}, ""),
        ({"json_object": False}, ""),
        ({"regex": "a", "choice": ["b"]}, ""),
        ({"choice": []}, ".choice"),
        ({"json": 3}, ".json"),
        ({"structural_tag": "{"}, ".structural_tag"),
        ({"structural_tag": "[]"}, ".structural_tag"),
        ({"structural_tag": '{"type": "structural_tag"}'}, ".structural_tag"),
    ],
)
def test_one_constraint_is_taken(asked: dict[str, object], param: str) -> None:
    refused(chat, f"structured_outputs{param}", structured_outputs=asked)


def test_the_response_format_is_laid_onto_options() -> None:
    options = {"disable_any_whitespace": True, "whitespace_pattern": " "}
    asked = constraint(structured_outputs=options, response_format={"type": "json_object"})
    assert asked == StructuredOutputs(json_object=True, disable_any_whitespace=True, whitespace_pattern=" ")
    refused(chat, "structured_outputs", structured_outputs={"regex": "a"}, response_format={"type": "json_object"})


def test_private_keys_are_the_engines_own() -> None:
    asked = constraint(structured_outputs={"regex": "a", "_backend": "evil", "_backend_was_auto": True})
    assert asked == StructuredOutputs(regex="a")


def test_text_formats_of_responses() -> None:
    def asked(**body: object) -> StructuredOutputs | None:
        return responses(**body).sampling.structured_outputs

    assert asked(text={"format": {"type": "text"}, "verbosity": "low"}) is None
    assert asked(text={"format": {"type": "json_object"}}) == StructuredOutputs(json_object=True)
    format = {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}
    assert asked(text={"format": format}) == StructuredOutputs(json=SCHEMA)
    assert asked(structured_outputs={"regex": "a"}) == StructuredOutputs(regex="a")
    refused(responses, "text.format.type", text={"format": {"type": "xml"}})
    refused(responses, "text.format.schema", text={"format": {"type": "json_schema", "name": "a"}})
    both = {"text": {"format": format}, "structured_outputs": {"regex": "a"}}
    refused(responses, "structured_outputs", **both)
