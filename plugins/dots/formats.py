"""dots: invoke and parameter elements in a tag of its own."""

from app.parsing.format import Elements, Sample, Section, ToolFormat

__all__ = ("DOTS",)

DOTS = ToolFormat(
    name="dots",
    sections=(
        Section(
            open="<dots_function_call>",
            close=("</dots_function_call>",),
            body=Elements(
                heads=('<invoke name="{name}">', "<invoke name='{name}'>", "<invoke name={name}>"),
                parameters=('<parameter name="{key}">', "<parameter name='{key}'>", "<parameter name={key}>"),
                parameter_close=("</parameter>",),
                close=("</invoke>",),
            ),
        ),
    ),
    signature=("<dots_function_call>",),
    samples=(
        Sample(
            text='ok<dots_function_call><invoke name="f"><parameter name="x">a b</parameter></invoke>'
            "<invoke name=g></invoke></dots_function_call>Done.",
            content="okDone.",
            calls=(("f", '{"x": "a b"}'), ("g", "{}")),
        ),
    ),
)
