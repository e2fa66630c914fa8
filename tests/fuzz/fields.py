"""Bodies of every POST route, and what a careless or hostile client puts in the place of each of their fields.

A mutant is a body whose one field has a value that it should not have, or has an unusual spelling as JSON; values are
JSON text, as what matters most (NaN, lone surrogates, numbers without bounds) is nothing that ``json.dumps`` writes.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import inspect

__all__ = ("BODIES", "NO_JSON", "VALUES", "Mutant", "mutants")

DEEP = 400
VALUES: tuple[str, ...] = (
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "1e308",
    "1e999",
    "-123456789012345678901234567890",
    "9223372036854775808",
    '""',
    '"x"',
    r'"\u0000"',
    r'"\u202e\ufffe\u0007"',
    '"' + "y" * 5_000 + '"',
    "[]",
    "[null]",
    "[[]]",
    "[{}]",
    "[1]",
    '["x"]',
    "{}",
    '{"": null}',
    '{"type": null}',
    '{"type": "x", "id": 1, "role": [], "name": {}}',
    '{"a": 1, "a": "2"}',
    "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP + "1" + "}" * DEEP,
)
"""What is JSON; a client may put it anywhere."""
NO_JSON: tuple[str, ...] = (
    *("NaN", "Infinity", "-Infinity", "undefined", "'x'", "01", "1.", ".5", "+1", "{1: 2}", "[1,]"),
    *(r'"\ud800"', r'"\udfff\ud800"', r'"\x"', '"\t"', "\ufeff1", ""),
)
"""What is none."""

TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "content": "c",
            "reasoning": "r",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": "1"}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "user", "content": "go", "name": "u"},
    ],
    "tools": [{"type": "function", "function": TOOL}],
    "tool_choice": "auto",
    "max_tokens": 4,
}
COMPLETION: dict[str, Any] = {"model": "m", "prompt": "Hi", "max_tokens": 4}
RESPONSE: dict[str, Any] = {
    "model": "m",
    "instructions": "i",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"role": "user", "content": "go"},
    ],
    "tools": [{"type": "function", **TOOL}],
    "max_output_tokens": 4,
}
RESULT = [{"type": "text", "text": "ok"}]
MESSAGE: dict[str, Any] = {
    "model": "m",
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": ""},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": "1"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": RESULT}]},
    ],
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    "max_tokens": 4,
}  # fmt: skip
LOGPROBS = {
    "content": [{"token_id": 15, "logprob": -0.5, "rank": 1, "top_logprobs": [{"token_id": 15, "logprob": -0.5}]}]
}
ANSWER: dict[str, Any] = {
    "request_id": "chatcmpl-1",
    "choices": [{"index": 0, "token_ids": [15, 16], "finish_reason": "stop", "logprobs": LOGPROBS}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
CHUNK = {"model": "m", "stream": True, "generate_chunk": ANSWER, "prompt_token_ids": [15]}
GENERATE: dict[str, Any] = {
    "model": "m",
    "request_id": "r",
    "token_ids": [15, 16, 17],
    "sampling_params": {"max_tokens": 4, "temperature": 0.5},
    "features": {"mm_hashes": {}, "mm_placeholders": {}},
    "parse_context": {"tools": [{"type": "function", "function": TOOL}], "tool_choice": "auto"},
    "reasoning_parser_kwargs": {"chat_template_kwargs": {}},
}
ITEMS = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]
BODIES: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [CHAT],
    "/v1/chat/completions/render": [CHAT],
    "/v1/completions": [COMPLETION],
    "/v1/completions/render": [COMPLETION],
    "/v1/responses": [RESPONSE],
    "/v1/responses/render": [RESPONSE],
    "/v1/responses/input_tokens": [RESPONSE],
    "/v1/responses/compact": [RESPONSE],
    "/v1/messages": [MESSAGE],
    "/v1/messages/render": [MESSAGE],
    "/v1/messages/count_tokens": [MESSAGE],
    "/v1/chat/completions/derender": [
        {"model": "m", "generate_response": ANSWER, "prompt_token_ids": [15], "chat_request": CHAT},
        {**CHUNK, "chat_request": CHAT},
    ],
    "/v1/completions/derender": [
        {"model": "m", "generate_responses": [ANSWER], "prompt_token_ids": [[15]], "completion_request": COMPLETION},
        {**CHUNK, "completion_request": COMPLETION},
    ],
    "/v1/responses/derender": [
        {"model": "m", "generate_response": ANSWER, "prompt_token_ids": [15], "responses_request": RESPONSE},
        {**CHUNK, "responses_request": RESPONSE},
    ],
    "/v1/messages/derender": [
        {"model": "m", "generate_response": ANSWER, "prompt_token_ids": [15], "messages_request": MESSAGE},
        {**CHUNK, "messages_request": MESSAGE},
    ],
    "/inference/v1/generate": [GENERATE],
    "/inference/v1/abort_requests": [{"request_ids": ["x"]}],
    "/tokenize": [{"model": "m", "prompt": "Hi"}, {key: CHAT[key] for key in ("model", "messages", "tools")}],
    "/detokenize": [{"model": "m", "tokens": [15, 16]}],
    "/v1/conversations": [{"items": ITEMS, "metadata": {"topic": "t"}}],
    "/v1/conversations/{conversation_id}": [{"metadata": {"topic": "t"}}],
    "/v1/conversations/{conversation_id}/items": [{"items": ITEMS}],
}
"""Bodies that are taken as they are, by path."""

Place = tuple[str | int, ...]
HOLE = "\ue000hole"


@dataclass(frozen=True)
class Mutant:
    """A body, where it was changed, and what was put there."""

    text: str
    place: Place
    value: str

    @property
    def field(self) -> str:
        """The first name of the place."""
        return str(self.place[0]) if self.place else ""


def mutants(body: dict[str, Any], struct: Any, values: tuple[str, ...] = VALUES) -> Iterator[Mutant]:
    """Each value in each place: those that the body has, and the fields of its struct that it has not."""
    for place in sorted({*_places(body), *_fields(struct, body)}, key=repr):
        pattern = json.dumps(_with(body, place))
        for value in values:
            yield Mutant(pattern.replace(json.dumps(HOLE), value), place, value)


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    if at:
        yield at
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from _places(inner, (*at, key))


def _fields(kind: Any, body: Any, at: Place = ()) -> Iterator[Place]:
    """Fields of the structs that the body's objects are read as."""
    for struct in _structs(inspect.type_info(kind) if at == () else kind):
        if not isinstance(body, dict):
            return
        for field in struct.fields:
            here = (*at, field.encode_name)
            yield here
            inner = body.get(field.encode_name)
            if isinstance(inner, dict):
                yield from _fields(field.type, inner, here)
            elif isinstance(inner, list):
                for number, item in enumerate(inner):
                    for element in _elements(field.type):
                        yield from _fields(element, item, (*here, number))


def _structs(kind: Any) -> list[Any]:
    return [one for one in _members(kind) if isinstance(one, inspect.StructType)]


def _elements(kind: Any) -> list[Any]:
    return [one.item_type for one in _members(kind) if isinstance(one, inspect.ListType)]


def _members(kind: Any) -> list[Any]:
    kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    return [part for one in kind.types for part in _members(one)] if isinstance(kind, inspect.UnionType) else [kind]


def _with(value: Any, place: Place) -> Any:
    """The value with a hole at that place."""
    if not place:
        return HOLE
    key, *rest = place
    if isinstance(value, dict):
        return {**value, key: _with(value.get(key), tuple(rest))}
    if isinstance(value, list) and isinstance(key, int):
        return [_with(one, tuple(rest)) if number == key else one for number, one in enumerate(value)]
    return _with({}, place)


def named(param: str | None) -> str:
    """The first name of an error's ``param``."""
    return re.split(r"[.\[]", param or "", maxsplit=1)[0]
