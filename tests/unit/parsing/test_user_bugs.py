"""Faults that users of other servers reported, each as one test: tool calls and reasoning (B1 to B33)."""

import json

import pytest

from app.parsing.conformance import fold
from tests.unit.parsing.outputs import calls, load, parser, read

SIZES = (None, 1, 2, 3, 5)
CITY = ({"name": "f", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},)
KIMI = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
KIMI_CALL = "<|tool_call_begin|>functions.{}<|tool_call_argument_begin|>{}<|tool_call_end|>"


@pytest.mark.parametrize("size", SIZES)
def test_b1_llama_calls_do_not_depend_on_grouping(size):
    text = '{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {"b": "; {"}}'
    assert calls(read(text, "llama3_json", size=size)) == [("f", '{"a": 1}'), ("g", '{"b": "; {"}')]


@pytest.mark.parametrize("size", SIZES)
def test_b2_deepseek_call_in_one_delta(size):
    text = (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
        '{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    )
    assert calls(read(text, "deepseek_v3", size=size)) == [("f", '{"city": "Oslo"}')]


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_b3_three_invokes_cut_once(cut):
    invoke = '<invoke name="f{}"><parameter name="city">Oslo</parameter></invoke>\n'
    text = "<minimax:tool_call>\n" + "".join(invoke.format(i) for i in range(3)) + "</minimax:tool_call>"
    machine, tokenizer = parser("minimax_m2", tools=CITY)
    pieces = tokenizer.pieces(text)
    state = machine.start((), {})
    message = fold([*machine.feed(state, pieces[:cut]), *machine.feed(state, pieces[cut:]), *machine.finish(state)])
    assert calls(message) == [(f"f{i}", '{"city": "Oslo"}') for i in range(3)]


@pytest.mark.parametrize("size", SIZES)
def test_b4_kimi_end_and_next_begin_share_a_delta_and_arguments_are_long(size):
    long = json.dumps({"y": "z" * 9000})
    text = "ok" + KIMI.format(KIMI_CALL.format("f:0", '{"x":1}') + KIMI_CALL.format("g:1\n", long))
    message = read(text, "kimi_k2", size=size)
    assert message.content == "ok"
    assert calls(message) == [("f", '{"x":1}'), ("g", long)]


def test_b8_a_call_without_arguments_has_an_empty_object():
    assert calls(read('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', "hermes")) == [("now", "{}")]
    assert calls(read('<tool_call>{"name": "now"}</tool_call>', "hermes")) == [("now", "{}")]


@pytest.mark.parametrize("size", SIZES)
def test_b10_a_call_ends_reasoning(size):
    text = '<think>check<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    message = read(text, "hermes", "qwen3", size=size)
    assert (message.reasoning, calls(message)) == ("check", [("now", "{}")])


@pytest.mark.parametrize("size", SIZES)
def test_b11_the_template_opened_reasoning(size):
    message = read("a</think>b", None, "hunyuan_a13b", prompt="<|im_start|>assistant\n<think>\n", size=size)
    assert (message.reasoning, message.content) == ("a", "b")


@pytest.mark.parametrize("size", SIZES)
def test_b12_thinking_disabled_is_all_content(size):
    message = read("hello", "hermes", "qwen3", kwargs={"enable_thinking": False}, size=size)
    assert (message.reasoning, message.content) == ("", "hello")
    prompt = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    message = read("hello", "hermes", "qwen3", prompt=prompt, size=size)
    assert (message.reasoning, message.content) == ("", "hello")


def test_b14_required_reads_the_native_syntax():
    text = "<tool_call>\n<function=f>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"
    message = read(text, "qwen3_coder", tools=CITY, tool_choice="required")
    assert calls(message) == [("f", '{"city": "Oslo"}')]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("format", ["glm45", "glm47"])
def test_b16_b18_glm_without_arguments_and_with_a_cut_name(format, size):
    assert calls(read("<tool_call>now</tool_call>", format, size=size)) == [("now", "{}")]
    text = "<tool_call>run_in_terminal\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
    assert calls(read(text, format, size=size)) == [("run_in_terminal", '{"a": 1}')]


@pytest.mark.parametrize("size", SIZES)
def test_b19_mistral_arguments_and_no_leaking_controls(size):
    message = read('[TOOL_CALLS]add[ARGS]{"a":3}', "mistral", size=size)
    assert (message.content, calls(message)) == ("", [("add", '{"a":3}')])


def test_b20_mistral_ids_are_nine_characters_and_kimi_counts():
    assert load("tool", "mistral").call_ids == "alphanumeric9"
    text = KIMI.format(KIMI_CALL.format("f:0", "{}") + KIMI_CALL.format("f:1", "{}"))
    message = read(text, "kimi_k2", history_tool_calls=3)
    assert [native for _, _, native, _ in message.calls] == ["functions.f:3", "functions.f:4"]


@pytest.mark.parametrize("size", SIZES)
def test_b21_harmony_stray_text_is_content(size):
    text = "<|channel|>final<|message|>4<|end|> stray text <|channel|>final<|message|>5<|return|>"
    message = read(text, "openai", "openai_gptoss", size=size)
    assert message.content == "4 stray text\n5"
    assert read("plain", "openai", "openai_gptoss", prompt="<|start|>assistant", size=size).content == "plain"


@pytest.mark.parametrize("size", SIZES)
def test_b23_llama_calls_by_newline_and_prose_with_braces(size):
    one = '{"name": "f", "parameters": {"a": 1}}'
    assert len(read(f"{one};{one}", "llama3_json", size=size).calls) == 2
    assert len(read(f"{one}\n{one}", "llama3_json", size=size).calls) == 2
    message = read(f"{one}\nused {{search}}", "llama3_json", size=size)
    assert (message.content.strip(), len(message.calls)) == ("used {search}", 1)


@pytest.mark.parametrize("format", ["hermes", "llama3_json", "mistral", "pythonic"])
def test_b24_brackets_in_strings(format):
    arguments = '{"query": "a {b} [c] )"}'
    text = {
        "hermes": f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>',
        "llama3_json": f'{{"name": "f", "parameters": {arguments}}}',
        "mistral": f'[TOOL_CALLS][{{"name": "f", "arguments": {arguments}}}]',
        "pythonic": '[f(query="a {b} [c] )")]',
    }[format]
    assert calls(read(text, format)) == [("f", arguments)]


@pytest.mark.parametrize("size", SIZES)
def test_b26_a_complete_call_survives_a_cut_section(size):
    text = "<|tool_calls_section_begin|>" + KIMI_CALL.format("f:0", '{"x": 1}')
    assert read(text, "kimi_k2", size=size).calls == [("f", '{"x": 1}', "functions.f:0", True)]
    cut = text + "<|tool_call_begin|>functions.g"
    message = read(cut, "kimi_k2", size=size)
    assert calls(message) == [("f", '{"x": 1}')]
    assert message.content == "<|tool_call_begin|>functions.g"


@pytest.mark.parametrize("size", SIZES)
def test_b28_arguments_keep_their_own_spelling(size):
    arguments = '{"city":"上海", "e": "\\u00e9"}'
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    assert calls(read(text, "hermes", size=size)) == [("f", arguments)]
    text = "<tool_call>\n<function=f>\n<parameter=city>\n上海\n</parameter>\n</function>\n</tool_call>"
    assert calls(read(text, "qwen3_coder", tools=CITY, size=size)) == [("f", '{"city": "上海"}')]


@pytest.mark.parametrize("size", SIZES)
def test_b30_a_malformed_block_is_all_content(size):
    text = "ok <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function f {}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    message = read(text, "deepseek_v3", size=size)
    assert (message.content, message.calls) == (text, [])


def test_b31_choices_do_not_share_reasoning():
    machine, tokenizer = parser("hermes", "qwen3")
    first, second = machine.start((), {}), machine.start((), {})
    for left, right in zip(tokenizer.pieces("a</think>b"), tokenizer.pieces("cdefg"), strict=False):
        machine.feed(first, [left])
        machine.feed(second, [right])
    assert fold(machine.feed(second, tokenizer.pieces("x"))).reasoning == "x"


@pytest.mark.parametrize("size", SIZES)
def test_b33_a_named_choice_is_read_like_any(size):
    choice = {"type": "function", "function": {"name": "f"}}
    text = '<tool_call>{"name": "f", "arguments": {"city": "Oslo"}}</tool_call>'
    assert calls(read(text, "hermes", tool_choice=choice, size=size)) == [("f", '{"city": "Oslo"}')]
