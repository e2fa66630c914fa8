"""Elements within elements to JSON, by the schema (MiniMax M3's arguments)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.parsing.element_tree import DEPTH_LIMIT, Tags, tree_json
from app.parsing.schema_values import Schemas

NS = "]<]minimax[>["
TAGS = Tags(NS)
PARAMETERS = {
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}},
    "properties": {
        "name": {"type": "string"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "extra": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
SCHEMAS = Schemas([{"name": "order", "parameters": PARAMETERS}])


def element(name: str, inside: str) -> str:
    return f"{NS}<{name}>{inside}{NS}</{name}>"


def read(argument: str, text: str) -> object:
    return json.loads(tree_json(text, TAGS, SCHEMAS.parameters("order").property(argument)))


LINE = element("item", element("sku", "007") + element("count", "2"))


@pytest.mark.parametrize(
    ("argument", "text", "value"),
    [
        ("name", "42", "42"),
        ("name", "<b>bold</b>", "<b>bold</b>"),
        ("lines", LINE + "\n" + LINE, [{"sku": "007", "count": 2}] * 2),
        ("lines", "", []),
        ("tags", element("item", "1"), ["1"]),
        ("tags", "null", None),
        ("extra", element("a", "1") + element("b", "2"), {"a": "1", "b": "2"}),
        ("extra", "", {}),
        ("extra", element("a", "1") + element("a", "2"), {"a": ["1", "2"]}),
        ("extra", "and " + element("a", "1"), {"a": "1", "$text": "and "}),
        ("unknown", element("item", "1") + element("item", "x"), {"item": [1, "x"]}),
        ("lines", '[{"sku": "1"}]', [{"sku": "1"}]),
    ],
)
def test_reads(argument: str, text: str, value: object) -> None:
    assert read(argument, text) == value


@pytest.mark.parametrize("text", [f"{NS}<a>1", f"{NS}</a>", f"{NS}<a>1{NS}</b>", f"a {NS} b", element("a", "1") + NS])
def test_what_is_not_well_formed_is_text(text: str) -> None:
    assert read("unknown", text) == text


def test_depth_is_bounded() -> None:
    text = "1"
    for _ in range(DEPTH_LIMIT + 1):
        text = element("a", text)
    assert read("unknown", text) == text


@given(
    st.recursive(
        st.text("ab7 \n", min_size=1),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
        max_leaves=8,
    )
)
def test_a_tree_of_words_comes_back(value: object) -> None:
    def write(inside: object) -> str:
        if isinstance(inside, dict):
            return "".join(element(key, write(child)) for key, child in inside.items())
        return str(inside)

    def typed(inside: object) -> dict[str, object]:
        if isinstance(inside, dict):
            return {"type": "object", "properties": {key: typed(child) for key, child in inside.items()}}
        return {"type": "string"}

    schema = Schemas([{"name": "f", "parameters": {"properties": {"x": typed(value)}}}]).parameters("f").property("x")
    assert json.loads(tree_json(write(value), TAGS, schema)) == value
