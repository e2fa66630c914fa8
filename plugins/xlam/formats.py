"""Salesforce xLAM: a JSON list, bare, fenced, or after one of several openers."""

from app.parsing.format import JsonCalls, Sample, Section, ToolFormat

__all__ = ("XLAM",)

_CALLS = JsonCalls()

XLAM = ToolFormat(
    name="xlam",
    sections=(
        Section(open="[", bare=True, body=_CALLS),
        Section(open="```json", close=("```",), body=_CALLS),
        Section(open="```", close=("```",), body=_CALLS),
        Section(open="[TOOL_CALLS]", body=_CALLS),
        Section(open="<tool_call>", close=("</tool_call>",), body=_CALLS),
    ),
    samples=(
        Sample(
            text='[{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]\nDone.',
            content="Done.",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
        Sample(text='ok\n```json\n[{"name": "f", "arguments": {}}]\n```', content="ok", calls=(("f", "{}"),)),
        Sample(text='ok[TOOL_CALLS][{"name": "f", "arguments": {}}]', content="ok", calls=(("f", "{}"),)),
        Sample(text='<tool_call>[{"name": "f", "arguments": {}}]</tool_call>', calls=(("f", "{}"),)),
        Sample(text="```json\n[1, 2]\n```", content="```json\n[1, 2]\n```"),
    ),
)
