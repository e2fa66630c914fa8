"""What ``include`` shows of stored items, and what it leaves out where it was not asked for."""

from typing import Any

import msgspec
import pytest

from app.dialects.responses.included import check_include, shown_item, shown_response
from app.errors import InvalidRequest
from app.rendering.limits import INCLUDES

URL = "data:image/png;base64,AAAA"
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "message.input_image.image_url",
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": URL, "detail": "auto"}]},
        {"content": [{"type": "input_image", "image_url": None, "detail": "auto"}]},
    ),
    (
        "computer_call_output.output.image_url",
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": URL}},
        {"output": {"type": "computer_screenshot", "image_url": None}},
    ),
    (
        "file_search_call.results",
        {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "results": [{"text": "found"}]},
        {"results": None},
    ),
    (
        "web_search_call.results",
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}, "results": [1]},
        {"results": None},
    ),
    (
        "web_search_call.action.sources",
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "sources": [{"url": "u"}]}},
        {"action": {"type": "search", "sources": None}},
    ),
    (
        "code_interpreter_call.outputs",
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
        {"outputs": None},
    ),
    (
        "message.output_text.logprobs",
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "logprobs": [{"token": "a"}]}]},
        {"content": [{"type": "output_text", "logprobs": []}]},
    ),
    (
        "reasoning.encrypted_content",
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {},  # given by default, as OpenAI gives it
    ),
]


@pytest.mark.parametrize(("word", "item", "changed"), CASES, ids=[word for word, _, _ in CASES])
def test_an_item_shows_what_is_asked_for(word: str, item: dict[str, Any], changed: dict[str, Any]) -> None:
    data = msgspec.json.encode(item)
    assert shown_item(data, [word]) == data
    others = [other for other in INCLUDES if other != word]
    for include in ([], others):
        assert msgspec.json.decode(shown_item(data, include)) == {**item, **changed}
    body = msgspec.json.encode({"id": "resp_1", "output": [item], "tools": [{"results": [1]}]})
    assert shown_response(body, [word]) == body
    shown = msgspec.json.decode(shown_response(body, []))
    assert shown == {"id": "resp_1", "output": [{**item, **changed}], "tools": [{"results": [1]}]}


def test_every_word_has_a_case() -> None:
    assert sorted(word for word, _, _ in CASES) == sorted(INCLUDES)


def test_an_item_is_never_mistaken_for_another() -> None:
    """The same keys elsewhere are a caller's own."""
    for item in (
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": URL}]},
        {"type": "message", "role": "user", "content": 'say "image_url":"x" and "results":[1]'},
        {"type": "mcp_call", "outputs": [1], "results": [2], "action": {"sources": [3]}},
    ):
        data = msgspec.json.encode(item)
        assert msgspec.json.decode(shown_item(data, [])) == item


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_include(["message.output_text.logprobs", "everything"])
    assert refused.value.param == "include[1]"
