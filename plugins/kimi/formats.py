"""Kimi: a section of special tokens around calls whose id carries the name (K2), or elements of open and close (K3)."""

from app.parsing.format import Constraints, Elements, NamedJson, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("KIMI_K2", "KIMI_K2_REASONING", "KIMI_K3", "KIMI_K3_REASONING")

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
    constraints=Constraints(
        tags=(("<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>", "<|tool_call_end|>"),),
        trigger="<|tool_calls_section_begin|>",
        section_open="<|tool_calls_section_begin|>",
        section_close=("<|tool_calls_section_end|>",),
        excludes=("<think>", "</think>", "<|tool_call_begin|>"),
        named="alone",
        lead="",
    ),
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
    signature=("<think>", "</think>", "<|tool_calls_section_begin|>", "<|im_middle|>"),
    samples=(
        Sample(text="<think>Hm.</think>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hi.", content="Hi.", template_kwargs={"thinking": False}),
    ),
)

_K3_CALL = '<|open|>call tool="{name}" index="{index}"<|sep|>'

KIMI_K3 = ToolFormat(
    name="kimi_k3",
    sections=(
        Section(
            open="<|open|>tools<|sep|>",
            close=("<|close|>tools<|sep|>",),
            body=Elements(
                heads=(_K3_CALL, '<|open|>call tool="{name}"<|sep|>'),
                parameters=('<|open|>argument key="{key}" type="{type}"<|sep|>', '<|open|>argument key="{key}"<|sep|>'),
                parameter_close=("<|close|>argument<|sep|>",),
                close=("<|close|>call<|sep|>",),
                typed_by="word",
            ),
        ),
    ),
    special_tokens="keep",
    signature=("<|open|>", "<|close|>", "<|sep|>"),
    samples=(
        Sample(
            text=f'ok<|open|>tools<|sep|>{_K3_CALL.format(name="f", index=0)}<|open|>argument key="x" '
            'type="string"<|sep|>7<|close|>argument<|sep|><|open|>argument key="n" '
            'type="number"<|sep|>2<|close|>argument<|sep|>'
            f"<|close|>call<|sep|>{_K3_CALL.format(name='g', index=1)}<|close|>call<|sep|><|close|>tools<|sep|>",
            content="ok",
            calls=(("f", '{"x": "7", "n": 2}'), ("g", "{}")),
        ),
    ),
)

KIMI_K3_REASONING = ReasoningFormat(
    name="kimi_k3",
    open=("<|open|>think<|sep|>",),
    close=("<|close|>think<|sep|>", "<|open|>response<|sep|>"),
    dropped=("<|close|>response<|sep|>",),
    starts="inside",
    ended="closed_or_off",
    special_tokens="keep",
    signature=("<|open|>", "<|close|>", "<|sep|>"),
    samples=(
        Sample(
            text="<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Hi.<|close|>response<|sep|>",
            reasoning="Hm.",
            content="Hi.",
        ),
        Sample(text="<|open|>response<|sep|>Hi.<|close|>response<|sep|>", content="Hi."),
        Sample(text="Hi.", content="Hi.", template_kwargs={"thinking": False}),
    ),
)
