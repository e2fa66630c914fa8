"""Kimi K2: a section of special tokens around calls whose id carries the name."""

from app.parsing.format import NamedJson, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("KIMI_K2", "KIMI_K2_REASONING")

_CALLS = NamedJson(
    heads=(
        "<|tool_call_begin|> functions.{name}:{index} <|tool_call_argument_begin|>",
        "<|tool_call_begin|> {name}:{index} <|tool_call_argument_begin|>",
        "<|tool_call_begin|> functions.{name} <|tool_call_argument_begin|>",
        "<|tool_call_begin|> {name} <|tool_call_argument_begin|>",
    ),
    close=("<|tool_call_end|>",),
)

KIMI_K2 = ToolFormat(
    name="kimi_k2",
    sections=(
        Section(open="<|tool_calls_section_begin|>", close=("<|tool_calls_section_end|>",), body=_CALLS),
        Section(open="<|tool_call_begin|>", lead=True, close=("<|tool_calls_section_end|>",), body=_CALLS),
    ),
    special_tokens="keep",
    call_ids="counted",
    signature=("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"),
    samples=(
        Sample(
            text="ok<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
            '{"x": "a\\"}"}<|tool_call_end|><|tool_call_begin|>functions.g.h:1<|tool_call_argument_begin|>{}'
            "<|tool_call_end|><|tool_calls_section_end|>Done.",
            content="okDone.",
            calls=(("f", '{"x": "a\\"}"}'), ("g.h", "{}")),
        ),
    ),
)

KIMI_K2_REASONING = ReasoningFormat(
    name="kimi_k2",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    ended="closed_or_off",
    special_tokens="keep",
    signature=("<think>", "</think>", "<|tool_calls_section_begin|>"),
    samples=(
        Sample(text="<think>Hm.</think>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hi.", content="Hi.", template_kwargs={"thinking": False}),
    ),
)
