"""JSON bodies to what the readers make of them, for a model that is only as much as reading needs."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from app.dialects.chat.read import read as read_chat
from app.dialects.completions.read import read as read_completions
from app.dialects.messages.read import read as read_messages
from app.dialects.responses.read import read as read_responses
from app.errors import InvalidRequest
from app.protocol.chat import ChatRequest
from app.protocol.completions import CompletionsRequest
from app.protocol.messages import MessagesRequest
from app.protocol.responses import ResponsesRequest
from app.rendering.conversation import Message
from app.rendering.request import RenderInput


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A stand-in for a served model."""

    name: str = "small"
    max_model_len: int = 1000
    vocab_size: int = 500
    tool_format: object | None = "some format"
    generation_defaults: Mapping[str, Any] = {}


MODEL = Model()
USER = [{"role": "user", "content": "Which way is north?"}]


def chat(served: Model = MODEL, header: str | None = None, **body: Any) -> RenderInput:
    request = msgspec.convert({"messages": USER} | body, ChatRequest)
    return read_chat(request, model=served, request_id=header)


def completions(served: Model = MODEL, header: str | None = None, **body: Any) -> list[RenderInput]:
    return read_completions(msgspec.convert(body, CompletionsRequest), model=served, request_id=header)


def responses(
    *items: Any, served: Model = MODEL, history: list[dict[str, Any]] | None = None, **body: Any
) -> RenderInput:
    request = msgspec.convert({"input": list(items) or "Which way is north?"} | body, ResponsesRequest)
    return read_responses(request, model=served, history=history)


def messages(served: Model = MODEL, header: str | None = None, **body: Any) -> RenderInput:
    request = msgspec.convert({"model": "small", "max_tokens": 9, "messages": USER} | body, MessagesRequest)
    return read_messages(request, model=served, request_id=header)


def conversation(given: RenderInput) -> list[Message]:
    assert given.conversation is not None
    return given.conversation.messages


def refused(call: Callable[..., Any], param: str | None, *args: Any, **body: Any) -> InvalidRequest:
    """The refusal, whose ``param`` is checked."""
    with pytest.raises(InvalidRequest) as caught:
        call(*args, **body)
    assert caught.value.param == param
    assert caught.value.message
    return caught.value
