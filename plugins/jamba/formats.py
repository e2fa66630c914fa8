"""AI21 Jamba: a JSON list in plural tags."""

from app.parsing.format import JsonCalls, Sample, Section, ToolFormat

__all__ = ("JAMBA",)

JAMBA = ToolFormat(
    name="jamba",
    sections=(Section(open="<tool_calls>", close=("</tool_calls>",), body=JsonCalls()),),
    samples=(
        Sample(
            text='ok <tool_calls>[\n{"name": "f", "arguments": {"x": 1}},\n{"name": "g", "arguments": {}}\n]'
            "</tool_calls>",
            content="ok",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
    ),
)
