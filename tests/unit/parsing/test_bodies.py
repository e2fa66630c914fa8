"""The rules of the machine that the samples of the formats do not show."""

import pytest

from tests.unit.parsing.outputs import calls, read

SIZES = (None, 1, 2, 7)
NOTES = (
    {
        "name": "search",
        "parameters": {
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "filter": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            }
        },
    },
)
HERMES = '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'


@pytest.mark.parametrize("size", SIZES)
class TestReasoning:
    def test_markers_that_are_mentioned_stay(self, size):
        text = "<think>I could use <tool_call> here.</think>The tag <tool_call> opens."
        message = read(text, "hermes", "qwen3", size=size)
        assert message.reasoning == "I could use <tool_call> here."
        assert message.content == "The tag <tool_call> opens."

    def test_a_leading_opener_is_dropped_and_a_later_one_is_text(self, size):
        message = read("<think>\na <think> b</think>c", None, "qwen3", size=size)
        assert (message.reasoning, message.content) == ("a <think> b", "c")

    def test_an_opener_after_more_white_space_than_is_held_is_text(self, size):
        message = read(" " * 1100 + "<think>a</think>b", None, "qwen3", size=size)
        assert (message.reasoning, message.content) == (" " * 1100 + "<think>a", "b")

    def test_content_can_open_reasoning_again(self, size):
        message = read("a</think>b<think>c</think>d", None, "qwen3", size=size)
        assert (message.reasoning, message.content) == ("ac", "bd")

    def test_after_a_call_comes_content(self, size):
        message = read("x" + HERMES.format("{}") + " later.\n</think>\n\n4", "hermes", "qwen3", size=size)
        assert (message.reasoning, message.content.split()) == ("x", ["later.", "4"])

    def test_without_tools_markup_is_text(self, size):
        text = HERMES.format("{}")
        assert read(text, "hermes", size=size, tools=()).content == text
        assert read(text, "hermes", size=size, tool_choice="none").content == text

    def test_a_prefilled_answer_goes_on(self, size):
        prompt = "<|im_start|>assistant\n<think>\nhm\n</think>\n\nThe answer"
        message = read(" is 4", "hermes", "qwen3", prompt=prompt, size=size)
        assert (message.reasoning, message.content) == ("", " is 4")

    def test_append_think_keeps_thoughts_in_content(self, size):
        message = read("hm</think>4", None, "minimax_m2_append_think", size=size)
        assert (message.reasoning, message.content) == ("", "<think>hm</think>4")


@pytest.mark.parametrize("size", SIZES)
class TestWhiteSpace:
    def test_kept_at_the_ends_and_between_text(self, size):
        assert read(" \n a \n\n b \n", "hermes", size=size).content == " \n a \n\n b \n"

    def test_dropped_beside_markers(self, size):
        message = read("<think>\n\nhm\n</think>\n\na\n" + HERMES.format("{}") + "\n", "hermes", "qwen3", size=size)
        assert (message.reasoning, message.content) == ("hm", "a")

    def test_a_long_run_is_given_out(self, size):
        assert read("a" + " " * 5000 + "b", "hermes", size=size).content == "a" + " " * 5000 + "b"


@pytest.mark.parametrize("size", SIZES)
class TestJson:
    def test_marker_ends_a_broken_value(self, size):
        message = read(HERMES.format('{"city": "Os') + " Done.", "hermes", size=size)
        assert message.calls[0][:2] == ("f", '{"city": "Os}\n')
        assert message.calls[0][3] is False
        assert message.content.strip() == "Done."

    def test_brackets_pop_to_their_kind(self, size):
        text = '<tool_calls>[{"name": "f", "arguments": {"a": [1}}, {"name": "g", "arguments": {}}]</tool_calls>'
        assert calls(read(text, "hunyuan_a13b", size=size)) == [("f", '{"a": [1}'), ("g", "{}")]

    def test_second_call_broken_first_kept(self, size):
        text = '[TOOL_CALLS][{"name": "f", "arguments": {}}, {"nome": "g"}] tail'
        message = read(text, "mistral", size=size)
        assert calls(message) == [("f", "{}")]
        assert message.content == ', {"nome": "g"}] tail'

    def test_escaped_arguments_of_any_spelling(self, size):
        text = '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"\\ud83d\\ude00\\\\n\\u00e9\\"}"}</tool_call>'
        assert calls(read(text, "hermes", size=size)) == [("f", '{"a": "😀\\né"}')]

    def test_arguments_before_the_name_are_held(self, size):
        text = '<tool_call>{"arguments": {"a": 1}, "id": "x", "name": "f"}</tool_call>'
        assert calls(read(text, "hermes", size=size)) == [("f", '{"a": 1}')]

    def test_one_call_only(self, size):
        text = HERMES.format("{}") * 3 + "end"
        message = read(text, "hermes", size=size, parallel_tool_calls=False)
        assert (calls(message), message.content) == ([("f", "{}")], "end")


@pytest.mark.parametrize("size", SIZES)
class TestElements:
    def test_types_come_from_the_schema(self, size):
        values = {"query": "7", "limit": "3", "tags": '["a", "b"]', "filter": "null"}
        body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
        text = f"<tool_call>\n<function=search>\n{body}</function>\n</tool_call>"
        expected = '{"query": "7", "limit": 3, "tags": ["a", "b"], "filter": null}'
        assert calls(read(text, "qwen3_coder", tools=NOTES, size=size)) == [("search", expected)]

    def test_a_missing_closer_ends_at_the_next_element(self, size):
        text = "<tool_call><function=search><parameter=query>\na\n<parameter=filter>\nb\n</function></tool_call>"
        assert calls(read(text, "qwen3_coder", tools=NOTES, size=size)) == [("search", '{"query": "a", "filter": "b"}')]

    def test_calls_without_their_section(self, size):
        text = "<function=search>\n<parameter=query>\na\n</parameter>\n</function>\n</tool_call>\nb"
        message = read(text, "qwen3_coder", tools=NOTES, size=size)
        assert (calls(message), message.content) == ([("search", '{"query": "a"}')], "b")

    def test_a_cut_value_and_a_cut_key_keep_what_is_written(self, size):
        start = "<tool_call>\n<function=search>\n<parameter="
        cut = read(f"{start}query>\nOs</param", "qwen3_coder", tools=NOTES, size=size, markers=False)
        assert calls(cut) == [("search", '{"query": "Os')]
        cut = read(f"{start}que", "qwen3_coder", tools=NOTES, size=size)
        assert calls(cut) == [("search", '{"que')]
        cut = read(f"{start}tags>\n[1, ", "qwen3_coder", tools=NOTES, size=size)
        assert calls(cut) == [("search", '{"tags": [1,')]

    def test_a_long_value_is_a_string(self, size):
        value = "[" + "1, " * 9000
        text = f"<tool_call><function=search><parameter=tags>{value}</parameter></function></tool_call>"
        message = read(text, "qwen3_coder", tools=NOTES, size=size)
        assert calls(message) == [("search", f'{{"tags": "{value}"}}')]


@pytest.mark.parametrize("size", SIZES)
class TestPython:
    def test_literals(self, size):
        text = "[f(a=0x1F, b=1_000, c=.5, d=r'\\n', e='x' 'y', g='''a'b\n''', h=(1,), i={'k': None, 1: ''}, j='\\x41')]"
        expected = (
            '{"a": 31, "b": 1000, "c": 0.5, "d": "\\\\n", "e": "xy", "g": "a\'b\\n", "h": [1], '
            '"i": {"k": null, "1": ""}, "j": "A"}'
        )
        assert calls(read(text, "pythonic", size=size)) == [("f", expected)]

    def test_what_is_no_literal_is_passed_on(self, size):
        message = read("[f(a=Oslo, b=1)]", "pythonic", size=size)
        assert message.calls == [("f", '{"a": Oslo, "b": 1}', None, False)]

    @pytest.mark.parametrize("text", ["[f(1, 2)]", "[f]", "[f(x)]", "[1, 2]", "see [f(a=1)]", "[f(a==1)]"])
    def test_content(self, text, size):
        assert read(text, "pythonic", size=size).content == text


@pytest.mark.parametrize("size", SIZES)
class TestHarmony:
    def test_a_channel_inside_a_body_starts_a_message(self, size):
        text = "<|channel|>analysis<|message|>Maybe <|channel|>commentary to=functions.f <|message|>{}<|call|> b"
        message = read(text, "openai", "openai_gptoss", size=size)
        assert (message.reasoning, calls(message), message.content) == ("Maybe", [("f", "{}")], "b")

    def test_a_call_without_its_end_token_is_whole(self, size):
        text = '<|channel|>commentary to=functions.f<|message|>{"a": 1}'
        assert read(text, "openai", "openai_gptoss", size=size).calls == [("f", '{"a": 1}', None, True)]
        assert read(text[:-1], "openai", "openai_gptoss", size=size).calls == [("f", '{"a": 1', None, False)]

    def test_messages_of_a_channel_are_joined_by_a_line_break(self, size):
        text = "<|channel|>final<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b"
        assert read(text, "openai", "openai_gptoss", size=size).content == "a\nb"

    def test_a_recipient_that_is_a_tool_needs_no_prefix(self, size):
        text = "<|start|>assistant to=search<|channel|>commentary json<|message|>{}<|call|>"
        assert calls(read(text, "openai", "openai_gptoss", tools=NOTES, size=size)) == [("search", "{}")]

    def test_without_tools_a_call_is_raw_content(self, size):
        text = "<|channel|>commentary to=functions.f <|message|>{}<|call|>"
        assert read(text, "openai", "openai_gptoss", tools=(), size=size).content == text


def test_typed_markers_open_nothing_where_the_vocabulary_has_them():
    """The same characters in ordinary tokens are text."""
    from tests.unit.parsing.outputs import parser

    machine, tokenizer = parser("hermes")
    text = HERMES.format("{}")
    state = machine.start((), {})
    deltas = machine.feed(state, [(ord(char), char) for char in text]) + machine.finish(state)
    assert "".join(delta.text for delta in deltas) == text
    assert tokenizer.markers


def test_the_stray_end_of_a_suffixed_vocabulary():
    from app.parsing.compose import make_parser
    from app.parsing.conformance import message_of
    from app.parsing.sample_tokenizer import SampleTokenizer
    from tests.unit.parsing.outputs import ANY_TOOL, load

    names = ("tool_calls", "tool_call", "tool_sep", "arg_key", "arg_value", "think")
    tokenizer = SampleTokenizer([f"<{slash}{name}:6124>" for name in names for slash in ("", "/")])
    machine = make_parser(load("tool", "hy_v3"), load("reasoning", "hy_v3"), tokenizer, tools=ANY_TOOL)
    text = (
        "<think:6124>hm</think:6124><tool_calls:6124><tool_call:6124>f<tool_sep:6124>\n<arg_key:6124>x</arg_key:6124>\n"
        "<arg_value:6124>a</arg_value:6124></tool_call:6124></tool_calls:6124>"
    )
    message = message_of(machine, [[piece] for piece in tokenizer.pieces(text)], {})
    assert (message.reasoning, calls(message), message.content) == ("hm", [("f", '{"x": "a"}')], "")


def test_a_doubled_name_is_the_tools_own_where_the_request_has_it():
    text = 'to=f<|message|><atem:function_calls><atem:invoke name="{}"></atem:invoke></atem:function_calls><|eom|>'
    tools = ({"name": "f", "parameters": {}}, {"name": "g.g", "parameters": {}})
    for written, name in (("f.f", "f"), ("f.g", "f.g"), ("g.g", "g.g"), ("h.h", "h.h"), ("f", "f")):
        assert calls(read(text.format(written), "muse", tools=tools)) == [(name, "{}")]


@pytest.mark.parametrize(
    ("name", "kwargs", "inside"),
    [
        ("deepseek_v4", {}, True),
        ("deepseek_v4", {"reasoning_effort": "none"}, False),
        ("deepseek_v4", {"thinking": False, "reasoning_effort": "high"}, False),
        ("hy_v3", {}, False),
        ("hy_v3", {"reasoning_effort": "high"}, True),
        ("hy_v3", {"reasoning_effort": "no_think"}, False),
        ("hy_v4", {"reasoning_effort": "no_think"}, False),
    ],
)
def test_words_switch_thinking_off(name, kwargs, inside):
    message = read("Hm.", reasoning=name, kwargs=kwargs)
    assert (message.reasoning, message.content) == (("Hm.", "") if inside else ("", "Hm."))
