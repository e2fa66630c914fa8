"""Muse: messages to recipients (``to=self`` thinks, ``to=user`` answers), calls as elements in the ATEM name space."""

import msgspec

from app.parsing.format import Elements, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("MUSE", "MUSE_GLIMMER", "MUSE_GLIMMER_REASONING", "MUSE_REASONING")

_START = "<|start|>assistant"
_ENDS = ("<|eom|>", "<|eot|>")


def _headers(*recipients: str) -> tuple[str, ...]:
    """Headers of messages to these, as a turn's first message has them and as later ones do."""
    heads = [f" to={recipient}<|message|>" if recipient else "<|message|>" for recipient in recipients]
    return (*(_START + head for head in heads), *(head.lstrip() for head in heads))


_INVOKE = '<atem:invoke name="{name}">'
_BODY = Elements(
    heads=(
        f"{_START} to={{type}}<|message|> <atem:function_calls> {_INVOKE}",
        f"to={{type}}<|message|> <atem:function_calls> {_INVOKE}",
        _INVOKE,
    ),
    parameters=('<atem:parameter name="{key}">',),
    parameter_close=("</atem:parameter>",),
    close=("</atem:invoke>",),
    doubled=True,
)
_CLOSE = tuple(f"</atem:function_calls>{gap}{end}" for gap in ("", "\n") for end in _ENDS)

_CALLS = (
    '<atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="x">a b</atem:parameter>\n'
    '<atem:parameter name="n">[1, 2]</atem:parameter>\n</atem:invoke>\n<atem:invoke name="g.h">\n</atem:invoke>\n'
    "</atem:function_calls>"
)

MUSE = ToolFormat(
    name="muse",
    sections=(
        Section(open=f"{_START} to=", lead=True, close=(*_CLOSE, "</atem:function_calls>"), body=_BODY),
        Section(open="to=", lead=True, close=(*_CLOSE, "</atem:function_calls>"), body=_BODY),
    ),
    special_tokens="keep",
    signature=("<atem:function_calls>", "<|eom|>"),
    samples=(
        Sample(
            text=f" to=f<|message|>{_CALLS}<|eom|>",
            calls=(("f", '{"x": "a b", "n": [1, 2]}'), ("g.h", "{}")),
        ),
        Sample(
            text=f" to=self<|message|>Hm: <atem:invoke?<|eom|>{_START} to=commentary<|message|>I look.<|eom|>"
            f"{_START} to=f<|message|>\n{_CALLS}\n<|eom|>{_START} to=user<|message|>Done.<|eot|>",
            reasoning="Hm: <atem:invoke?",
            content="I look.Done.",
            calls=(("f", '{"x": "a b", "n": [1, 2]}'), ("g.h", "{}")),
            reasoning_format="muse",
        ),
    ),
)

MUSE_REASONING = ReasoningFormat(
    name="muse",
    open=_headers("self", "developer", ""),
    close=(*_ENDS, *_headers("user", "commentary")),
    special_tokens="keep",
    signature=("to=self", "<|eom|>", "<atem:function_calls>"),
    samples=(
        Sample(
            text=f" to=self<|message|>Hm.<|eom|>{_START} to=user<|message|>Hi.<|eot|>", reasoning="Hm.", content="Hi."
        ),
        Sample(text=f"<|message|>Hm.<|eom|>{_START} to=user<|message|>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text=f" to=self<|message|>Hm.{_START} to=user<|message|>Hi.<|eot|>", reasoning="Hm.", content="Hi."),
        Sample(text=" to=user<|message|>Go to=x, to the left.<|eot|>", content="Go to=x, to the left."),
    ),
)

MUSE_GLIMMER = msgspec.structs.replace(
    MUSE,
    name="muse_glimmer",
    signature=(),
    samples=(MUSE.samples[0], msgspec.structs.replace(MUSE.samples[1], reasoning_format="muse_glimmer")),
)

MUSE_GLIMMER_REASONING = msgspec.structs.replace(
    MUSE_REASONING,
    name="muse_glimmer",
    open=_headers("self", "developer"),
    close=(*_ENDS, *_headers("user", "commentary", "")),
    signature=(),
    samples=(
        MUSE_REASONING.samples[0],
        Sample(text="<|message|>Hi.<|eot|>", content="Hi."),
    ),
)
