"""Structural tags of every format: xgrammar's own where it knows the family, and grammars that compile and hold."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.parsing.compose import make_parser
from app.parsing.conformance import message_of
from app.parsing.format import Constraints, HarmonyMessages, ToolFormat
from app.parsing.sample_tokenizer import SampleTokenizer
from app.protocol.generate import StructuredOutputs
from app.registry import Registry
from app.rendering.conversation import Conversation, Tool
from app.rendering.request import NamedTool, RenderInput, SamplingRequest
from app.rendering.structural import constrain
from tests.unit.parsing.outputs import calls

xgrammar = pytest.importorskip("xgrammar")

FAMILIES = {
    "llama3_json": "llama",
    "llama4_json": "llama",
    "deepseek_v3": "deepseek_r1",
    "deepseek_v31": "deepseek_v3_1",
    "deepseek_v32": "deepseek_v3_2",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v41": "deepseek_v4_1",
    "kimi_k2": "kimi",
    "mimo": "mimo",
    "qwen3_coder": "qwen_3_coder",
    "step3p5": "qwen_3_coder",
}
"""Formats that xgrammar writes tags for just as vLLM does, under xgrammar's name."""

names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,12}", fullmatch=True)
keys = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<>"), min_size=1, max_size=8)
leaves = st.one_of(
    st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]),
    st.just({"type": "string", "enum": ["a", 'ø " \\']}),
    st.just({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
    st.just({"type": ["string", "integer"]}),
    st.just({"$ref": "#/$defs/Port"}),
    st.just({}),
)
properties = st.dictionaries(
    keys,
    st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(lambda items: {"type": "array", "items": items}),
            st.dictionaries(keys, inner, min_size=1, max_size=2).map(
                lambda held: {"type": "object", "properties": held}
            ),
        ),
        max_leaves=4,
    ),
    max_size=3,
)
schemas = properties.map(
    lambda held: {"type": "object", "properties": held, "required": [*held][:1], "$defs": {"Port": {"type": "integer"}}}
)
tools = st.lists(
    st.builds(Tool, names, st.none(), st.none() | schemas, st.sampled_from([None, False, True])),
    min_size=1,
    max_size=3,
    unique_by=lambda tool: tool.name,
)
choices = st.sampled_from(["auto", "required", "named"])


@pytest.fixture(scope="module")
def formats(registry: Registry) -> dict[str, ToolFormat]:
    """All tool formats that have tags of their own, by name."""
    found = {}
    for name, format in registry.find("isthmus.formats").items():
        if name.startswith("tool."):
            harmony = any(isinstance(section.body, HarmonyMessages) for section in format.sections)
            if format.constraints is not None or harmony:
                found[format.name] = format
    return found


def request(tools: list[Tool], choice: str, **more: Any) -> RenderInput:
    wanted: Any = NamedTool(tools[0].name) if choice == "named" else choice
    conversation = Conversation(messages=[], tools=tools)
    return RenderInput(dialect="chat", request_id="r", conversation=conversation, tool_choice=wanted, **more)


def tag_of(format: ToolFormat, tools: list[Tool], choice: str, **more: Any) -> Any:
    found = constrain(request(tools, choice, **more), format)
    return None if found is None or found.structural_tag is None else json.loads(found.structural_tag)


def expected(model: str, tools: list[Tool], choice: str, parallel: bool) -> Any:
    """xgrammar's own answer for tools whose strictness is spelled out, as vLLM asks it."""
    given = []
    for tool in tools:
        function: dict[str, Any] = {"name": tool.name, "strict": tool.strict is True}
        if tool.parameters is not None:
            function["parameters"] = tool.parameters
        given.append({"type": "function", "function": function})
    wanted = {"type": "function", "function": {"name": tools[0].name}} if choice == "named" else choice
    written = xgrammar.get_model_structural_tag(
        model, given, wanted, reasoning="disabled", parallel_tool_calls=parallel
    )
    return json.loads(json.dumps(written.model_dump()))


@pytest.mark.parametrize("name", FAMILIES)
@given(tools=tools, choice=choices, parallel=st.booleans())
@settings(max_examples=25, deadline=None)
def test_tags_are_those_of_xgrammar(
    formats: dict[str, ToolFormat], name: str, tools: list[Tool], choice: str, parallel: bool
) -> None:
    got = tag_of(formats[name], tools, choice, parallel_tool_calls=parallel)
    if choice == "auto" and parallel and not any(tool.strict for tool in tools):
        assert got is None
    else:
        assert got == expected(FAMILIES[name], tools, choice, parallel)


@given(tools=tools, choice=choices, parallel=st.booleans())
@settings(max_examples=25, deadline=None)
def test_strict_calls_of_glm_are_those_of_xgrammar(
    formats: dict[str, ToolFormat], tools: list[Tool], choice: str, parallel: bool
) -> None:
    strict = [Tool(tool.name, parameters=tool.parameters, strict=True) for tool in tools]
    got = tag_of(formats["glm47"], strict, choice, parallel_tool_calls=parallel)
    assert got == expected("glm_4_7", strict, choice, parallel)


@given(tools=tools, choice=choices)
@settings(max_examples=25, deadline=None)
def test_hermes_has_xgrammars_spelling_and_one_without_newlines(
    formats: dict[str, ToolFormat], tools: list[Tool], choice: str
) -> None:
    strict = [Tool(tool.name, parameters=tool.parameters, strict=True) for tool in tools]
    got = tag_of(formats["hermes"], strict, choice)["format"]["tags"]
    known = expected("qwen_3", strict, choice, True)["format"]
    assert got[::2] == (known["tags"] if choice != "named" else [known])
    tight = [tag | {"begin": tag["begin"].replace("\n", ""), "end": tag["end"].replace("\n", "")} for tag in got[::2]]
    assert got[1::2] == tight


@given(tools=tools, choice=choices, parallel=st.booleans(), output=st.booleans())
@settings(max_examples=20, deadline=None)
def test_every_tag_compiles(
    formats: dict[str, ToolFormat], tools: list[Tool], choice: str, parallel: bool, output: bool
) -> None:
    asked = StructuredOutputs(json={"type": "object"}) if output else None
    for format in formats.values():
        found = constrain(
            request(tools, choice, parallel_tool_calls=parallel, sampling=SamplingRequest(structured_outputs=asked)),
            format,
        )
        if found is not None and found.structural_tag is not None:
            assert xgrammar.Grammar.from_structural_tag(found.structural_tag) is not None, format.name


PORT = Tool(
    "tide",
    parameters={
        "type": "object",
        "properties": {"port": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["port", "days"],
    },
    strict=True,
)
NOW = Tool("now", parameters={"type": "object", "properties": {}}, strict=True)
ARGUMENTS = '{"port": "Oslo", "days": 2}'
_QWEN = "<function=tide>\n<parameter=port>\nOslo\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>"
_INVOKE = (
    '<invoke name="tide">\n<parameter name="port">Oslo</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n'
)


def _dsml(calls: str, space: str = "") -> str:
    """Two typed parameters in DeepSeek's elements."""
    d = "｜DSML｜" + space
    values = (
        f'<{d}parameter name="port" string="true">Oslo</{d}parameter>\n'
        f'<{d}parameter name="days" string="false">2</{d}parameter>\n'
    )
    return f'\n\n<｜DSML｜{calls}>\n<{d}invoke name="tide">\n{values}</{d}invoke>\n</｜DSML｜{calls}>'


OUTPUTS = {
    "hermes": f'<tool_call>\n{{"name": "tide", "arguments": {ARGUMENTS}}}\n</tool_call>',
    "longcat": f'<longcat_tool_call>{{"name": "tide", "arguments": {ARGUMENTS}}}</longcat_tool_call>',
    "llama3_json": f'{{"name": "tide", "parameters": {ARGUMENTS}}}',
    "llama4_json": f'{{"name": "tide", "parameters": {ARGUMENTS}}}',
    "qwen3_coder": f"<tool_call>\n{_QWEN}\n</tool_call>",
    "step3p5": f"<tool_call>\n{_QWEN}\n</tool_call>",
    "mimo": "<tool_call><function=tide><parameter=port>Oslo</parameter><parameter=days>2</parameter>"
    "</function></tool_call>",
    "plamo3": "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>tide"
    "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
    f"{ARGUMENTS}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>",
    "glm45": "<tool_call>tide\n<arg_key>port</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
    "<arg_value>2</arg_value>\n</tool_call>",
    "glm47": "<tool_call>tide<arg_key>port</arg_key><arg_value>Oslo</arg_value><arg_key>days</arg_key>"
    "<arg_value>2</arg_value></tool_call>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.tide:0<|tool_call_argument_begin|>"
    f"{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek_v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>tide\n```json\n"
    f"{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v31": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tide<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜>",
    "deepseek_v32": _dsml("function_calls"),
    "deepseek_v4": _dsml("tool_calls"),
    "deepseek_v41": _dsml(" calls", " "),
    "minimax_m2": f"\n<minimax:tool_call>\n{_INVOKE}</minimax:tool_call>",
    "openai": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.tide "
    f"<|constrain|>json<|message|>{ARGUMENTS}",
}
"""What models write for a call of one tool, and each grammar must let them write."""


def accepts(format: ToolFormat, choice: str, text: str, tools: list[Tool]) -> bool:
    from xgrammar.testing import _is_grammar_accept_string

    tag = tag_of(format, tools, choice)
    return bool(_is_grammar_accept_string(xgrammar.Grammar.from_structural_tag(json.dumps(tag)), text))


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_grammar_takes_what_the_model_writes_and_the_parser_reads(
    formats: dict[str, ToolFormat], name: str
) -> None:
    format, text = formats[name], OUTPUTS[name]
    for choice in ("required", "named"):
        assert accepts(format, choice, text, [PORT, NOW])
    assert accepts(format, "auto", text if name == "openai" else f"Let me see.{text}", [PORT, NOW])
    assert not accepts(format, "required", text.replace("tide", "tides"), [PORT, NOW])
    assert not accepts(format, "named", text, [NOW, PORT])
    assert not accepts(format, "required", "It is two o'clock.", [PORT, NOW])
    function = {"name": PORT.name, "parameters": PORT.parameters}
    tokenizer = SampleTokenizer()
    parser = make_parser(
        format, None, tokenizer, tools=[{"type": "function", "function": function}], tool_choice="required"
    )
    message = message_of(parser, [tokenizer.pieces(text)], {})
    assert [(name, json.loads(arguments)) for name, arguments in calls(message)] == [("tide", json.loads(ARGUMENTS))]


def test_every_way_to_constrain_has_an_output_here(formats: dict[str, ToolFormat]) -> None:
    def pieces(name: str) -> Constraints | None:
        found = formats[name].constraints
        return msgspec.structs.replace(found, always=False) if found is not None else None

    tried = [pieces(name) for name in OUTPUTS]
    assert [name for name in formats if pieces(name) not in tried] == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_grammar_holds_strict_arguments_to_their_schema(formats: dict[str, ToolFormat], name: str) -> None:
    wrong = OUTPUTS[name].replace("2", '"soon"' if ARGUMENTS in OUTPUTS[name] else "soon")
    assert wrong != OUTPUTS[name]
    assert not accepts(formats[name], "required", wrong, [PORT])
