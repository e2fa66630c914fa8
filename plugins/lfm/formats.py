"""Liquid LFM 2: Python calls between tokens."""

from app.parsing.format import PythonCalls, Sample, Section, ToolFormat

__all__ = ("LFM2",)

LFM2 = ToolFormat(
    name="lfm2",
    sections=(Section(open="<|tool_call_start|>", close=("<|tool_call_end|>",), body=PythonCalls()),),
    signature=("<|tool_call_start|>", "<|tool_call_end|>"),
    samples=(
        Sample(
            text='<|tool_call_start|>[f(x="a", n=[1, True]), g()]<|tool_call_end|>Done.',
            content="Done.",
            calls=(("f", '{"x": "a", "n": [1, true]}'), ("g", "{}")),
        ),
    ),
)
