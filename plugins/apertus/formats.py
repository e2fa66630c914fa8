"""Apertus: a list of objects whose only key is the tool's name; thoughts between inner tokens."""

from app.parsing.format import JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("APERTUS", "APERTUS_REASONING")

APERTUS = ToolFormat(
    name="apertus",
    sections=(Section(open="<|tools_prefix|>", close=("<|tools_suffix|>",), body=JsonCalls(keyed=True)),),
    signature=("<|tools_prefix|>", "<|tools_suffix|>"),
    samples=(
        Sample(
            text='ok<|tools_prefix|>[{"f": {"x": 1}}, {"g": {}}]<|tools_suffix|>Done.',
            content="okDone.",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
    ),
)

APERTUS_REASONING = ReasoningFormat(
    name="apertus2509",
    open=("<|inner_prefix|>",),
    close=("<|inner_suffix|>",),
    signature=("<|inner_prefix|>", "<|inner_suffix|>"),
    samples=(Sample(text="<|inner_prefix|>Hm.<|inner_suffix|>Hi.", reasoning="Hm.", content="Hi."),),
)
