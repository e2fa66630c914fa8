"""The compliance cases of Open Responses (2026-04-24): each reply held against every key that its schemas require."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.models import BUILT, model_directory

from .served import CALL, END, THOUGHT, TOOLS, Served, serve

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")

RESPONSE_KEYS = {
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
    "instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
    "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
    "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
}  # fmt: skip
"""All of them are there in every response, null where they are empty."""
ITEM_KEYS = {
    "message": {"id", "type", "status", "role", "content"},
    "function_call": {"id", "type", "call_id", "name", "arguments", "status"},
    "reasoning": {"id", "type", "summary"},
}
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def served(store_url: str) -> Iterator[Served]:
    with serve(store_url) as running:
        yield running


def check_response(reply: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    assert reply.keys() >= RESPONSE_KEYS
    assert reply["object"] == "response"
    assert reply["status"] == status
    assert isinstance(reply["created_at"], int)
    assert (reply["completed_at"] is not None) is (status == "completed")
    for item in reply["output"]:
        assert item.keys() >= ITEM_KEYS[item["type"]]
        for part in item.get("content") or ():
            if part["type"] == "output_text":
                assert part.keys() >= {"type", "text", "annotations", "logprobs"}
    if (usage := reply["usage"]) is not None:
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        assert usage["input_tokens_details"].keys() >= {"cached_tokens"}
        assert usage["output_tokens_details"].keys() >= {"reasoning_tokens"}
    return reply


def check_stream(events: list[dict[str, Any]]) -> dict[str, Any]:
    assert events[0]["type"] == "response.created"
    assert events[0]["sequence_number"] == 0
    check_response(events[0]["response"], "in_progress")
    assert events[0]["response"]["output"] == []
    assert events[-1]["type"] == "response.completed"
    return check_response(events[-1]["response"])


def text_of(reply: dict[str, Any]) -> str:
    return "".join(part["text"] for item in reply["output"] if item["type"] == "message" for part in item["content"])


def test_basic_text(served: Served) -> None:
    served.says(f"{THOUGHT}Hello to you.{END}")
    reply = check_response(served.post(input=[{"type": "message", "role": "user", "content": "Say hello."}]))
    assert text_of(reply) == "Hello to you."


def test_streaming(served: Served) -> None:
    served.says(f"{THOUGHT}One, two, three.{END}")
    events = served.stream(input=[{"type": "message", "role": "user", "content": "Count to three."}])
    final = check_stream(events)
    told = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert told == text_of(final) == "One, two, three."
    for event in events:
        if event["type"] in ("response.output_text.delta", "response.output_text.done"):
            assert event["logprobs"] == []


def test_a_system_prompt(served: Served) -> None:
    served.says(f"{THOUGHT}Ahoy.{END}")
    given = [
        {"type": "message", "role": "system", "content": "You are a pirate."},
        {"type": "message", "role": "user", "content": "Say hello."},
    ]
    check_response(served.post(input=given))
    assert served.prompt().startswith("<|im_start|>system\nYou are a pirate.<|im_end|>\n<|im_start|>user\n")


def test_tool_calling(served: Served) -> None:
    served.says(f"{THOUGHT}{CALL}{END}")
    reply = check_response(served.post(input="Call f.", tools=TOOLS))
    (call,) = [item for item in reply["output"] if item["type"] == "function_call"]
    assert (call["name"], call["arguments"], call["status"]) == ("f", '{"x": 1}', "completed")
    assert reply["tools"][0]["name"] == "f"


def test_tool_calling_streamed(served: Served) -> None:
    served.says(f"{THOUGHT}{CALL}{END}")
    events = served.stream(input="Call f.", tools=TOOLS)
    (call,) = [item for item in check_stream(events)["output"] if item["type"] == "function_call"]
    of_it = [event for event in events if event.get("item_id") == call["id"]]
    assert [event["type"] for event in of_it[-1:]] == ["response.function_call_arguments.done"]
    assert "".join(event["delta"] for event in of_it[:-1]) == call["arguments"] == of_it[-1]["arguments"]
    assert of_it[-1]["name"] == "f"


IMAGE = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}]


@pytest.mark.skipif("qwen2.5-vl" not in BUILT, reason="no tokenizer data packages (make test installs them)")
def test_an_image(store_url: str) -> None:
    models = [{"name": "m", "source": str(model_directory("qwen2.5-vl")), "tokenizer": "hf"}]
    with serve(store_url, ISTHMUS_MODELS=json.dumps(models)) as seeing:
        seeing.says(f"A pixel.{END}")
        reply = check_response(seeing.post(input=[{"type": "message", "role": "user", "content": IMAGE}]))
        assert text_of(reply) == "A pixel."
        features = seeing.engine.requests[-1].features
        assert features is not None
        assert len(features.mm_placeholders["image"]) == 1


def test_a_model_that_sees_nothing_refuses_an_image_by_name(served: Served) -> None:
    """It says so, instead of answering about a picture that it was never shown."""
    body = {"model": "m", "input": [{"type": "message", "role": "user", "content": IMAGE}]}
    refused = served.call("POST", "/responses", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"].startswith("input[0].content[1]")


def test_several_turns_inline_and_by_id(served: Served) -> None:
    served.says(f"{THOUGHT}Hello Ada.{END}", f"{THOUGHT}Ada.{END}")
    question = {"type": "message", "role": "user", "content": "I am Ada."}
    again = {"type": "message", "role": "user", "content": "Who am I?"}
    first = check_response(served.post(input=[question]))
    inline = check_response(served.post(input=[question, *first["output"], again]))
    prompt = served.prompt()
    chained = check_response(served.post(input=[again], previous_response_id=first["id"]))
    assert served.prompt() == prompt
    assert text_of(inline) == text_of(chained) == "Ada."
    assert inline["usage"]["input_tokens"] == chained["usage"]["input_tokens"]
