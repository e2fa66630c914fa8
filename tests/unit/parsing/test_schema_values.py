"""Bare text and a schema to the JSON value it stands for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.parsing.schema_values import ANY, STRING, Schemas, as_json, half_json, quote


def types(schema, **root):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": schema}, **root}}}
    return Schemas([tool]).types("f", "x")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"type": "integer"}, {"type": "array"}]}, {"integer", "array"}),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, {"string"}),
        ({"enum": ["a", "b"]}, {"string"}),
        ({"enum": ["a", 1, None]}, {"string", "integer", "null"}),
        ({"const": True}, {"boolean"}),
        ({"properties": {}}, {"object"}),
        ({"items": {}}, {"array"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"$ref": "#/$defs/Unit"}, {"string"}),
        ({}, set(ANY)),
        (True, set(ANY)),
    ],
)
def test_types_that_a_schema_allows(schema, expected):
    assert types(schema, **{"$defs": {"Unit": {"enum": ["c", "f"]}}}) == expected


def test_a_reference_to_itself_ends():
    assert types({"$ref": "#/properties/x"}) == ANY


@pytest.mark.parametrize(
    ("text", "allowed", "expected"),
    [
        ("Oslo", STRING, '"Oslo"'),
        ("7", STRING, '"7"'),
        ("7", ANY, "7"),
        (" 7 ", {"integer"}, "7"),
        ("7.0", {"integer"}, "7.0"),
        ("7.5", {"integer"}, '"7.5"'),
        ("1e3", {"number"}, "1e3"),
        ("True", {"boolean"}, "true"),
        ("None", {"string", "null"}, "null"),
        ("None", STRING, '"None"'),
        ("null", {"string", "null"}, "null"),
        ("[1,  2]", {"array"}, "[1,  2]"),
        ("['a', True]", {"array"}, '["a", true]'),
        ("{'a': 1}", {"object"}, '{"a": 1}'),
        ("{'a': 1}", {"array"}, "\"{'a': 1}\""),
        ("NaN", {"number"}, '"NaN"'),
        ('say "hi"\n上海', STRING, '"say \\"hi\\"\\n上海"'),
        ("", ANY, '""'),
    ],
)
def test_values(text, allowed, expected):
    assert as_json(text, frozenset(allowed)) == expected


@given(st.text(st.characters(exclude_categories=("Cs",))), st.sets(st.sampled_from(sorted(ANY)), min_size=1))
def test_every_text_becomes_json(text, allowed):
    json.loads(as_json(text, frozenset(allowed)))
    assert json.loads(f'"{quote(text)}"') == text


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text("ab 1é", max_size=4), st.lists))
def test_json_of_an_allowed_type_keeps_its_spelling(value):
    text = json.dumps(value, ensure_ascii=False)
    assert as_json(text, ANY) == text


@given(st.sampled_from(["[1, 2, 3]", '{"a": [true]}', "true", "True", "null", "None", "-12.5", "false"]), st.data())
def test_half_a_value_begins_the_whole_one(text, data):
    half = text[: data.draw(st.integers(1, len(text)))]
    assert as_json(text, ANY).startswith(half_json(half, ANY))
