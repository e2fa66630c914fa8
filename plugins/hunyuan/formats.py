"""Hunyuan: a JSON list in plural tags with thoughts and answers in blocks (A13B); keys and values in turn (v3, v4)."""

from app.parsing.format import Elements, JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = (
    "HUNYUAN_A13B",
    "HUNYUAN_A13B_REASONING",
    "HY_V3",
    "HY_V3_REASONING",
    "HY_V4",
    "HY_V4_REASONING",
)

HUNYUAN_A13B = ToolFormat(
    name="hunyuan_a13b",
    sections=(Section(open="<tool_calls>", close=("</tool_calls>",), body=JsonCalls()),),
    signature=("<tool_calls>", "</tool_calls>", "<answer>"),
    samples=(
        Sample(
            text='ok<tool_calls>[{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]'
            "</tool_calls>\nDone.",
            content="ok\nDone.",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
    ),
)

HUNYUAN_A13B_REASONING = ReasoningFormat(
    name="hunyuan_a13b",
    open=("<think>",),
    close=("</think>",),
    dropped=("<answer>", "</answer>"),
    samples=(
        Sample(text="<think>\nHm.\n</think>\n<answer>\nHi.\n</answer>", reasoning="Hm.", content="Hi."),
        Sample(text="<answer>\nHi.\n</answer>", content="Hi."),
    ),
)


def _hy(name: str, separator: str, gap: str) -> ToolFormat:
    return ToolFormat(
        name=name,
        sections=(
            Section(
                open="<tool_calls>",
                close=("</tool_calls>",),
                body=Elements(
                    heads=(f"<tool_call> {{name}}{separator}",),
                    parameters=("<arg_key>{key}</arg_key> <arg_value>",),
                    parameter_close=("</arg_value>",),
                    close=("</tool_call>",),
                    certain=bool(separator),
                ),
            ),
        ),
        suffixed=True,
        samples=(
            Sample(
                text=f"ok<tool_calls><tool_call>f{separator}{gap}<arg_key>x</arg_key>{gap}<arg_value>a b</arg_value>"
                f"{gap}</tool_call><tool_call>g{separator}</tool_call></tool_calls>\nDone.",
                content="ok\nDone.",
                calls=(("f", '{"x": "a b"}'), ("g", "{}")),
            ),
        ),
    )


HY_V3 = _hy("hy_v3", "<tool_sep>", "\n")
HY_V4 = _hy("hy_v4", "", "")


HY_V3_REASONING = ReasoningFormat(
    name="hy_v3",
    open=("<think>",),
    close=("</think>",),
    starts="asked",
    ended="unless_asked",
    switches=("reasoning_effort",),
    suffixed=True,
    samples=(
        Sample(text="<think>Hm.</think>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hi.", content="Hi."),
    ),
)
HY_V4_REASONING = ReasoningFormat(
    name="hy_v4",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    switches=("reasoning_effort",),
    suffixed=True,
    samples=(
        Sample(text="Hm.</think>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hi.", content="Hi.", template_kwargs={"reasoning_effort": "no_think"}),
    ),
)
