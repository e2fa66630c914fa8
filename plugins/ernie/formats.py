"""Ernie 4.5: Hermes-style calls; the answer in a response block."""

from app.parsing.format import JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("ERNIE45", "ERNIE45_REASONING")

ERNIE45 = ToolFormat(
    name="ernie45",
    sections=(Section(open="<tool_call>", close=("</tool_call>",), body=JsonCalls()),),
    samples=(
        Sample(
            text='<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n',
            calls=(("f", '{"x": 1}'),),
        ),
    ),
)

ERNIE45_REASONING = ReasoningFormat(
    name="ernie45",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    dropped=("<response>", "</response>"),
    samples=(Sample(text="Hm.\n</think>\n\n<response>\nHi.\n</response>\n", reasoning="Hm.", content="Hi."),),
)
