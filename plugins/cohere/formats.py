"""Cohere Command: a list of actions, thoughts and responses between tokens."""

from app.parsing.format import JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("COHERE_COMMAND3", "COHERE_COMMAND3_REASONING", "COHERE_COMMAND4", "COHERE_COMMAND4_REASONING")


def _command(name: str) -> ToolFormat:
    return ToolFormat(
        name=name,
        sections=(
            Section(
                open="<|START_ACTION|>",
                close=("<|END_ACTION|>",),
                body=JsonCalls(name=("tool_name", "name"), arguments=("parameters", "arguments")),
            ),
        ),
        special_tokens="keep",
        signature=("<|START_ACTION|>", "<|END_ACTION|>"),
        samples=(
            Sample(
                text='<|START_ACTION|>[\n{"tool_call_id": "0", "tool_name": "f", "parameters": {"x": 1}},\n'
                '{"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
                calls=(("f", '{"x": 1}'), ("g", "{}")),
            ),
        ),
    )


def _thinking(name: str, answer: str) -> ReasoningFormat:
    return ReasoningFormat(
        name=name,
        open=("<|START_THINKING|>",),
        close=("<|END_THINKING|>",),
        dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
        special_tokens="keep",
        signature=("<|START_THINKING|>", f"<|START_{answer}|>"),
        samples=(
            Sample(
                text=f"<|START_THINKING|>Hm.<|END_THINKING|><|START_{answer}|>Hi.<|END_{answer}|>",
                reasoning="Hm.",
                content="Hi.",
            ),
        ),
    )


COHERE_COMMAND3 = _command("cohere_command3")
COHERE_COMMAND4 = _command("cohere_command4")
COHERE_COMMAND3_REASONING = _thinking("cohere_command3", "RESPONSE")
COHERE_COMMAND4_REASONING = _thinking("cohere_command4", "TEXT")
