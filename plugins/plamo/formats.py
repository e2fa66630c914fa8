"""PLaMo 3: requests of a name and JSON arguments, every part between tokens of its own."""

from app.parsing.format import Constraints, NamedJson, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("PLAMO3", "PLAMO3_REASONING")


def _begin(part: str) -> str:
    return f"<|plamo:begin_{part}:plamo|>"


def _end(part: str) -> str:
    return f"<|plamo:end_{part}:plamo|>"


_HEAD = f"{_begin('tool_request')} {_begin('tool_name')} {{name}} {_end('tool_name')} {_begin('tool_arguments')}"
_JSON = "<|plamo:constrain|>json<|plamo:msg|>"
_CLOSE = _end("tool_arguments") + _end("tool_request")

PLAMO3 = ToolFormat(
    name="plamo3",
    sections=(
        Section(
            open=_begin("tool_requests"),
            close=(_end("tool_requests"),),
            body=NamedJson(heads=(f"{_HEAD} {_JSON}", _HEAD), close=(_CLOSE, _end("tool_arguments"))),
        ),
    ),
    constraints=Constraints(
        tags=((f"{_HEAD}{_JSON}".replace(" ", ""), _CLOSE),),
        trigger=_begin("tool_requests"),
        section_open=_begin("tool_requests"),
        section_close=(_end("tool_requests"), f"{_end('tool_requests')}<|plamo:tag|>"),
    ),
    signature=(_begin("tool_requests"), _begin("tool_name")),
    samples=(
        Sample(
            text=f"ok{_begin('tool_requests')}{_HEAD.replace(' ', '').format(name='f')}{_JSON}"
            f'{{"x": 1}}{_CLOSE}{_HEAD.replace(" ", "").format(name="g")}{_JSON}{{}}{_CLOSE}{_end("tool_requests")}',
            content="ok",
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
    ),
)

PLAMO3_REASONING = ReasoningFormat(
    name="plamo3",
    open=(_begin("think"),),
    close=(_end("think"),),
    starts="inside",
    ended="closed_or_off",
    switches=("enable_thinking",),
    signature=(_begin("think"),),
    samples=(
        Sample(text=f"{_begin('think')}Hm.{_end('think')}Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="Hi.", content="Hi.", template_kwargs={"enable_thinking": False}),
    ),
)
