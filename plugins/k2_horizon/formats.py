"""K2 Horizon: keys, types and values in turn, or JSON, in tags of its own."""

from app.parsing.format import Elements, JsonCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("K2_HORIZON", "K2_HORIZON_REASONING")

_KEY = "<ifm|arg_key>{key}</ifm|arg_key>"

K2_HORIZON = ToolFormat(
    name="k2_horizon",
    sections=(
        Section(
            open="<ifm|tool_calls>",
            close=("</ifm|tool_calls>",),
            body=Elements(
                heads=("<ifm|tool_call> {name}",),
                parameters=(
                    f"{_KEY} <ifm|arg_type> {{type}} </ifm|arg_type> <ifm|arg_value>",
                    f"{_KEY} <ifm|arg_value>",
                ),
                parameter_close=("</ifm|arg_value>",),
                close=("</ifm|tool_call>",),
                typed_by="word",
                certain=False,
            ),
        ),
        Section(
            open="<ifm|tool_calls>",
            close=("</ifm|tool_calls>",),
            body=JsonCalls(around=("<ifm|tool_call>", "</ifm|tool_call>")),
        ),
    ),
    signature=("<ifm|tool_calls>", "<ifm|arg_key>"),
    samples=(
        Sample(
            text="ok<ifm|tool_calls>\n<ifm|tool_call>f\n<ifm|arg_key>x</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>"
            "<ifm|arg_value>7</ifm|arg_value><ifm|arg_key>n</ifm|arg_key><ifm|arg_value>[1]</ifm|arg_value>\n"
            "</ifm|tool_call>\n<ifm|tool_call>g</ifm|tool_call>\n</ifm|tool_calls>",
            content="ok",
            calls=(("f", '{"x": "7", "n": [1]}'), ("g", "{}")),
        ),
        Sample(
            text='ok<ifm|tool_calls>\n<ifm|tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</ifm|tool_call>\n'
            '<ifm|tool_call>{"name": "g", "arguments": {}}</ifm|tool_call>\n</ifm|tool_calls>Done.',
            content="okDone.",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
    ),
)

K2_HORIZON_REASONING = ReasoningFormat(
    name="k2_horizon",
    open=("<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"),
    close=("</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"),
    starts="inside",
    signature=("<ifm|think>",),
    samples=(Sample(text="<ifm|think>Hm.</ifm|think>Hi.", reasoning="Hm.", content="Hi."),),
)
