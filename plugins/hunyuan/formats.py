"""Hunyuan A13B: a JSON list in plural tags, thoughts and answers in blocks of their own."""

from app.parsing.format import JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("HUNYUAN_A13B", "HUNYUAN_A13B_REASONING")

HUNYUAN_A13B = ToolFormat(
    name="hunyuan_a13b",
    sections=(Section(open="<tool_calls>", close=("</tool_calls>",), body=JsonCalls()),),
    signature=("<tool_calls>", "</tool_calls>", "<answer>"),
    samples=(
        Sample(
            text='ok<tool_calls>[{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]'
            "</tool_calls>\nDone.",
            content="ok\nDone.",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
    ),
)

HUNYUAN_A13B_REASONING = ReasoningFormat(
    name="hunyuan_a13b",
    open=("<think>",),
    close=("</think>",),
    dropped=("<answer>", "</answer>"),
    samples=(
        Sample(text="<think>\nHm.\n</think>\n<answer>\nHi.\n</answer>", reasoning="Hm.", content="Hi."),
        Sample(text="<answer>\nHi.\n</answer>", content="Hi."),
    ),
)
