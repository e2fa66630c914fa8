from typing import Any

import jsonschema
import pytest

from app.errors import InvalidRequest
from app.parsing.format import Elements, JsonCalls, Section, ToolFormat
from app.protocol.generate import StructuredOutputs
from app.rendering.conversation import Conversation, Tool
from app.rendering.request import NamedTool, RenderInput, SamplingRequest
from app.rendering.structural import calls_schema, constrain

TIDE = Tool("tide", parameters={"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]})
NOW = Tool("now")
ELEMENTS = Section(
    open="<t>", body=Elements(heads=("<{name}>",), parameters=("<{key}>",), parameter_close=("</>",), close=())
)
FREE = ToolFormat(name="free", sections=(ELEMENTS,))
LISTED = ToolFormat(
    name="listed", sections=(Section(open="[CALLS]", body=JsonCalls()),), forced_keys=("name", "arguments")
)


def constraint(choice: Any, format: ToolFormat | None = FREE, **more: Any) -> StructuredOutputs | None:
    given = {"dialect": "chat", "request_id": "r", "conversation": Conversation(messages=[], tools=[TIDE, NOW])} | more
    return constrain(RenderInput(**given, tool_choice=choice), format)


def schema(choice: Any, format: ToolFormat | None = FREE, **more: Any) -> Any:
    found = constraint(choice, format, **more)
    assert found is not None
    return found.json


def fits(value: Any, schema: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def test_nothing_is_constrained_without_need() -> None:
    assert constraint("auto") is None
    assert constraint("none") is None
    assert constraint(None) is None
    assert constraint("required", conversation=Conversation(messages=[])) is None


def test_what_the_request_asks_for_is_kept() -> None:
    asked = SamplingRequest(structured_outputs=StructuredOutputs(json_object=True))
    assert constraint("auto", sampling=asked) == asked.structured_outputs
    assert constraint("required", sampling=asked) != asked.structured_outputs


def test_a_required_call_is_one_of_the_tools() -> None:
    wanted = schema("required")
    tide, now = {"name": "tide", "parameters": {"port": "Oslo"}}, {"name": "now", "parameters": {}}
    assert fits([tide], wanted)
    assert fits([tide, now], wanted)
    assert not fits([], wanted)
    assert not fits([{"name": "tide", "parameters": {}}], wanted)
    assert not fits([{"name": "sun", "parameters": {}}], wanted)


def test_a_named_call_is_its_arguments() -> None:
    assert schema(NamedTool("tide")) == TIDE.parameters
    assert schema(NamedTool("now")) == {"type": "object", "properties": {}}


def test_a_format_of_json_lists_has_its_own_keys() -> None:
    tide = {"name": "tide", "arguments": {"port": "Oslo"}}
    assert fits([tide, tide], schema("required", LISTED))
    assert fits([tide], schema(NamedTool("tide"), LISTED))
    assert not fits([tide, tide], schema(NamedTool("tide"), LISTED))
    assert not fits([{"name": "now", "arguments": {}}], schema(NamedTool("tide"), LISTED))
    assert constraint("required", LISTED, dialect="responses") is None


def test_definitions_move_to_the_root() -> None:
    port = {"$defs": {"Port": {"enum": ["Oslo"]}}, "type": "object", "properties": {"port": {"$ref": "#/$defs/Port"}}}
    wanted = calls_schema([Tool("a", parameters=port), Tool("b", parameters=port)], "name", "parameters")
    assert fits([{"name": "b", "parameters": {"port": "Oslo"}}], wanted)
    assert not fits([{"name": "b", "parameters": {"port": "Rome"}}], wanted)
    other = {"$defs": {"Port": {"enum": ["Rome"]}}}
    with pytest.raises(InvalidRequest) as caught:
        calls_schema([Tool("a", parameters=port), Tool("b", parameters=other)], "name", "parameters")
    assert caught.value.param == "tools"
