"""Phi 4 mini: a JSON list after the word ``functools``."""

from app.parsing.format import JsonCalls, Sample, Section, ToolFormat

__all__ = ("PHI4_MINI_JSON",)

PHI4_MINI_JSON = ToolFormat(
    name="phi4_mini_json",
    sections=(Section(open="functools", body=JsonCalls()),),
    signature=("functools",),
    samples=(
        Sample(
            text='ok functools[{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]\nDone.',
            content="ok \nDone.",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
        Sample(text="Use functools, it helps.", content="Use functools, it helps."),
    ),
)
