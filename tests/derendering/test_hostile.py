"""Answers that no engine gives: derender refuses them or takes them, and never fails."""

from typing import Any

import msgspec
import pytest

from app.derendering.stream_state import StateSeal
from app.dialects.chat.derender import derender as chat_derender
from app.dialects.completions.derender import derender as completions_derender
from app.dialects.messages.derender import derender as messages_derender
from app.dialects.responses.derender import derender as responses_derender
from app.errors import InvalidRequest
from app.protocol.derender import (
    ChatDerenderRequest,
    CompletionsDerenderRequest,
    MessagesDerenderRequest,
    ResponsesDerenderRequest,
)
from plugins.glm.formats import GLM47
from tests.derendering.served import SmallModel

HUGE = 10**30
SAID = [{"role": "user", "content": "hi"}]
CALLS: dict[str, Any] = {
    "chat": (chat_derender, ChatDerenderRequest, {"chat_request": {"messages": SAID, "logprobs": True}}),
    "completions": (
        completions_derender,
        CompletionsDerenderRequest,
        {"completion_request": {"prompt": "hi", "logprobs": 1}},
    ),
    "responses": (responses_derender, ResponsesDerenderRequest, {"responses_request": {"input": "hi"}}),
    "messages": (
        messages_derender,
        MessagesDerenderRequest,
        {"messages_request": {"model": "small", "max_tokens": 9, "messages": SAID}},
    ),
}


def call(dialect: str, chunk: dict[str, Any], **body: Any) -> Any:
    derender, takes, request = CALLS[dialect]
    whole = {"stream": True, "generate_chunk": {"request_id": "x", **chunk}, **request, **body}
    read = msgspec.json.decode(msgspec.json.encode(whole), type=takes)
    return derender(read, SmallModel(), StateSeal("k"), now=1)


@pytest.mark.parametrize("dialect", CALLS)
@pytest.mark.parametrize("index", [-1, 16384, HUGE, -HUGE])
def test_an_index_that_no_choice_has_is_refused(dialect: str, index: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(dialect, {"choices": [{"index": index, "token_ids": [5]}]})
    assert refused.value.param == "generate_chunk.choices[0].index"


@pytest.mark.parametrize("dialect", CALLS)
@pytest.mark.parametrize("count", [-1, HUGE])
def test_a_usage_that_no_engine_counts_is_refused(dialect: str, count: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(dialect, {"choices": [{"token_ids": [5]}], "usage": {"prompt_tokens": count}})
    assert refused.value.param == "generate_chunk.usage.prompt_tokens"


@pytest.mark.parametrize("dialect", CALLS)
def test_a_prompt_that_no_server_has_is_refused(dialect: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="prompt_tokens"):
        call(dialect, {"choices": [{"token_ids": [5]}]}, prompt_tokens=HUGE)


@pytest.mark.parametrize("dialect", CALLS)
@pytest.mark.parametrize("cached", [HUGE, -HUGE, "5", [5]])
def test_cached_tokens_that_cannot_be_are_left_out(dialect: str, cached: Any) -> None:
    usage = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}
    assert call(dialect, {"choices": [{"token_ids": [5]}], "usage": usage}).stream_state


@pytest.mark.parametrize("dialect", CALLS)
@pytest.mark.parametrize("top", [True, -1, 1.5, 7, "x", {"a": 1}, [None], [[]], ["x"]])
def test_alternatives_of_any_shape_raise_nothing_but_refusals(dialect: str, top: Any) -> None:
    entry = {"token_id": 5, "logprob": -0.5, "rank": 1, "top_logprobs": top}
    try:
        call(dialect, {"choices": [{"token_ids": [5], "logprobs": {"content": [entry]}}]})
    except InvalidRequest as refused:
        assert refused.param is not None and "logprobs" in refused.param


def test_a_tool_schema_may_have_numbers_of_any_size() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "integer", "maximum": HUGE}}}
    request = {"messages": SAID, "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]}
    body = {"generate_response": {"choices": [{"token_ids": [5]}]}, "chat_request": request}
    read = msgspec.json.decode(msgspec.json.encode(body), type=ChatDerenderRequest)

    assert chat_derender(read, SmallModel(tool_format=GLM47), StateSeal("k"), now=1).choices
