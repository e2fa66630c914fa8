"""DeepSeek V3, V3.1 and R1: sections of full-width-bar tokens, and thinking that the prompt opens."""

from app.parsing.format import NamedJson, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("DEEPSEEK_R1", "DEEPSEEK_V3", "DEEPSEEK_V3_REASONING", "DEEPSEEK_V31")


def _section(heads: tuple[str, ...], close: tuple[str, ...]) -> tuple[Section, ...]:
    body = NamedJson(heads=heads, close=close)
    end = ("<｜tool▁calls▁end｜>",)
    return (
        Section(open="<｜tool▁calls▁begin｜>", close=end, body=body),
        Section(open="<｜tool▁call▁begin｜>", lead=True, close=end, body=body),
    )


DEEPSEEK_V3 = ToolFormat(
    name="deepseek_v3",
    sections=_section(
        (
            "<｜tool▁call▁begin｜> function <｜tool▁sep｜> {name} ```json",
            "<｜tool▁call▁begin｜> function <｜tool▁sep｜> {name} ```",
        ),
        ("```<｜tool▁call▁end｜>", "```\n<｜tool▁call▁end｜>", "<｜tool▁call▁end｜>"),
    ),
    signature=("<｜tool▁calls▁begin｜>", "```json"),
    samples=(
        Sample(
            text="ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
            '{"x": "```"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n'
            "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            content="ok",
            calls=(("f", '{"x": "```"}'), ("g", "{}")),
        ),
    ),
)

DEEPSEEK_V31 = ToolFormat(
    name="deepseek_v31",
    sections=_section(("<｜tool▁call▁begin｜> {name} <｜tool▁sep｜>",), ("<｜tool▁call▁end｜>",)),
    signature=("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"),
    samples=(
        Sample(
            text='ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": [1, 2]}<｜tool▁call▁end｜>'
            "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>Done.",
            content="okDone.",
            calls=(("f", '{"x": [1, 2]}'), ("g", "{}")),
        ),
    ),
)

DEEPSEEK_R1 = ReasoningFormat(
    name="deepseek_r1",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    signature=("<think>", "</think>", "<｜Assistant｜>"),
    samples=(
        Sample(text="Let me see…</think>Paris.", reasoning="Let me see…", content="Paris."),
        Sample(text="<think>\nLet me see", reasoning="Let me see"),
    ),
)

DEEPSEEK_V3_REASONING = ReasoningFormat(
    name="deepseek_v3",
    open=("<think>",),
    close=("</think>",),
    starts="asked",
    ended="unless_asked",
    samples=(
        Sample(text="Paris.", content="Paris."),
        Sample(text="Hm.</think>Paris.", reasoning="Hm.", content="Paris.", template_kwargs={"thinking": True}),
    ),
)
