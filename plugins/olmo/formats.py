"""OLMo 3: one Python call a line."""

from app.parsing.format import PythonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("OLMO3", "OLMO3_REASONING")

OLMO3 = ToolFormat(
    name="olmo3",
    sections=(
        Section(open="<function_calls>", close=("</function_calls>",), body=PythonCalls(listed=False)),
        Section(open="[", bare=True, body=PythonCalls()),
    ),
    signature=("<function_calls>", "</function_calls>", "<functions>"),
    samples=(
        Sample(
            text='ok\n<function_calls>\nf(x="a\\n(b", n=1)\ng()\n</function_calls>\nDone.',
            content="ok\n\nDone.",
            calls=(("f", '{"x": "a\\n(b", "n": 1}'), ("g", "{}")),
        ),
    ),
)

OLMO3_REASONING = ReasoningFormat(
    name="olmo3",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    samples=(
        Sample(text="<think>Hm.</think>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hm.</think>Hi.", reasoning="Hm.", content="Hi."),
    ),
)
