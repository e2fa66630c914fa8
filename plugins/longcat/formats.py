"""LongCat: Hermes-style calls in a tag of its own."""

from app.parsing.format import Constraints, JsonCalls, Sample, Section, ToolFormat

__all__ = ("LONGCAT",)

LONGCAT = ToolFormat(
    name="longcat",
    sections=(Section(open="<longcat_tool_call>", close=("</longcat_tool_call>",), body=JsonCalls()),),
    constraints=Constraints(
        tags=(
            ('<longcat_tool_call>\n{"name": "{name}", "arguments": ', "}\n</longcat_tool_call>"),
            ('<longcat_tool_call>{"name": "{name}", "arguments": ', "}</longcat_tool_call>"),
        ),
        trigger="<longcat_tool_call>",
    ),
    signature=("<longcat_tool_call>",),
    samples=(
        Sample(
            text='ok<longcat_tool_call>{"name": "f", "arguments": {"x": 1}}</longcat_tool_call>Done.',
            content="okDone.",
            calls=(("f", '{"x": 1}'),),
        ),
    ),
)
