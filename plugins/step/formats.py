"""StepFun: steptml invokes between full-width-bar tokens (Step 3), Qwen 3 Coder's elements (Step 3.5 and 5)."""

import msgspec

from app.parsing.format import Elements, ReasoningFormat, Sample, Section, ToolFormat
from plugins.deepseek.formats import DEEPSEEK_R1
from plugins.qwen.formats import QWEN3_CODER

__all__ = ("STEP3", "STEP3P5", "STEP3P5_REASONING", "STEP3_REASONING", "STEP5", "STEP5_REASONING")

_ELEMENTS = Elements(
    heads=('<｜tool_call_begin｜> function <｜tool_sep｜> <steptml:invoke name="{name}">',),
    parameters=('<steptml:parameter name="{key}">',),
    parameter_close=("</steptml:parameter>",),
    close=("</steptml:invoke><｜tool_call_end｜>", "</steptml:invoke>\n<｜tool_call_end｜>", "<｜tool_call_end｜>"),
)
_INVOKE = "<｜tool_call_begin｜>function<｜tool_sep｜>"

STEP3 = ToolFormat(
    name="step3",
    sections=(
        Section(open="<｜tool_calls_begin｜>", close=("<｜tool_calls_end｜>",), body=_ELEMENTS),
        Section(open="<｜tool_call_begin｜>", lead=True, close=("<｜tool_calls_end｜>",), body=_ELEMENTS),
    ),
    signature=("<｜tool_calls_begin｜>", "steptml:invoke"),
    samples=(
        Sample(
            text=f'ok<｜tool_calls_begin｜>{_INVOKE}<steptml:invoke name="f"><steptml:parameter name="x">a b'
            '</steptml:parameter><steptml:parameter name="n">2</steptml:parameter></steptml:invoke><｜tool_call_end｜>'
            f'{_INVOKE}<steptml:invoke name="g"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>Done.',
            content="okDone.",
            calls=(("f", '{"x": "a b", "n": 2}'), ("g", "{}")),
        ),
    ),
)

STEP3P5 = msgspec.structs.replace(QWEN3_CODER, name="step3p5", signature=())
STEP5 = msgspec.structs.replace(QWEN3_CODER, name="step5", signature=())

STEP3_REASONING = ReasoningFormat(
    name="step3",
    open=("<think>",),
    close=("</think>",),
    starts="inside",
    samples=(Sample(text="Hm.</think>Hi.", reasoning="Hm.", content="Hi."),),
)

STEP3P5_REASONING = msgspec.structs.replace(STEP3_REASONING, name="step3p5", switches=())
"""Step 3.5 always thinks."""

STEP5_REASONING = msgspec.structs.replace(DEEPSEEK_R1, name="step5", signature=())
