"""Which constraint a request gets: tools, tool choice, strictness and output constraints taken together."""

import json
from typing import Any

import pytest

from app.errors import InvalidRequest
from app.parsing.format import ToolFormat
from app.protocol.generate import StructuredOutputs
from app.rendering.conversation import Conversation, Tool
from app.rendering.request import NamedTool, RenderInput, SamplingRequest
from app.rendering.structural import constrain
from app.rendering.xgrammar_limits import holds_fully
from plugins.glm.formats import GLM45, GLM47
from plugins.harmony.formats import OPENAI, OPENAI_GPTOSS
from plugins.ling.formats import LING3
from plugins.qwen.formats import HERMES

PORT = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
STRICT, FREE = Tool("tide", parameters=PORT, strict=True), Tool("now", parameters=PORT)
OBJECT = StructuredOutputs(json={"type": "object"})


def constraint(
    format: ToolFormat | None, choice: Any = "auto", *, tools: Any = (FREE,), asked: Any = None, **more: Any
) -> StructuredOutputs | None:
    sampling = SamplingRequest(structured_outputs=asked)
    given = RenderInput(
        dialect="chat",
        request_id="r",
        conversation=Conversation(messages=[], tools=list(tools)),
        tool_choice=choice,
        sampling=sampling,
        **more,
    )
    return constrain(given, format)


def node(*args: Any, **more: Any) -> Any:
    found = constraint(*args, **more)
    assert found is not None and found.structural_tag is not None
    tag = json.loads(found.structural_tag)
    assert tag["type"] == "structural_tag"
    return tag["format"]


def arguments(tag: Any) -> Any:
    return tag["content"]["json_schema"]


def test_auto_is_held_only_where_something_asks_for_it() -> None:
    assert constraint(HERMES) is None
    assert constraint(HERMES, None) is None
    assert node(HERMES, tools=[STRICT])["type"] == "triggered_tags"
    assert node(HERMES, None, tools=[STRICT]) == node(HERMES, tools=[STRICT])
    assert node(HERMES, parallel_tool_calls=False)["stop_after_first"] is True
    assert constraint(HERMES, "none", tools=[STRICT]) is None
    assert node(GLM47)["type"] == "triggered_tags", "GLM is always held"
    assert constraint(LING3) is None, "Ling, of the same syntax, isn't"


def test_only_strict_tools_have_their_arguments_checked() -> None:
    tags = node(HERMES, tools=[STRICT, FREE])["tags"]
    assert [arguments(tag) for tag in tags] == [PORT, PORT, True, True]
    assert arguments(node(HERMES, "required", tools=[Tool("f", strict=True)])["tags"][0]) is True


def test_a_choice_decides_how_many_calls_there_are() -> None:
    required = node(HERMES, "required", tools=[STRICT, FREE])
    assert (required["type"], required["at_least_one"], required["stop_after_first"]) == (
        "tags_with_separator",
        True,
        False,
    )
    assert node(HERMES, "required", parallel_tool_calls=False)["stop_after_first"] is True
    named = node(HERMES, NamedTool("now"), tools=[STRICT, FREE])
    assert named["stop_after_first"] is True
    assert all('"now"' in tag["begin"] for tag in named["tags"])


def test_an_output_constraint_stands_beside_the_calls() -> None:
    assert constraint(HERMES, asked=OBJECT) == OBJECT
    assert constraint(HERMES, asked=OBJECT, parallel_tool_calls=False) == OBJECT
    assert constraint(HERMES, "none", tools=[STRICT], asked=OBJECT) == OBJECT
    calls, output = node(HERMES, tools=[STRICT], asked=OBJECT)["elements"]
    assert calls == node(HERMES, "required", tools=[STRICT])
    assert output["json_schema"] == {"type": "object"}
    for choice in ("required", NamedTool("now")):
        assert constraint(HERMES, choice, asked=OBJECT) == constraint(HERMES, choice), "a call must come"


@pytest.mark.parametrize(
    "asked",
    [
        {"json_object": True},
        {"json": '{"type": "integer"}'},
        {"regex": "a+"},
        {"choice": ["a", "b"]},
        {"grammar": 'root ::= "a"'},
        {"structural_tag": '{"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}'},
        {"structural_tag": '{"type": "structural_tag", "structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}], '
         '"triggers": ["<a"]}'},
    ],
)  # fmt: skip
@pytest.mark.parametrize("format", [HERMES, OPENAI], ids=["hermes", "openai"])
def test_every_kind_of_output_constraint_can_stand_beside_calls(format: ToolFormat, asked: dict[str, Any]) -> None:
    xgrammar = pytest.importorskip("xgrammar")
    found = constraint(format, tools=[STRICT], asked=StructuredOutputs(**asked))
    assert found is not None and found.structural_tag is not None
    assert len(json.loads(found.structural_tag)["format"]["elements"]) == 2
    assert xgrammar.Grammar.from_structural_tag(found.structural_tag) is not None


@pytest.mark.parametrize("asked", [{"grammar": "start: /a/"}, {"json": {"type": "number", "multipleOf": 2}}])
def test_what_a_tag_cannot_hold_stays_alone(asked: dict[str, Any]) -> None:
    given = StructuredOutputs(**asked)
    assert constraint(HERMES, tools=[STRICT], asked=given) == given


def test_harmony_puts_the_output_on_the_final_channel() -> None:
    held = node(OPENAI, tools=[], asked=OBJECT)
    thought, final = held["elements"]
    assert thought["type"] == "optional"
    assert [tag["begin"] for tag in final["elements"]] == [
        "<|channel|>final json<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
    ]
    pattern = node(OPENAI, tools=[], asked=StructuredOutputs(regex="[0-9]+", disable_any_whitespace=True))
    assert pattern["elements"][1]["begin"] == "<|channel|>final<|message|>"
    assert pattern["elements"][1]["content"] == {"type": "regex", "pattern": "[0-9]+"}
    kept = constraint(OPENAI, tools=[], asked=StructuredOutputs(regex="a", disable_any_whitespace=True))
    assert kept is not None and kept.disable_any_whitespace and kept.regex is None
    alone = RenderInput(
        dialect="chat",
        request_id="r",
        conversation=Conversation(messages=[]),
        sampling=SamplingRequest(structured_outputs=OBJECT),
    )
    found = constrain(alone, None, OPENAI_GPTOSS)
    assert found is not None and found.structural_tag is not None, "the reasoning format alone is Harmony too"


def test_harmony_may_answer_where_no_call_is_needed() -> None:
    def heads(held: Any) -> list[str]:
        return [tag["begin"] for tag in held["elements"][-1]["elements"]]

    needed, free = heads(node(OPENAI, "required")), heads(node(OPENAI, tools=[STRICT]))
    assert len(needed) == 12 and all("to=functions.now" in head for head in needed)
    assert len(free) == 15 and [head for head in free if "final" in head and "to=" not in head] == free[-3:]


def test_free_arguments_of_glm_are_held_to_their_keys_and_basic_types() -> None:
    schema = {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "n": {"type": "integer", "minimum": 3},
            "e": {"enum": ["a", 1, None]},
            "u": {"type": ["string", "null"]},
            "x": {"anyOf": [{"type": "string"}]},
        },
    }
    [tag] = node(GLM47, tools=[Tool("f", parameters=schema)])["tags"]
    assert (tag["begin"], tag["end"]) == ("<tool_call>f", "</tool_call>")
    pairs = tag["content"]["content"]["elements"]
    assert [pair["elements"][0]["value"] for pair in pairs] == [
        f"<arg_key>{key}</arg_key><arg_value>" for key in schema["properties"]
    ]
    text, number, choice, union, other = (pair["elements"][1] for pair in pairs)
    assert text["type"] == other["type"] == "any_text" and "<arg_key>" in text["excludes"]
    assert number["json_schema"] == {"type": "integer"}
    assert [value["value"] for value in choice["elements"]] == ["a", "1", "null"]
    assert [value.get("json_schema") for value in union["elements"]] == [{"type": "null"}, None]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "object", "properties": {}},
        PORT | {"additionalProperties": True},
        PORT | {"anyOf": [{}]},
        {"$ref": "#/$defs/A", "$defs": {"A": PORT}},
    ],
)
def test_free_arguments_of_glm_whose_keys_cannot_be_told_are_free(schema: Any) -> None:
    [tag] = node(GLM45, tools=[Tool("f", parameters=schema)])["tags"]
    assert tag["content"]["json_schema"] is True and tag["content"]["style"] == "glm_xml"


def test_glm_writes_calls_alone_unless_all_are_strict() -> None:
    assert node(GLM47, "required")["type"] == "tags_with_separator"
    assert node(GLM47, "required", tools=[STRICT, FREE])["type"] == "tags_with_separator"
    assert node(GLM47, "required", tools=[STRICT])["type"] == "triggered_tags"
    assert node(GLM47, NamedTool("tide"), tools=[STRICT, FREE])["type"] == "tag"
    assert node(GLM47, NamedTool("now"), tools=[STRICT, FREE])["stop_after_first"] is True


def test_a_schema_too_deep_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    with pytest.raises(InvalidRequest) as caught:
        constraint(HERMES, tools=[Tool("f", parameters=deep, strict=True)])
    assert caught.value.param == "tools"
    while deep:
        deep = deep.pop("items")


@pytest.mark.parametrize(
    ("schema", "held"),
    [
        ({"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}, True),
        ({"type": "string", "format": "colour"}, False),
        ({"type": "string", "pattern": "a", "maxLength": 2}, False),
        ({"type": ["null", "integer"], "multipleOf": 2}, False),
        ({"anyOf": [{"type": "array", "uniqueItems": True}]}, False),
        ({"type": "object", "propertyNames": {"pattern": "a"}}, True),
        ({"type": "object", "propertyNames": {}, "properties": {}}, False),
        ({"type": "object", "patternProperties": {"a": {}, "b": {}}}, False),
        ({"allOf": [{"type": "object"}]}, True),
        ({"allOf": [{}, {}]}, False),
        (True, True),
    ],
)
def test_what_xgrammar_passes_over(schema: Any, held: bool) -> None:
    assert holds_fully(schema) is held
