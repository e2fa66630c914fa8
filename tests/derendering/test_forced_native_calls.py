"""Forced calls in a format's own syntax (B14), and named choices that nothing may loosen (B33)."""

from typing import Any

import msgspec
import pytest

from app.dialects.chat.read import read
from app.errors import InvalidRequest
from app.protocol.chat import ChatRequest
from plugins.glm.formats import GLM47
from plugins.qwen.formats import QWEN3_CODER
from tests.derendering.served import SmallModel, chat, chat_stream, folded, message
from tests.derendering.talking import chunks, response

NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
TIDE = {
    "type": "function",
    "function": {
        "name": "tide",
        "parameters": {"type": "object", "properties": {"port": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
NAMED = {"type": "function", "function": {"name": "tide"}}
QWEN = (
    QWEN3_CODER,
    "<tool_call>\n<function=tide>\n<parameter=port>\n5\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
    "</function>\n</tool_call>",
)
GLM = (
    GLM47,
    "<tool_call>tide<arg_key>port</arg_key><arg_value>5</arg_value><arg_key>days</arg_key><arg_value>2"
    "</arg_value></tool_call>",
)
each_format = pytest.mark.parametrize(("format", "text"), [QWEN, GLM], ids=["qwen3_coder", "glm47"])


def ask(choice: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "tools": [NOW, TIDE], "tool_choice": choice, **more}


def messages_of(format: Any, text: str, choice: Any) -> list[dict[str, Any]]:
    """The whole reply's message, and those of streams cut in several ways."""
    model = SmallModel(tool_format=format)
    reply = chat(model, generate_response=response(text), chat_request=ask(choice), prompt_token_ids=[1])
    whole = message(reply["choices"][0])
    streams = [
        folded(chat_stream(model, chunks(text, sizes), chat_request=ask(choice, stream=True), prompt_token_ids=[1]))[0]
        for sizes in ([1] * 500, [3, 7] * 50)
    ]
    return [whole, *streams]


@pytest.mark.parametrize("choice", ["required", NAMED])
@each_format
def test_a_forced_call_in_the_models_own_syntax_is_a_call(format: Any, text: str, choice: Any) -> None:
    for got in messages_of(format, text, choice):
        [call] = got["calls"].values()
        assert call[1:] == ["tide", '{"port": "5", "days": 2}']
        assert got["content"] == ""
        assert got["finish_reason"] == ("tool_calls" if choice == "required" else "stop")


@pytest.mark.parametrize("choice", ["required", NAMED])
@pytest.mark.parametrize("format", [QWEN3_CODER, GLM47], ids=["qwen3_coder", "glm47"])
def test_it_finishes_with_a_call_only_if_there_is_one(format: Any, choice: Any) -> None:
    refusal = "I would rather not."
    for got in messages_of(format, refusal, choice):
        assert (got["calls"], got["content"], got["finish_reason"]) == ({}, refusal, "stop")


def test_a_named_choice_is_kept_or_refused() -> None:
    def asked(model: SmallModel, **body: Any) -> Any:
        return read(msgspec.convert(ask(NAMED) | body, ChatRequest), model=model)

    model = SmallModel(tool_format=GLM47)
    assert asked(model).tool_choice.name == "tide"
    with pytest.raises(InvalidRequest) as unknown:
        asked(model, tools=[NOW])
    assert unknown.value.param == "tool_choice"
    with pytest.raises(InvalidRequest) as unread:
        asked(SmallModel())
    assert unread.value.param == "tool_choice"
