"""MiniMax: invoke and parameter elements in a namespaced tag (M2), or every tag behind a marker (M3)."""

from app.parsing.format import Constraints, Elements, ReasoningFormat, Sample, Section, ToolFormat

__all__ = (
    "MINIMAX_M2",
    "MINIMAX_M2_APPEND_THINK",
    "MINIMAX_M2_REASONING",
    "MINIMAX_M3",
    "MINIMAX_M3_REASONING",
)

MINIMAX_M2 = ToolFormat(
    name="minimax_m2",
    sections=(
        Section(
            open="<minimax:tool_call>",
            close=("</minimax:tool_call>",),
            body=Elements(
                heads=('<invoke name="{name}">', "<invoke name='{name}'>", "<invoke name={name}>"),
                parameters=('<parameter name="{key}">', "<parameter name='{key}'>", "<parameter name={key}>"),
                parameter_close=("</parameter>",),
                close=("</invoke>",),
            ),
        ),
    ),
    special_tokens="keep",
    constraints=Constraints(
        tags=(('<invoke name="{name}">\n', "</invoke>\n"),),
        trigger="<minimax:tool_call>",
        style="minimax_xml",
        section_open="<minimax:tool_call>\n",
        section_close=("</minimax:tool_call>",),
        excludes=("<think>", "</think>"),
        lead="\n",
    ),
    signature=("<minimax:tool_call>", "</minimax:tool_call>"),
    samples=(
        Sample(
            text='ok<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">a b</parameter>\n'
            '<parameter name="n">[1, 2]</parameter>\n</invoke>\n<invoke name="g">\n</invoke>\n'
            "</minimax:tool_call>\nDone.",
            content="ok\nDone.",
            calls=(("f", '{"x": "a b", "n": [1, 2]}'), ("g", "{}")),
        ),
    ),
)

MINIMAX_M2_REASONING = ReasoningFormat(
    name="minimax_m2",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    special_tokens="keep",
    signature=("<think>", "</think>", "<minimax:tool_call>", "]~b]"),
    samples=(Sample(text="Hm.\n</think>\n\nHi.", reasoning="Hm.", content="Hi."),),
)

MINIMAX_M2_APPEND_THINK = ReasoningFormat(
    name="minimax_m2_append_think",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    as_content="<think>",
    special_tokens="keep",
    samples=(Sample(text="Hm.\n</think>\n\nHi.", content="<think>Hm.\n</think>\n\nHi."),),
)

_NS = "]<]minimax[>["

MINIMAX_M3 = ToolFormat(
    name="minimax_m3",
    sections=(
        Section(
            open=f"{_NS}<tool_call>",
            close=(f"{_NS}</tool_call>",),
            body=Elements(
                heads=(
                    f'{_NS}<invoke name="{{name}}">',
                    f"{_NS}<invoke name='{{name}}'>",
                    f"{_NS}<invoke name={{name}}>",
                ),
                parameters=(f"{_NS}<{{key}}>",),
                parameter_close=(f"{_NS}</{{key}}>",),
                close=(f"{_NS}</invoke>",),
                nested=_NS,
            ),
        ),
    ),
    special_tokens="keep",
    signature=(_NS, "<tool_call>"),
    samples=(
        Sample(
            text=f'ok{_NS}<tool_call>\n{_NS}<invoke name="f">\n{_NS}<x><b>a</b>{_NS}</x>\n{_NS}<n>7{_NS}</n>\n'
            f'{_NS}</invoke>\n{_NS}<invoke name="g">\n{_NS}</invoke>\n{_NS}</tool_call>\nDone.',
            content="ok\nDone.",
            calls=(("f", '{"x": "<b>a</b>", "n": 7}'), ("g", "{}")),
        ),
        Sample(
            text=f'{_NS}<tool_call>\n{_NS}<invoke name="order">\n{_NS}<to>\n{_NS}<name>Ann{_NS}</name>\n{_NS}<zip>0151'
            f"{_NS}</zip>\n{_NS}</to>\n{_NS}<item>a{_NS}</item>\n{_NS}</invoke>\n{_NS}</tool_call>",
            calls=(("order", '{"to": {"name": "Ann", "zip": "0151"}, "item": "a"}'),),
        ),
    ),
)

MINIMAX_M3_REASONING = ReasoningFormat(
    name="minimax_m3",
    open=("<mm:think>",),
    close=("</mm:think>",),
    special_tokens="keep",
    signature=("<mm:think>",),
    samples=(Sample(text="<mm:think>Hm.</mm:think>Hi.", reasoning="Hm.", content="Hi."),),
)
