"""Outputs of engines that a JSON schema holds to a tool choice, for formats that have no structural tags."""

import re

import msgspec
import pytest

from app.parsing.compose import make_parser
from app.parsing.conformance import message_of
from app.parsing.sample_tokenizer import SampleTokenizer
from tests.unit.parsing.outputs import calls, load

TOOLS = ({"type": "function", "function": {"name": "f", "parameters": {}}},)
NAMED = {"type": "function", "function": {"name": "f"}}


def read(text, format, choice, size):
    untagged = msgspec.structs.replace(load("tool", format), constraints=None)
    tokenizer = SampleTokenizer()
    machine = make_parser(untagged, None, tokenizer, tools=TOOLS, tool_choice=choice)
    pieces = tokenizer.pieces(text)
    return message_of(machine, [pieces[at : at + size] for at in range(0, len(pieces), size)], {})


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("format", ["hunyuan_a13b", "pythonic", "internlm", "xlam", "llama3_json"])
def test_json_of_no_format_is_read_where_it_was_forced(format, size):
    listed = '[{"name": "f", "parameters": {"a": 1}}, {"name": "f", "parameters": {}}]'
    assert calls(read(listed, format, "required", size)) == [("f", '{"a": 1}'), ("f", "{}")]
    assert calls(read('{"a": [1]}', format, NAMED, size)) == [("f", '{"a": [1]}')]


def test_only_at_the_start_of_content():
    message = read('Words.\n{"a": [1]}', "internlm", NAMED, 1)
    assert (message.content, message.calls) == ('Words.\n{"a": [1]}', [])
    assert read('{"a": [1]}', "internlm", "auto", 1).calls == []


TAGGED = {
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{"a": "x"}<|tool_call_end|><|tool_calls_section_end|>',
    "glm45": "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>"
    '{"a": "x"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
}


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("format", TAGGED)
def test_a_forced_call_is_read_however_its_markers_are_spelled(format, size):
    """A grammar knows text and no tokens, so a model held to it may spell a marker in ordinary tokens."""
    text = TAGGED[format]
    tokenizer = SampleTokenizer(sorted(set(re.findall("<[^>]+>", text))))
    ordinary = [(ord(piece), piece) for piece in text]
    chunks = [ordinary[at : at + size] for at in range(0, len(ordinary), size)]
    assert len(tokenizer.pieces(text)) < len(ordinary)
    for choice in ("required", NAMED):
        machine = make_parser(load("tool", format), None, tokenizer, tools=TOOLS, tool_choice=choice)
        assert calls(message_of(machine, chunks, {})) == [("f", '{"a": "x"}')]
        assert calls(message_of(machine, [tokenizer.pieces(text)], {})) == [("f", '{"a": "x"}')]
