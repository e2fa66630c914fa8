"""Qwen's formats: Hermes-style JSON calls, Qwen 3 Coder's elements, and Qwen 3's thinking."""

from app.parsing.format import Constraints, Elements, JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("HERMES", "QWEN3", "QWEN3_CODER")

HERMES = ToolFormat(
    name="hermes",
    sections=(Section(open="<tool_call>", close=("</tool_call>",), body=JsonCalls()),),
    special_tokens="with_tools",
    constraints=Constraints(
        tags=(
            ('<tool_call>\n{"name": "{name}", "arguments": ', "}\n</tool_call>"),
            ('<tool_call>{"name": "{name}", "arguments": ', "}</tool_call>"),
        ),
        trigger="<tool_call>",
    ),
    signature=("<tool_call>", "</tool_call>", '"arguments"'),
    samples=(
        Sample(text="Just an answer.", content="Just an answer."),
        Sample(
            text='Let me see.\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": [2, "x}"]}}\n</tool_call>',
            content="Let me see.",
            calls=(("add", '{"a": 1, "b": [2, "x}"]}'),),
        ),
        Sample(
            text='<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n<tool_call>\n'
            '{"arguments": "{\\"q\\": \\"a\\\\nb\\"}", "name": "find"}\n</tool_call>\nDone.',
            content="Done.",
            calls=(("now", "{}"), ("find", '{"q": "a\\nb"}')),
        ),
        Sample(text="The tag <tool_call> opens a call.", content="The tag <tool_call> opens a call."),
        Sample(
            text='Hm.\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
            reasoning="Hm.",
            calls=(("now", "{}"),),
            reasoning_format="qwen3",
        ),
    ),
)

QWEN3_CODER = ToolFormat(
    name="qwen3_coder",
    sections=(
        Section(
            open="<tool_call>",
            close=("</tool_call>",),
            body=(
                _ELEMENTS := Elements(
                    heads=("<function={name}>",),
                    parameters=("<parameter={key}>",),
                    parameter_close=("</parameter>",),
                    close=("</function>",),
                    trim=True,
                )
            ),
        ),
        Section(open="<function=", lead=True, close=("</tool_call>",), body=_ELEMENTS),
    ),
    constraints=Constraints(
        tags=(("<tool_call>\n<function={name}>\n", "\n</function>\n</tool_call>"),),
        trigger="<tool_call>\n<function=",
        style="qwen_xml",
        excludes=("<think>", "</think>"),
        required="triggered",
        named="alone",
    ),
    signature=("<tool_call>", "<function=", "<parameter=", "</function>"),
    samples=(
        Sample(
            text="<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=note>\ntwo\n\nlines\n</parameter>\n"
            "</function>\n</tool_call>",
            calls=(("add", '{"a": 1, "note": "two\\n\\nlines"}'),),
        ),
        Sample(
            text="Now.\n<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=find>\n"
            "<parameter=q>\nx < y\n<parameter=n>\nTrue\n</parameter>\n</function>\n</tool_call>\nDone.",
            content="Now.\n\n\nDone.",
            calls=(("now", "{}"), ("find", '{"q": "x < y", "n": true}')),
        ),
    ),
)

QWEN3 = ReasoningFormat(
    name="qwen3",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    special_tokens="keep",
    signature=("<think>", "</think>", "enable_thinking"),
    samples=(
        Sample(text="<think>\nHm.\n</think>\n\nHi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hm.\n</think>\n\nHi.", reasoning="Hm.", content="Hi."),
        Sample(text="Still thinking", reasoning="Still thinking"),
        Sample(text="Hi.", content="Hi.", template_kwargs={"enable_thinking": False}),
    ),
)
