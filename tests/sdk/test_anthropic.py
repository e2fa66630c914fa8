"""The anthropic SDK over messages: its types, its accumulator and its errors are the oracle."""

import asyncio
import base64
import io
import json
from typing import Any

import anthropic
import httpx
import pytest
from PIL import Image

from tests.engines.scripted import Script
from tests.sdk.live import END, KEY, Live

HI: Any = [{"role": "user", "content": "Hi"}]
THOUGHT = "<think>\nLet me see 🙂.\n</think>\n\n"
TOOLS: Any = [
    {
        "name": "weather",
        "description": "Weather now.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    {"name": "now", "input_schema": {"type": "object", "properties": {}}},
]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "上海"}}\n</tool_call>'
SECOND = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def essence(message: Any) -> Any:
    blocks = [block.model_dump(exclude={"id"}) for block in message.content]
    return message.role, blocks, message.stop_reason, message.stop_sequence, message.usage


@pytest.mark.parametrize(
    ("answer", "fields", "kinds", "reason"),
    [
        (f"{THOUGHT}Hello, 世界 🙂!{END}", {}, ["thinking", "text"], "end_turn"),
        (
            f"{THOUGHT}Look. {CALL}\n{SECOND}{END}",
            {"tools": TOOLS},
            ["thinking", "text", *["tool_use"] * 2],
            "tool_use",
        ),
        (f"{CALL}{END}", {"tools": TOOLS, "tool_choice": {"type": "any"}}, ["tool_use"], "tool_use"),
        (f"{THOUGHT}a STOP b{END}", {"stop_sequences": ["STOP"]}, ["thinking", "text"], "stop_sequence"),
        (f"{THOUGHT}Hello there, everyone{END}", {"max_tokens": 12}, ["thinking", "text"], "max_tokens"),
        (f"Hello{END}", {"thinking": {"type": "disabled"}}, ["text"], "end_turn"),
        (f"{THOUGHT}{CALL}", {"tools": TOOLS, "max_tokens": 26}, ["thinking", "tool_use"], "max_tokens"),
    ],
    ids=["text", "calls", "any", "stop", "length", "no-thinking", "cut-call"],
)
def test_the_stream_folds_to_the_whole(
    server: Live, answer: str, fields: dict[str, Any], kinds: list[str], reason: str
) -> None:
    client = server.anthropic()
    body: Any = {"model": "m", "messages": HI, "max_tokens": 100, **fields}
    server.says(answer)
    whole = client.messages.create(**body)
    assert ([block.type for block in whole.content], whole.stop_reason) == (kinds, reason)
    for per_chunk in (1, 4, 1000):
        server.says(answer, per_chunk=per_chunk)
        with client.messages.stream(**body) as stream:
            for _ in stream:
                pass
            assert essence(stream.get_final_message()) == essence(whole)


def test_a_tool_loop_with_thinking(server: Live) -> None:
    """The reply's own content goes back as it is, thinking and all."""
    engine = server.says(f"{THOUGHT}Look. {CALL}{END}", f"{THOUGHT}Warm.{END}")
    client = server.anthropic()
    messages: list[Any] = [{"role": "user", "content": "Weather in 上海?"}]
    thinking: Any = {"type": "enabled", "budget_tokens": 1024}
    first = client.messages.create(model="m", messages=messages, tools=TOOLS, max_tokens=2000, thinking=thinking)
    use = first.content[-1]
    assert use.type == "tool_use" and use.input == {"city": "上海"} and use.id.startswith("toolu_")
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "21 °C"}]},
    ]
    second = client.messages.create(
        model="m", messages=messages, tools=TOOLS, max_tokens=2000, system="Be brief.", thinking=thinking
    )
    assert [block.type for block in second.content] == ["thinking", "text"]
    prompt = server.text(engine.requests[1].token_ids)
    for part in ("Be brief.", "Let me see 🙂.", "Look.", CALL, "21 °C"):
        assert part in prompt
    assert engine.requests[1].sampling_params.thinking_token_budget == 1024


def test_the_events_are_anthropics(server: Live) -> None:
    server.says(f"{THOUGHT}Look. {CALL}{END}")
    reply = httpx.post(
        f"{server.url}/v1/messages",
        json={"model": "m", "messages": HI, "tools": TOOLS, "max_tokens": 99, "stream": True},
        headers={"x-api-key": KEY, "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"},
        trust_env=False,
    )
    events = [block.split("\n") for block in reply.text.strip().split("\n\n")]
    assert "[DONE]" not in reply.text
    found = []
    for name, data in events:
        body = json.loads(data.removeprefix("data: "))
        assert name == f"event: {body['type']}"
        found.append((body["type"], body.get("index")))
    squeezed = [one for place, one in enumerate(found) if place == 0 or found[place - 1] != one]
    blocks = [(f"content_block_{what}", index) for index in range(3) for what in ("start", "delta", "stop")]
    assert squeezed == [("message_start", None), *blocks, ("message_delta", None), ("message_stop", None)]


def test_counting_tokens(server: Live) -> None:
    server.says(f"{THOUGHT}Hello.{END}")
    client = server.anthropic()
    body: Any = {"model": "m", "messages": HI, "system": "Be brief.", "tools": TOOLS}
    count = client.messages.count_tokens(**body).input_tokens
    assert client.messages.create(**body, max_tokens=50).usage.input_tokens == count
    # A prompt that is too long can be counted, so that it can be cut.
    long: Any = [{"role": "user", "content": "word " * 45_000}]
    assert client.messages.count_tokens(model="m", messages=long).input_tokens > 40_960
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="m", messages=long, max_tokens=10)


def test_cached_tokens_stand_apart(server: Live) -> None:
    server.says(f"{THOUGHT}Hello.{END}", cached_tokens=5)
    usage = server.anthropic().messages.create(model="m", messages=HI, max_tokens=50).usage
    count = server.anthropic().messages.count_tokens(model="m", messages=HI).input_tokens
    assert (usage.cache_read_input_tokens, usage.input_tokens) == (5, count - 5)


def test_errors_have_the_sdks_classes(server: Live) -> None:
    server.says(f"Hello{END}")
    client = server.anthropic()
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.messages.create(model="absent", messages=HI, max_tokens=9)
    body: Any = unknown.value.body
    assert body["type"] == "error" and body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError) as wrong:
        client.messages.create(model="m", messages=HI, max_tokens=9, extra_body={"temperature": 3})
    assert "temperature" in wrong.value.message
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        client.messages.create(model="m", messages=HI, max_tokens=0)
    with pytest.raises(anthropic.AuthenticationError):
        server.anthropic(api_key="wrong").messages.create(model="m", messages=HI, max_tokens=9)
    bearer = server.anthropic(api_key=None, auth_token=KEY)
    assert bearer.messages.create(model="m", messages=HI, max_tokens=9).content
    with pytest.raises(anthropic.BadRequestError, match="budget_tokens"):
        client.messages.create(
            model="m", messages=HI, max_tokens=1500, thinking={"type": "enabled", "budget_tokens": 1500}
        )
    hosted: Any = [{"type": "web_search_20250305", "name": "web_search"}]
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="m", messages=HI, max_tokens=9, tools=hosted)
    # A text model takes no image.
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="m", messages=[{"role": "user", "content": [image()]}], max_tokens=9)


def image() -> Any:
    out = io.BytesIO()
    Image.new("RGB", (56, 28), "red").save(out, "PNG")
    data = base64.b64encode(out.getvalue()).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def test_an_engine_that_is_busy_or_refuses_is_an_error_reply_in_a_stream_too(server: Live) -> None:
    from app.errors import Overloaded, Unsupported

    client = server.anthropic()
    for error, kind in (
        (Overloaded("Busy.", retry_after=7), anthropic.RateLimitError),
        (Unsupported("Not this.", param="top_k"), anthropic.BadRequestError),
    ):
        server.says("x", fail_after=0, error=error)
        for stream in (False, True):
            with pytest.raises(kind) as refused:
                client.messages.create(model="m", messages=HI, max_tokens=9, stream=stream)
        assert kind is not anthropic.RateLimitError or refused.value.response.headers["retry-after"] == "7"


def test_async_clients(server: Live) -> None:
    def answer(request: Any) -> Script:
        number = server.text(request.token_ids).split("number ")[1].split("<")[0]
        return Script(server.ids(f"{THOUGHT}It is {number}. {CALL}{END}"), delay_s=0.001)

    server.says(answer)

    async def one(client: anthropic.AsyncAnthropic, number: int) -> Any:
        async with client.messages.stream(
            model="m", messages=[{"role": "user", "content": f"number {number}"}], tools=TOOLS, max_tokens=200
        ) as stream:
            async for _ in stream:
                pass
            return await stream.get_final_message()

    async def all_of_them() -> list[Any]:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY, max_retries=0) as client:
            return await asyncio.gather(*(one(client, number) for number in range(16)))

    found = asyncio.run(all_of_them())
    assert [message.content[1].text.strip() for message in found] == [f"It is {number}." for number in range(16)]
    assert len({message.content[2].id for message in found}) == 16
