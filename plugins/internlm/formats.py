"""InternLM 2: one JSON object between action tokens."""

from app.parsing.format import JsonCalls, Sample, Section, ToolFormat

__all__ = ("INTERNLM",)

INTERNLM = ToolFormat(
    name="internlm",
    sections=(
        Section(
            open="<|action_start|><|plugin|>",
            close=("<|action_end|>",),
            body=JsonCalls(arguments=("parameters", "arguments")),
        ),
    ),
    signature=("<|action_start|>", "<|plugin|>"),
    samples=(
        Sample(
            text='ok<|action_start|><|plugin|>{"name": "f", "parameters": {"x": 1}}<|action_end|>\nDone.',
            content="ok\nDone.",
            calls=(("f", '{"x": 1}'),),
        ),
    ),
)
