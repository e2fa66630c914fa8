"""A small model with Qwen's formats, and outputs of it, for every dialect's derender."""

from typing import Any

import msgspec

from app.dialects.completions.derender import derender as completions_derender
from app.dialects.messages.derender import derender as messages_derender
from app.dialects.responses.derender import derender as responses_derender
from app.protocol.derender import CompletionsDerenderRequest, MessagesDerenderRequest, ResponsesDerenderRequest
from plugins.qwen.formats import HERMES, QWEN3
from tests.derendering.served import NOW, SEAL, SmallModel, cut, wire
from tests.derendering.tokenizers_at_hand import byte_level

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "上海"}}\n</tool_call>'
SECOND = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
ANSWER = f"<think>\nLet me look 🙂.\n</think>\n\nOne moment. {CALL}\n{SECOND}"
EOS = byte_level().eos_token_id


def talking_model() -> SmallModel:
    return SmallModel(byte_level(), HERMES, QWEN3)


def ids_of(text: str) -> list[int]:
    return byte_level().encode(text).ids


PROMPT = ids_of("<|other|>user hi<|other|>assistant\n")


def response(text: str, finish: str = "stop", request_id: str = "resp_x", **choice: Any) -> dict[str, Any]:
    ids = [*ids_of(text), EOS] if finish == "stop" else ids_of(text)
    return {"request_id": request_id, "choices": [{"token_ids": ids, "finish_reason": finish, **choice}]}


def chunks(text: str, sizes: list[int], finish: str = "stop", request_id: str = "resp_x") -> list[dict[str, Any]]:
    ids = [*ids_of(text), EOS] if finish == "stop" else ids_of(text)
    parts = cut(ids, sizes)
    return [
        {
            "request_id": request_id,
            "choices": [{"token_ids": p, "finish_reason": finish if i == len(parts) - 1 else None}],
        }
        for i, p in enumerate(parts)
    ]


KINDS = {
    "completions": (CompletionsDerenderRequest, completions_derender),
    "responses": (ResponsesDerenderRequest, responses_derender),
    "messages": (MessagesDerenderRequest, messages_derender),
}


def call(dialect: str, model: SmallModel, /, **body: Any) -> Any:
    """A derender call, over JSON in and out."""
    kind, derender = KINDS[dialect]
    return wire(derender(msgspec.json.decode(msgspec.json.encode(body), type=kind), model, SEAL, now=NOW))


def stream(dialect: str, model: SmallModel, parts: list[dict[str, Any]], /, **body: Any) -> list[Any]:
    """All events of a stream, the state threaded through; every third chunk is sent twice."""
    state, events = None, []
    for number, chunk in enumerate(parts):
        sent = {**body, "stream": True, "generate_chunk": chunk, "stream_state": state}
        answer = call(dialect, model, **sent)
        if number % 3 == 1:
            assert call(dialect, model, **sent) == answer
        state = answer["stream_state"]
        events += answer["events"]
        body.pop("prompt_token_ids", None)
    return events
