"""GigaChat 3: one JSON object after a function-call token, or after the words ``function call`` as a role."""

from app.parsing.format import JsonCalls, Sample, Section, ToolFormat

__all__ = ("GIGACHAT3",)

GIGACHAT3 = ToolFormat(
    name="gigachat3",
    sections=(
        Section(open="<|function_call|>", body=JsonCalls()),
        Section(open="<|message_sep|>\n\nfunction call<|role_sep|>\n", body=JsonCalls()),
        Section(open="function call<|role_sep|>\n", body=JsonCalls()),
    ),
    signature=("<|function_call|>", "<|role_sep|>"),
    samples=(
        Sample(
            text='ok<|function_call|>{"name": "f", "arguments": {"x": 1}}',
            content="ok",
            calls=(("f", '{"x": 1}'),),
        ),
        Sample(
            text='ok<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "f", "arguments": {}}',
            content="ok",
            calls=(("f", "{}"),),
        ),
    ),
)
