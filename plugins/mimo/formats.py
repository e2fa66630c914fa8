"""Xiaomi MiMo: Qwen 3 Coder's elements with values taken verbatim."""

import msgspec

from app.parsing.format import Constraints, Elements, Sample, Section, ToolFormat
from plugins.qwen.formats import QWEN3

__all__ = ("MIMO", "MIMO_REASONING")

_ELEMENTS = Elements(
    heads=("<function={name}>",),
    parameters=("<parameter={key}>",),
    parameter_close=("</parameter>",),
    close=("</function>",),
)

MIMO = ToolFormat(
    name="mimo",
    sections=(
        Section(open="<tool_call>", close=("</tool_call>",), body=_ELEMENTS),
        Section(open="<function=", lead=True, close=("</tool_call>",), body=_ELEMENTS),
    ),
    special_tokens="keep",
    constraints=Constraints(
        tags=(("<tool_call><function={name}>", "</function></tool_call>"),),
        trigger="<tool_call>",
        style="qwen_xml",
        excludes=("<think>", "</think>", "</tool_call>", "<function="),
        required="triggered",
        named="alone",
    ),
    samples=(
        Sample(
            text="ok<tool_call>\n<function=f>\n<parameter=x>\na\n</parameter>\n<parameter=n>2</parameter>\n</function>\n"
            "</tool_call>",
            content="ok",
            calls=(("f", '{"x": "\\na\\n", "n": 2}'),),
        ),
    ),
)

MIMO_REASONING = msgspec.structs.replace(QWEN3, name="mimo", signature=(), switches=("enable_thinking",))
