"""A request that must call a tool, from render over the local engine to the derendered reply, with random weights."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import msgspec
import pytest

from app.derendering.stream_state import StateSeal
from app.dialects.chat.derender import derender
from app.dialects.chat.read import read
from app.engines.engine import EngineConfig
from app.engines.local.engine import LocalEngine
from app.models import ServedModel
from app.protocol.chat import ChatRequest
from app.protocol.derender import ChatDerenderRequest
from tests.engines.tiny import collect

PORT = {
    "type": "object",
    "properties": {
        "port": {"type": "string", "enum": ["Oslo", "Bergen"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["port", "days"],
    "additionalProperties": False,
}
TIDE = {"type": "function", "function": {"name": "tide", "parameters": PORT, "strict": True}}
SUN = {"type": "function", "function": {"name": "sun", "parameters": PORT, "strict": True}}
THINK_END = 151668
"""Qwen 3's ``</think>``."""


def random_engine(model: ServedModel) -> LocalEngine:
    """An engine over a model of random weights that has the served model's vocabulary."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        "llama", vocab_size=model.vocab_size, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=2048,
        eos_token_id=list(model.eos_token_ids), pad_token_id=model.eos_token_ids[0],
    )  # fmt: skip
    weights = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    made = EngineConfig(
        name="random",
        kind="local",
        eos_token_ids=model.eos_token_ids,
        tokenizer=model.tokenizer,
        options={"threads": 1},
    )
    return LocalEngine(made, model=weights)


def unspaced(model: ServedModel) -> dict[str, float]:
    """Biases against white space, of which random weights would never have enough."""
    spaces = (i for i in range(model.vocab_size) if model.tokenizer.token_bytes(i).isspace())
    return {str(i): -60.0 for i in spaces}


async def answer(model: ServedModel, **body: Any) -> Any:
    """The whole chat reply to a body, over the three stations that separate servers may be."""
    chat = msgspec.convert(
        {"model": model.name, "max_tokens": 1000, "seed": 11, "temperature": 1.0, "top_k": -1, "top_p": 1.0, **body},
        ChatRequest,
    )
    rendered = await model.renderer.render(read(chat, model=model))
    engine = random_engine(model)
    await engine.start()
    try:
        outputs = await collect(engine, rendered)
    finally:
        await engine.stop()
    choices = [
        {"index": 0, "token_ids": outputs[0].token_ids, "finish_reason": outputs[0].finish_reason},
    ]
    asked = {
        "chat_request": msgspec.to_builtins(chat),
        "generate_response": {"request_id": rendered.request_id, "choices": choices},
        "prompt_token_ids": rendered.token_ids,
    }
    request = msgspec.json.decode(msgspec.json.encode(asked), type=ChatDerenderRequest)
    return msgspec.json.decode(msgspec.json.encode(derender(request, model, StateSeal("key"), now=1)))


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "sun"}}])
async def test_a_forced_hermes_call_is_a_call_of_the_schema(
    served_model: Callable[..., ServedModel], choice: Any, thinking: bool
) -> None:
    model = served_model("qwen3", tool_format="hermes", reasoning_format="qwen3", max_model_len=2048)
    reply = await answer(
        model,
        messages=[{"role": "user", "content": "When is high water?"}],
        tools=[TIDE, SUN],
        tool_choice=choice,
        parallel_tool_calls=False,
        chat_template_kwargs={"enable_thinking": thinking},
        logit_bias=unspaced(model) | ({str(THINK_END): 8.0} if thinking else {}),
    )
    [given] = reply["choices"]
    assert given["finish_reason"] == ("tool_calls" if choice == "required" else "stop")
    [call] = given["message"]["tool_calls"]
    assert call["function"]["name"] == "sun" or choice == "required"
    jsonschema.validate(json.loads(call["function"]["arguments"]), PORT)
    assert not given["message"]["content"]
    assert bool(given["message"]["reasoning"]) == thinking
