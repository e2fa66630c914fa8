"""Inkling: typed blocks of one message, each begun by a content token and ended by one for all."""

from app.parsing.format import JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("INKLING", "INKLING_REASONING")

_CALL = "<|content_invoke_tool_json|>"

INKLING = ToolFormat(
    name="inkling",
    sections=(
        Section(
            open=_CALL,
            close=("<|end_message|>", "<|content_model_end_sampling|>"),
            body=JsonCalls(arguments=("args", "arguments")),
            repeat=False,
        ),
    ),
    special_tokens="keep",
    signature=(_CALL, "<|message_model|>"),
    samples=(
        Sample(
            text=f'{_CALL}{{"name": "f", "args": {{"x": 1}}}}<|end_message|>{_CALL}{{"name": "g", "args": {{}}}}'
            "<|end_message|>",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
        Sample(
            text=f"<|message_model|><|content_thinking|>Hm.<|end_message|><|message_model|>{_CALL}"
            '{"name": "f", "args": {}}<|end_message|>',
            reasoning="Hm.",
            calls=(("f", "{}"),),
            reasoning_format="inkling",
        ),
    ),
)

INKLING_REASONING = ReasoningFormat(
    name="inkling",
    open=("<|content_thinking|>",),
    close=("<|end_message|>", "<|content_model_end_sampling|>"),
    dropped=("<|message_model|>", "<|content_text|>"),
    special_tokens="keep",
    signature=("<|content_thinking|>", "<|message_model|>"),
    samples=(
        Sample(
            text="<|message_model|><|content_thinking|>Hm.<|end_message|><|message_model|><|content_text|>Hi.<|end_message|>",
            reasoning="Hm.",
            content="Hi.",
        ),
    ),
)
