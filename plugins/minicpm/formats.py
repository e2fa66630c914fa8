"""MiniCPM 5's function and param elements; MiniCPM-V's thinking."""

import msgspec

from app.parsing.format import Elements, Sample, Section, ToolFormat
from plugins.qwen.formats import QWEN3

__all__ = ("MINICPM5", "MINICPMV")

MINICPM5 = ToolFormat(
    name="minicpm5",
    sections=(
        Section(
            open="<function name=",
            lead=True,
            body=Elements(
                heads=('<function name="{name}">', "<function name='{name}'>"),
                parameters=(
                    '<param name="{key}"><![CDATA[',
                    "<param name='{key}'><![CDATA[",
                    '<param name="{key}">',
                    "<param name='{key}'>",
                ),
                parameter_close=("]]></param>", "</param>"),
                close=("</function>",),
            ),
        ),
    ),
    signature=("<function name=", "<param name="),
    samples=(
        Sample(
            text='ok <function name="f"><param name="x">a b</param><param name="c"><![CDATA[<p>]]></param></function>\n'
            '<function name="g"></function>\nDone.',
            content="ok \nDone.",
            calls=(("f", '{"x": "a b", "c": "<p>"}'), ("g", "{}")),
        ),
    ),
)

MINICPMV = msgspec.structs.replace(QWEN3, name="minicpmv", signature=())
