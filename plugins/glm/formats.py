"""GLM 4.5 to 4.7: the name as first text of the call, then keys and values in turn."""

import msgspec

from app.parsing.format import Constraints, Elements, LooseArguments, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("GLM45", "GLM45_REASONING", "GLM47", "GLM47_REASONING", "GLM_CONSTRAINTS")

_SAMPLES = (
    Sample(
        text="<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>t</arg_key>\n"
        "<arg_value>x y</arg_value>\n</tool_call>",
        calls=(("add", '{"a": 1, "t": "x y"}'),),
    ),
    Sample(
        text="Two.<tool_call>now</tool_call><tool_call>now\n</tool_call>\nDone.",
        content="Two.\nDone.",
        calls=(("now", "{}"), ("now", "{}")),
    ),
    Sample(text="The tag <tool_call> opens a call.", content="The tag <tool_call> opens a call."),
)


_EXCLUDES = ("<think>", "</think>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
GLM_CONSTRAINTS = Constraints(
    tags=(("<tool_call>{name}", "</tool_call>"),),
    trigger="<tool_call>",
    style="glm_xml",
    loose=LooseArguments(
        open="<arg_key>{key}</arg_key><arg_value>",
        close="</arg_value>",
        excludes=(*_EXCLUDES[:2], "<tool_call>", *_EXCLUDES[2:]),
    ),
    excludes=_EXCLUDES,
    required="triggered",
    named="alone",
)


def _glm(name: str) -> ToolFormat:
    return ToolFormat(
        name=name,
        sections=(
            Section(
                open="<tool_call>",
                lead=True,
                body=Elements(
                    heads=("<tool_call> {name}",),
                    parameters=("<arg_key>{key}</arg_key> <arg_value>",),
                    parameter_close=("</arg_value>",),
                    close=("</tool_call>",),
                    certain=False,
                ),
            ),
        ),
        special_tokens="keep",
        constraints=msgspec.structs.replace(GLM_CONSTRAINTS, always=True),
        signature=("<tool_call>", "</tool_call>", "<arg_key>", "<arg_value>"),
        samples=_SAMPLES,
    )


GLM45 = _glm("glm45")
GLM47 = _glm("glm47")


def _thinking(name: str) -> ReasoningFormat:
    return ReasoningFormat(
        name=name,
        open=("<think>",),
        close=("</think>",),
        starts="inside",
        special_tokens="keep",
        signature=("<think>", "</think>", "<arg_key>", "<arg_value>"),
        samples=(
            Sample(text="<think>Hm.</think>\nHi.", reasoning="Hm.", content="Hi."),
            Sample(text="Hi.", content="Hi.", template_kwargs={"enable_thinking": False}),
        ),
    )


GLM45_REASONING = _thinking("glm45")
GLM47_REASONING = _thinking("glm47")
