"""A reply put back into the history is the model's own tokens again, where the model's template permits it.

Each turn of :mod:`tests.golden.turns` is derendered from its tokens, and the reply's message, just as a client gets it,
goes into the next request; the prompt of that request must begin with the first prompt and then the very same tokens.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.derendering.stream_state import StateSeal
from app.dialects.chat.derender import derender
from app.dialects.chat.read import read
from app.errors import InvalidRequest
from app.models import ServedModel
from app.protocol.chat import ChatRequest
from app.protocol.derender import ChatDerenderRequest
from tests.golden.turns import TURNS, Turn
from tests.models import shared_models

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "tide",
            "description": "High water at a port.",
            "parameters": {
                "type": "object",
                "properties": {
                    "port": {"type": "string", "description": "Where."},
                    "days": {"type": "integer", "description": "How many."},
                },
                "required": ["port"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time.",
            "parameters": {"type": "object", "properties": {}, "required": []},
        },
    },
]


def served(turn: Turn, load: Callable[..., ServedModel]) -> ServedModel:
    """The turn's model, with its formats."""
    more = {}
    if turn.shared:
        if turn.model not in shared_models():
            pytest.skip("no shared folder")
        more["source"] = str(shared_models()[turn.model])
    formats = {"tool_format": turn.tool_format, "reasoning_format": turn.reasoning_format}
    return load(turn.model, settings={"now": "2026-11-29"}, **formats, **more)


def rendered(model: ServedModel, body: dict[str, Any]) -> list[int]:
    """A chat body's prompt."""
    request = msgspec.convert(body, ChatRequest)
    return list(asyncio.run(model.renderer.render(read(request, model=model))).token_ids)


def replied(model: ServedModel, body: dict[str, Any], prompt: list[int], output: list[int]) -> dict[str, Any]:
    """The message that a client gets for a model's tokens."""
    choice = {"index": 0, "token_ids": output, "finish_reason": "stop"}
    asked = {
        "chat_request": body,
        "generate_response": {"request_id": "r", "choices": [choice]},
        "prompt_token_ids": prompt,
    }
    request = msgspec.json.decode(msgspec.json.encode(asked), type=ChatDerenderRequest)
    reply = msgspec.json.decode(msgspec.json.encode(derender(request, model, StateSeal("key"), now=1)))
    message: dict[str, Any] = reply["choices"][0]["message"]
    return message


def followed(message: dict[str, Any]) -> list[dict[str, Any]]:
    """What comes after a turn: the results of its calls, else the user."""
    calls = message.get("tool_calls") or []
    results = [
        {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": "4"} for call in calls
    ]
    return [message, *(results or [{"role": "user", "content": "Thanks."}])]


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: f"{turn.model} {turn.case}")
def test_a_turn_comes_back_as_the_models_own_tokens(turn: Turn, served_model: Callable[..., ServedModel]) -> None:
    model = served(turn, served_model)
    body: dict[str, Any] = {
        "model": model.name,
        "messages": [{"role": "user", "content": "What time is it?"}],
        "chat_template_kwargs": turn.kwargs,
    }
    if turn.tools:
        body["tools"] = TOOLS
    prompt = rendered(model, body)
    output = list(model.tokenizer.encode(turn.text).ids)
    assert output[-1] in model.tokenizer.added_tokens, "the turn ends with an end token"
    message = replied(model, body, prompt, output)
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    assert (message["reasoning"], message["content"] or "", tuple(calls)) == (turn.reasoning, turn.content, turn.calls)
    try:
        again = rendered(model, body | {"messages": [*body["messages"], *followed(message)]})
    except InvalidRequest as refused:
        assert turn.otherwise, refused.message
        return
    own = prompt + output
    begins = again[: len(own)] == own
    if turn.otherwise:
        assert not begins, f"no longer true: {turn.otherwise}"
    else:
        where = next((at for at, (a, b) in enumerate(zip(own, again, strict=False)) if a != b), len(own))
        got, wanted = (model.tokenizer.decode(ids[max(0, where - 4) : where + 24]) for ids in (again, own))
        assert begins, f"at {where}: {got!r} instead of {wanted!r}"
