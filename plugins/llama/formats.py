"""Llama 3 and 4: bare JSON objects, or Python call lists."""

from app.parsing.format import Constraints, JsonCalls, PythonCalls, Sample, Section, ToolFormat

__all__ = ("LLAMA3_JSON", "LLAMA4_JSON", "LLAMA4_PYTHONIC", "PYTHONIC")

_JSON_SAMPLES = (
    Sample(
        text='{"name": "f", "parameters": {"x": "{;}"}}; {"name": "g", "parameters": {}}',
        calls=(("f", '{"x": "{;}"}'), ("g", "{}")),
    ),
    Sample(
        text='{"name": "f", "parameters": {}}\n{"name": "g", "arguments": {}}\nThen used {search}.',
        content="Then used {search}.",
        calls=(("f", "{}"), ("g", "{}")),
    ),
    Sample(text='<|python_tag|>{"name": "f", "parameters": {}}', calls=(("f", "{}"),)),
    Sample(text='The record is {"name": "Bob"}.', content='The record is {"name": "Bob"}.'),
    Sample(text='{"name": "Bob", "age": 3}', content='{"name": "Bob", "age": 3}'),
)


def _llama_json(name: str) -> ToolFormat:
    body = JsonCalls(arguments=("parameters", "arguments"))
    return ToolFormat(
        name=name,
        sections=(Section(open="<|python_tag|>", body=body), Section(open="{", bare=True, body=body)),
        constraints=Constraints(
            tags=(('{"name": "{name}", "parameters": ', "}"),),
            trigger='{"name": ',
            excludes=("<think>", "</think>"),
            required="triggered",
            named="alone",
        ),
        signature=("<|python_tag|>", '{"name": function name, "parameters": dictionary'),
        samples=_JSON_SAMPLES,
    )


LLAMA3_JSON = _llama_json("llama3_json")
LLAMA4_JSON = _llama_json("llama4_json")

_PYTHON_SAMPLES = (
    Sample(
        text="[f(x='a\\'\"', n=-1.5, t=[True, None, ('b',)], d={'k': 16, 2: ''}), g()]",
        calls=(("f", '{"x": "a\'\\"", "n": -1.5, "t": [true, null, ["b"]], "d": {"k": 16, "2": ""}}'), ("g", "{}")),
    ),
    Sample(text="Use [x](y) and\n[1, 2].", content="Use [x](y) and\n[1, 2]."),
    Sample(text="[now()]\nDone.", content="Done.", calls=(("now", "{}"),)),
)

PYTHONIC = ToolFormat(
    name="pythonic",
    sections=(Section(open="[", bare=True, body=PythonCalls()),),
    samples=_PYTHON_SAMPLES,
)

LLAMA4_PYTHONIC = ToolFormat(
    name="llama4_pythonic",
    sections=(
        Section(open="<|python_start|>", close=("<|python_end|>",), body=PythonCalls()),
        Section(open="[", bare=True, body=PythonCalls()),
    ),
    signature=("<|python_start|>", "<|python_end|>"),
    samples=(
        *_PYTHON_SAMPLES,
        Sample(text='<|python_start|>[f(x="""a"b""")]<|python_end|>', calls=(("f", '{"x": "a\\"b"}'),)),
    ),
)
