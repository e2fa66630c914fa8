"""Seed-OSS: function and parameter elements in tags of its own."""

from app.parsing.format import Elements, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("SEED_OSS", "SEED_OSS_REASONING")

SEED_OSS = ToolFormat(
    name="seed_oss",
    sections=(
        Section(
            open="<seed:tool_call>",
            close=("</seed:tool_call>",),
            body=Elements(
                heads=("<function={name}>",),
                parameters=("<parameter={key}>",),
                parameter_close=("</parameter>",),
                close=("</function>",),
                trim=True,
            ),
        ),
    ),
    signature=("<seed:tool_call>",),
    samples=(
        Sample(
            text="ok<seed:tool_call>\n<function=f>\n<parameter=x>a</parameter>\n<parameter=n>2</parameter>\n</function>\n"
            "<function=g>\n</function>\n</seed:tool_call>\nDone.",
            content="ok\nDone.",
            calls=(("f", '{"x": "a", "n": 2}'), ("g", "{}")),
        ),
    ),
)

SEED_OSS_REASONING = ReasoningFormat(
    name="seed_oss",
    open=("<seed:think>",),
    close=("</seed:think>",),
    starts="inside",
    signature=("<seed:think>", "</seed:think>"),
    samples=(Sample(text="<seed:think>Hm.</seed:think>Hi.", reasoning="Hm.", content="Hi."),),
)
