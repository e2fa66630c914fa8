"""A served model of a small tokenizer, for derender calls in the process, and the calls' wire shapes."""

from typing import Any

import msgspec

from app.derendering.stream_state import StateSeal
from app.dialects.chat.derender import derender as chat_derender
from app.protocol.derender import ChatDerenderRequest
from tests.derendering.tokenizers_at_hand import SmallTokenizer, byte_level

SEAL = StateSeal("a key")
NOW = 1_795_000_000


class Kwargs:
    def kwargs_of(self, conversation: Any, request: Any) -> dict[str, Any]:
        return dict(request.template.kwargs)


class SmallModel:
    """What derendering needs of a ServedModel."""

    name = "small"
    max_model_len = 4096
    generation_defaults: dict[str, Any] = {}

    def __init__(self, tokenizer: SmallTokenizer | None = None, tool_format: Any = None, reasoning_format: Any = None):
        self.tokenizer = tokenizer or byte_level()
        self.vocab_size = self.tokenizer.vocab_size
        self.tool_format = tool_format
        self.reasoning_format = reasoning_format
        self.eos_token_ids = (self.tokenizer.eos_token_id, self.tokenizer.token_to_id("<|end|>"))
        self.renderer = Kwargs()


def wire(value: Any) -> Any:
    """As JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def chat(model: SmallModel, seal: StateSeal = SEAL, /, **body: Any) -> Any:
    """A chat derender call, over JSON in and out."""
    request = msgspec.json.decode(msgspec.json.encode(body), type=ChatDerenderRequest)
    return wire(chat_derender(request, model, seal, now=NOW))


def chat_stream(model: SmallModel, chunks: list[dict[str, Any]], /, **body: Any) -> list[Any]:
    """The chunks' answers, the state threaded through; the prompt's ids with the first chunk only."""
    state, answers = None, []
    for chunk in chunks:
        answer = chat(model, stream=True, generate_chunk=chunk, stream_state=state, **body)
        state = answer["stream_state"]
        answers.append(answer["chunk"])
        body.pop("prompt_token_ids", None)
    return answers


def folded(answers: list[Any]) -> dict[int, dict[str, Any]]:
    """Messages by choice index, as a client puts them together."""
    whole: dict[int, dict[str, Any]] = {}
    for answer in answers:
        for choice in answer["choices"]:
            at = whole.setdefault(
                choice["index"],
                {
                    "content": "",
                    "reasoning": "",
                    "calls": {},
                    "finish_reason": None,
                    "stop_reason": None,
                    "logprobs": [],
                },
            )
            delta = choice["delta"]
            for key in ("content", "reasoning"):
                at[key] += delta[key] or ""
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    assert call["index"] not in at["calls"]
                    at["calls"][call["index"]] = [call["id"], call["function"]["name"], ""]
                at["calls"][call["index"]][2] += call["function"].get("arguments", "")
            if choice["logprobs"]:
                at["logprobs"] += choice["logprobs"]["content"]
            for key in ("finish_reason", "stop_reason"):
                at[key] = choice[key] if choice[key] is not None else at[key]
    return whole


def message(choice: dict[str, Any]) -> dict[str, Any]:
    """A whole reply's choice in :func:`folded`'s shape."""
    body = choice["message"]
    return {
        "content": body["content"] or "",
        "reasoning": body["reasoning"] or "",
        "calls": {
            i: [call["id"], call["function"]["name"], call["function"]["arguments"]]
            for i, call in enumerate(body.get("tool_calls", ()))
        },
        "finish_reason": choice["finish_reason"],
        "stop_reason": choice["stop_reason"],
        "logprobs": choice["logprobs"]["content"] if choice["logprobs"] else [],
    }


def cut(ids: list[int], sizes: list[int]) -> list[list[int]]:
    """``ids`` in parts of these sizes, the last one with all the rest (and never without a part)."""
    parts, at = [], 0
    for size in sizes:
        parts.append(ids[at : at + size])
        at += size
    return [*parts, ids[at:]]
