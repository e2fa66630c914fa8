"""Mistral: a JSON array after ``[TOOL_CALLS]`` (to tokenizer v7), or names and arguments in turn (v11 and later)."""

from app.parsing.format import JsonCalls, NamedJson, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("MISTRAL", "MISTRAL_REASONING")

MISTRAL = ToolFormat(
    name="mistral",
    sections=(
        Section(open="[TOOL_CALLS]", body=JsonCalls(ids=("id",))),
        Section(
            open="[TOOL_CALLS]",
            body=NamedJson(heads=(" {name} [CALL_ID] {id} [ARGS]", " {name} [ARGS]")),
            repeat=False,
        ),
        Section(open="[TOOL_CALLS]", body=NamedJson(heads=(" {name}",), certain=False), repeat=False),
    ),
    special_tokens="unless_none",
    call_ids="alphanumeric9",
    forced_keys=("name", "arguments"),
    signature=("[TOOL_CALLS]",),
    samples=(
        Sample(
            text='[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]',
            calls=(("f", '{"x": 1}'), ("g", "{}")),
        ),
        Sample(
            text='ok[TOOL_CALLS]f[ARGS]{"x": "]"}[TOOL_CALLS]g[CALL_ID]abcDEF123[ARGS]{}\nDone.',
            content="ok\nDone.",
            calls=(("f", '{"x": "]"}'), ("g", "{}")),
        ),
        Sample(text='[TOOL_CALLS]f{"x": 1}', calls=(("f", '{"x": 1}'),)),
        Sample(text="[TOOL_CALLS]hello world", content="[TOOL_CALLS]hello world"),
    ),
)

MISTRAL_REASONING = ReasoningFormat(
    name="mistral",
    open=("[THINK]",),
    close=("[/THINK]",),
    special_tokens="keep",
    signature=("[THINK]", "[/THINK]"),
    samples=(Sample(text="[THINK]Hm.[/THINK]Hi.", reasoning="Hm.", content="Hi."),),
)
