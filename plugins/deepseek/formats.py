"""DeepSeek: sections of full-width-bar tokens (V3, V3.1), DSML elements (V3.2 on), thinking that the prompt opens."""

import msgspec

from app.parsing.format import Constraints, Elements, NamedJson, ReasoningFormat, Sample, Section, ToolFormat

__all__ = (
    "DEEPSEEK_R1",
    "DEEPSEEK_V3",
    "DEEPSEEK_V3_REASONING",
    "DEEPSEEK_V4",
    "DEEPSEEK_V4_REASONING",
    "DEEPSEEK_V31",
    "DEEPSEEK_V32",
    "DEEPSEEK_V41",
    "DEEPSEEK_V41_REASONING",
    "HOLO2",
)


def _section(heads: tuple[str, ...], close: tuple[str, ...]) -> tuple[Section, ...]:
    body = NamedJson(heads=heads, close=close)
    end = ("<｜tool▁calls▁end｜>",)
    return (
        Section(open="<｜tool▁calls▁begin｜>", close=end, body=body),
        Section(open="<｜tool▁call▁begin｜>", lead=True, close=end, body=body),
    )


def _constraints(head: str, end: str, *, separator: str) -> Constraints:
    return Constraints(
        tags=((f"<｜tool▁call▁begin｜>{head}", f"{end}<｜tool▁call▁end｜>"),),
        trigger="<｜tool▁calls▁begin｜>",
        separator=separator,
        section_open="<｜tool▁calls▁begin｜>",
        section_close=("<｜tool▁calls▁end｜>",),
        excludes=("<think>", "</think>"),
        named="merged",
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
    constraints=_constraints("function<｜tool▁sep｜>{name}\n```json\n", "\n```", separator="\n"),
    signature=("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "```json"),
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
    constraints=_constraints("{name}<｜tool▁sep｜>", "", separator=""),
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
    signature=("<think>", "</think>", "<｜Assistant｜>", "thinking is defined"),
    samples=(
        Sample(text="Paris.", content="Paris."),
        Sample(text="Hm.</think>Paris.", reasoning="Hm.", content="Paris.", template_kwargs={"thinking": True}),
    ),
)


def _dsml(name: str, open: str, close: str, tag: str = "invoke", style: str = "deepseek_xml") -> ToolFormat:
    body = Elements(
        heads=('<｜DSML｜ invoke name="{name}">',),
        parameters=('<｜DSML｜ parameter name="{key}" string="{type}">', '<｜DSML｜ parameter name="{key}">'),
        parameter_close=("</｜DSML｜parameter>", "</｜DSML｜ parameter>"),
        close=("</｜DSML｜invoke>", "</｜DSML｜ invoke>"),
        typed_by="flag",
    )
    invoke = f'<｜DSML｜{tag} name="{{}}">\n{{}}</｜DSML｜{tag}>\n'
    parameter = tag.replace("invoke", "parameter")
    text = f'<｜DSML｜{parameter} name="x" string="true">1 < 2</｜DSML｜{parameter}>\n'
    number = f'<｜DSML｜{parameter} name="n" string="false">[1, 2]</｜DSML｜{parameter}>\n'
    return ToolFormat(
        name=name,
        sections=(
            Section(open=open, close=(close,), body=body),
            Section(open="<｜DSML｜invoke", lead=True, close=(close,), body=body),
        ),
        constraints=Constraints(
            tags=((f'<｜DSML｜{tag} name="{{name}}">\n', f"</｜DSML｜{tag}>\n"),),
            trigger=open,
            style=style,
            section_open=f"{open}\n",
            section_close=(close,),
            excludes=("<think>", "</think>"),
            once=name != "deepseek_v32",
            named="alone",
            lead="\n\n",
        ),
        signature=("｜DSML｜", open.removeprefix("<｜DSML｜").strip(" >")),
        samples=(
            Sample(
                text=f"ok\n\n{open}\n{invoke.format('f', text + number)}{invoke.format('g', '')}{close}",
                content="ok",
                calls=(("f", '{"x": "1 < 2", "n": [1, 2]}'), ("g", "{}")),
            ),
        ),
    )


DEEPSEEK_V32 = _dsml("deepseek_v32", "<｜DSML｜function_calls>", "</｜DSML｜function_calls>")
DEEPSEEK_V4 = _dsml("deepseek_v4", "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>")
DEEPSEEK_V41 = _dsml("deepseek_v41", "<｜DSML｜ calls>", "</｜DSML｜ calls>", " invoke", "deepseek_v4_1_xml")


def _thinking(name: str) -> ReasoningFormat:
    return ReasoningFormat(
        name=name,
        open=("<think>",),
        close=("</think>",),
        starts="inside",
        ended="closed_or_off",
        switches=("enable_thinking", "thinking", "reasoning_effort"),
        samples=(
            Sample(text="Hm.</think>Paris.", reasoning="Hm.", content="Paris."),
            Sample(text="Paris.", content="Paris.", template_kwargs={"thinking": False}),
            Sample(text="Paris.", content="Paris.", template_kwargs={"reasoning_effort": "none"}),
        ),
    )


DEEPSEEK_V4_REASONING = _thinking("deepseek_v4")
DEEPSEEK_V41_REASONING = _thinking("deepseek_v41")
HOLO2 = msgspec.structs.replace(
    DEEPSEEK_R1,
    name="holo2",
    signature=(),
    samples=(*DEEPSEEK_R1.samples, Sample(text="Hi.", content="Hi.", template_kwargs={"thinking": False})),
)
