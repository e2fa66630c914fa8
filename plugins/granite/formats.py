"""IBM Granite 3: a JSON list after one opener."""

from app.parsing.format import JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("GRANITE", "GRANITE_20B_FC", "GRANITE_REASONING", "GRANITE_THINKING")

GRANITE = ToolFormat(
    name="granite",
    sections=(
        Section(open="<|tool_call|>", body=JsonCalls()),
        Section(open="<tool_call>", close=("</tool_call>",), body=JsonCalls()),
    ),
    signature=("<|tool_call|>", "<|start_of_role|>"),
    samples=(
        Sample(
            text='<|tool_call|>[{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]\nDone.',
            content="Done.",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
        Sample(text='<tool_call>[{"name": "f", "arguments": {}}]', calls=(("f", "{}"),)),
    ),
)

GRANITE_20B_FC = ToolFormat(
    name="granite-20b-fc",
    sections=(Section(open="<function_call>", body=JsonCalls()),),
    signature=("<function_call>",),
    samples=(
        Sample(
            text='<function_call> {"name": "f", "arguments": {"x": 1}} <function_call> {"name": "g", "arguments": {}}',
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
    ),
)

GRANITE_REASONING = ReasoningFormat(
    name="granite",
    open=("Here is my thought process:", "Here's my thought process:"),
    close=("Here is my response:", "Here's my response:"),
    samples=(
        Sample(text="Here is my thought process: Hm. Here is my response: Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hi.", content="Hi."),
    ),
)

GRANITE_THINKING = ReasoningFormat(
    name="granite_thinking_parser",
    open=("<think>",),
    close=("</think>",),
    samples=(
        Sample(text="<think>Hm.</think>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="<think>Hm.</think><response>Hi.</response>", reasoning="Hm.", content="<response>Hi.</response>"),
    ),
)
