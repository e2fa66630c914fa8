"""Muse: invoke and parameter elements in the ATEM name space."""

from app.parsing.format import Elements, Sample, Section, ToolFormat

__all__ = ("MUSE",)

MUSE = ToolFormat(
    name="muse",
    sections=(
        Section(
            open="<atem:function_calls>",
            close=("</atem:function_calls>",),
            body=Elements(
                heads=('<atem:invoke name="{name}">',),
                parameters=('<atem:parameter name="{key}">',),
                parameter_close=("</atem:parameter>",),
                close=("</atem:invoke>",),
            ),
        ),
    ),
    signature=("<atem:function_calls>",),
    samples=(
        Sample(
            text='ok<atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="x">a b</atem:parameter>\n'
            '</atem:invoke>\n<atem:invoke name="g"></atem:invoke>\n</atem:function_calls>\nDone.',
            content="ok\nDone.",
            calls=(("f", '{"x": "a b"}'), ("g", "{}")),
        ),
    ),
)
