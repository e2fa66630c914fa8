"""Law 10 for the readers: whatever JSON comes, it is read or refused by name; nothing else is raised."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from app.dialects import tokenize
from app.dialects.responses.items import read_items
from app.errors import InvalidRequest
from app.protocol.tokenize import TokenizeRequest
from app.rendering.request import RenderInput
from tests.parity.replay import READERS
from tests.unit.dialects.bodies import MODEL, Model

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "user", "auto", "none", "function", "text", "\0", "ü🙂"])
)
KINDS = [
    *("text", "input_text", "output_text", "image_url", "input_image", "image", "thinking", "tool_use", "tool_result"),
    *("function_call", "function_call_output", "custom_tool_call", "reasoning", "message", "item_reference", "base64"),
    *("function", "custom", "namespace", "web_search", "allowed_tools", "json_schema", "structural_tag", "json_object"),
    *("tool_reference", "tool_addition", "tool_removal", "enabled", "disabled", "tool", "any", "input_audio", "a:b"),
]
KEYS = [
    *("role", "content", "type", "text", "name", "id", "call_id", "arguments", "input", "output", "summary", "status"),
    *("tool_calls", "function", "parameters", "tools", "image_url", "url", "source", "data", "media_type", "uuid"),
    *("thinking", "tool_use_id", "format", "schema", "json_schema", "mode", "namespace", "strict", "input_schema"),
    *("detail", "file_id", "refusal", "tool", "tool_name", "budget_tokens", "effort", "prompt_token_ids", "regex"),
    *("encrypted_content", "tool_call_id", "reasoning", "description", "defer_loading", "structures", "triggers"),
]


ROLES = st.sampled_from(["user", "assistant", "system", "developer", "tool"])


def values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | objects(inner)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    loose = st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=4).map(dict)
    typed = st.builds(lambda rest, kind: {**rest, "type": kind}, loose, st.sampled_from(KINDS))
    spoken = st.builds(lambda rest, role, content: {**rest, "role": role, "content": content}, loose, ROLES, inner)
    return typed | spoken | loose


JSON = st.recursive(SCALARS | st.sampled_from(KINDS), values, max_leaves=8)
OBJECTS = objects(JSON)


def fitting(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Values that decode as a field's type, and may still be wrong in every other way."""
    match kind:
        case inspect.Metadata(type=inner):
            return fitting(inner)
        case inspect.UnionType(types=types):
            return st.one_of(*(fitting(one) for one in types))
        case inspect.IntType():
            return st.integers(-3, 3) | st.integers()
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0, 0.5, 1])
        case inspect.BoolType():
            return st.booleans()
        case inspect.StrType():
            return st.sampled_from([*KINDS, "", "none", "auto", "required", "left", "high"]) | st.text(max_size=3)
        case inspect.NoneType():
            return st.none()
        case inspect.ListType(item_type=inner):
            return st.lists(fitting(inner), max_size=4)
        case inspect.DictType(value_type=inspect.AnyType()):
            return OBJECTS
        case inspect.DictType(value_type=inner):
            return st.dictionaries(st.text(max_size=3) | st.just("7"), fitting(inner), max_size=3)
        case inspect.StructType(fields=fields):
            needed = {field.encode_name: fitting(field.type) for field in fields if field.required}
            others = {field.encode_name: fitting(field.type) for field in fields if not field.required}
            return st.fixed_dictionaries(needed, optional=others)
    return JSON


def bodies(shape: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of a request's fields with values of their types (or, seldom, of any), the rest valid."""
    fields = {field.encode_name: field.type for field in inspect.type_info(shape).fields}  # type: ignore[attr-defined]
    fine: dict[str, Any] = {"model": "small"}
    if "messages" in fields:
        fine["messages"] = [{"role": "user", "content": "x"}]
    if "system" in fields:
        fine["max_tokens"] = 5
    if "input" in fields:
        fine["input"] = "x"
    if "best_of" in fields:
        fine["prompt"] = "x"
    tools = [{"type": "function", "name": "f", "function": {"name": "f"}, "input_schema": {}}]
    rest = st.sampled_from([fine, fine, fine, {}, fine | {"tools": tools}] if "tools" in fields else [fine, fine, {}])
    typed = {name: fitting(kind) for name, kind in fields.items()}
    one = st.sampled_from(sorted(fields)).flatmap(lambda name: st.tuples(st.just(name), typed[name]))
    any_ = st.tuples(st.sampled_from(sorted(fields)), JSON)
    return st.builds(lambda base, more: {**base, **dict(more)}, rest, st.lists(one | one | one | any_, max_size=3))


def read(path: str, body: bytes, model: Model) -> Any:
    shape, reader = READERS[path]
    return reader(msgspec.json.decode(body, type=shape), model=model, request_id=None)


ASKED = st.one_of(*(st.tuples(st.just(path), bodies(shape)) for path, (shape, _) in READERS.items()))


@settings(max_examples=400, deadline=None)
@given(ASKED, st.sampled_from([MODEL, Model(tool_format=None)]))
def test_any_body_is_read_or_refused_by_name(asked: tuple[str, dict[str, Any]], model: Model) -> None:
    path, body = asked
    try:
        got = read(path, msgspec.json.encode(body), model)
    except msgspec.DecodeError as error:
        assert str(error)
    except InvalidRequest as error:
        assert error.param
        assert error.message
    else:
        for one in got if isinstance(got, list) else [got]:
            assert isinstance(one, RenderInput)
            assert [one.conversation is None, one.text is None and one.token_ids is None].count(True) >= 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=30) | st.text(max_size=30).map(str.encode))
def test_bytes_that_are_no_json_are_decode_errors(body: bytes) -> None:
    for path in READERS:
        try:
            read(path, body, MODEL)
        except (msgspec.DecodeError, InvalidRequest):
            continue
        raise AssertionError(f"{path} took {body!r}")


@settings(max_examples=150, deadline=None)
@given(bodies(TokenizeRequest))
def test_any_tokenize_body(body: dict[str, Any]) -> None:
    try:
        got = tokenize.read(msgspec.json.decode(msgspec.json.encode(body), type=TokenizeRequest))
    except msgspec.DecodeError:
        return
    except InvalidRequest as error:
        assert error.param
        return
    assert (got.text is None) != (got.conversation is None)


TURNS = st.lists(
    st.sampled_from(
        [
            {"role": "user", "content": "u"},
            {"role": "developer", "content": "d"},
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": []},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "o"},
            {"type": "web_search_call", "id": "ws"},
        ]
    ),
    max_size=12,
)


@given(TURNS)
def test_nothing_of_a_history_is_lost_or_moved(items: list[dict[str, Any]]) -> None:
    """Every text, thought, call and result of the items is in the messages, in the same order within its kind."""
    read_, _ = read_items(items)
    shown = [(m.role, m.content) for m in read_ if m.content]
    assert [c for r, c in shown if r == "assistant"] == ["a"] * sum(i.get("content") == "a" for i in items)
    others = [i for i in items if i.get("role") in ("user", "developer") or i.get("type") == "function_call_output"]
    assert [c for r, c in shown if r != "assistant"] == [i.get("content", i.get("output")) for i in others]
    assert sum(m.reasoning is not None for m in read_) == sum(i.get("type") == "reasoning" for i in items)
    assert sum(len(m.tool_calls) for m in read_) == sum(i.get("type") == "function_call" for i in items)


@given(TURNS, st.integers(0, 12))
def test_where_a_history_was_cut_into_turns_does_not_matter(items: list[dict[str, Any]], cut: int) -> None:
    """Items handed in as history and items of the request make one conversation."""
    assert read_items(items, history=min(cut, len(items))) == read_items(items)
