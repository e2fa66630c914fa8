"""The openai SDK over chat completions: its types, its accumulator and its errors are the oracle."""

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

from tests.engines.scripted import Script
from tests.sdk.live import END, KEY, Live

HI: Any = [{"role": "user", "content": "Hi"}]
THOUGHT = "<think>\nLet me see 🙂.\n</think>\n\n"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "description": "Weather now.", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "上海"}}\n</tool_call>'
SECOND = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def accumulated(client: openai.OpenAI, **body: Any) -> ChatCompletion:
    """What the SDK's own accumulator makes of the stream."""
    with client.chat.completions.stream(model="m", **body) as stream:
        for _ in stream:
            pass
        try:
            return stream.get_final_completion()
        except openai.LengthFinishReasonError as cut:
            return cut.completion


def essence(completion: ChatCompletion) -> list[Any]:
    return [
        (
            choice.index,
            choice.finish_reason,
            choice.message.role,
            choice.message.content or "",
            getattr(choice.message, "reasoning", None),
            [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()],
            choice.logprobs and [(one.token, one.bytes) for one in choice.logprobs.content or ()],
        )
        for choice in completion.choices
    ]


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        (f"{THOUGHT}Hello, 世界 🙂!{END}", {}),
        (f"{THOUGHT}One moment. {CALL}\n{SECOND}{END}", {"tools": TOOLS}),
        (f"{CALL}{END}", {"tools": TOOLS, "tool_choice": "required"}),
        (f"{THOUGHT}{CALL} and more{END}", {"tools": TOOLS}),
        (f"{THOUGHT}Hello{END}", {"temperature": 1, "n": 3}),
        (f"{THOUGHT}Hello 🙂{END}", {"logprobs": True, "top_logprobs": 1}),
        (f"{THOUGHT}Hello{END}", {"extra_body": {"include_reasoning": False}}),
        (f"Hello{END}", {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}),
        (f"{THOUGHT}a STOP b{END}", {"stop": ["STOP"]}),
        (f"{THOUGHT}Hello there, everyone", {"max_completion_tokens": 12}),
        (f"{THOUGHT}{CALL}", {"tools": TOOLS, "max_completion_tokens": 26}),
    ],
    ids=[
        "text",
        "calls",
        "required",
        "after-a-call",
        "n",
        "logprobs",
        "hidden",
        "no-thinking",
        "stop",
        "length",
        "cut-call",
    ],
)
def test_the_stream_folds_to_the_whole(server: Live, answer: str, fields: dict[str, Any]) -> None:
    """Law 2, through HTTP, judged by the SDK."""
    server.says(answer)
    client = server.openai()
    whole = client.chat.completions.create(model="m", messages=HI, **fields)
    for per_chunk in (1, 3, 1000):
        server.says(answer, per_chunk=per_chunk)
        streamed = accumulated(client, messages=HI, stream_options={"include_usage": True}, **fields)
        assert essence(streamed) == essence(whole)
        assert streamed.usage == whole.usage


def test_reasoning_stands_in_its_own_field(server: Live) -> None:
    server.says(f"{THOUGHT}Hello.{END}")
    reply = server.openai().chat.completions.create(model="m", messages=HI)
    message: Any = reply.choices[0].message
    assert (message.reasoning, message.content) == ("Let me see 🙂.", "Hello.")
    assert reply.usage and reply.usage.completion_tokens_details
    assert 0 < (reply.usage.completion_tokens_details.reasoning_tokens or 0) < reply.usage.completion_tokens


def test_a_tool_loop(server: Live) -> None:
    """The reply's own message goes back as it is, and the prompt holds what the model wrote."""
    engine = server.says(f"{THOUGHT}{CALL}\n{SECOND}{END}", f"Warm.{END}")
    client = server.openai()
    messages: list[Any] = [{"role": "user", "content": "Weather in 上海?"}]
    first = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    assert [json.loads(call.function.arguments) for call in choice.message.tool_calls or ()] == [{"city": "上海"}, {}]
    ids = [call.id for call in choice.message.tool_calls or ()]
    assert len(set(ids)) == 2
    messages.append(choice.message)
    messages += [{"role": "tool", "tool_call_id": call_id, "content": "21 °C"} for call_id in ids]
    second = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    assert second.choices[0].finish_reason == "stop"
    prompt = server.text(engine.requests[1].token_ids)
    assert [prompt.index(part) for part in ("Weather in", "weather", "上海", "21 °C")] and CALL in prompt


def test_call_fragments_are_as_clients_want_them(server: Live) -> None:
    """B42: id, type and name once; finish_reason always there; nothing empty or null in its place."""
    server.says(f"{THOUGHT}{CALL}\n{SECOND}{END}")
    raw = server.openai().chat.completions.with_raw_response.create(model="m", messages=HI, tools=TOOLS, stream=True)
    assert raw.headers["content-type"].startswith("text/event-stream")
    chunks = [json.loads(line[6:]) for line in raw.http_response.read().decode().split("\n\n") if "{" in line]
    begun = set()
    for chunk in chunks:
        for choice in chunk["choices"]:
            assert "finish_reason" in choice
            assert choice["delta"].get("tool_calls") != [] and None not in choice["delta"].values()
            for call in choice["delta"].get("tool_calls", ()):
                first = call["index"] not in begun
                begun.add(call["index"])
                assert ("id" in call, "type" in call, "name" in call["function"]) == (first,) * 3
    assert begun == {0, 1}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_structured_output_is_parsed(server: Live) -> None:
    class Place(BaseModel):
        city: str
        people: int

    engine = server.says(f'{THOUGHT}{{"city": "Oslo", "people": 700000}}{END}')
    reply = server.openai().chat.completions.parse(model="m", messages=HI, response_format=Place)
    assert reply.choices[0].message.parsed == Place(city="Oslo", people=700000)
    asked = engine.requests[0].sampling_params.structured_outputs
    assert asked.json["properties"].keys() == {"city", "people"}


def test_strict_tools_are_parsed(server: Live) -> None:
    class Weather(BaseModel):
        city: str

    server.says(f"{THOUGHT}{CALL}{END}")
    tool = openai.pydantic_function_tool(Weather, name="weather")
    reply = server.openai().chat.completions.parse(model="m", messages=HI, tools=[tool])
    (call,) = reply.choices[0].message.tool_calls or ()
    assert call.function.parsed_arguments == Weather(city="上海")


def test_tool_choices_reach_the_engine(server: Live) -> None:
    client = server.openai()
    named: Any = {"type": "function", "function": {"name": "weather"}}
    allowed: Any = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]},
    }
    found = []
    for choice in ("auto", "none", "required", named, allowed):
        engine = server.says(f"{CALL}{END}")
        reply = client.chat.completions.create(model="m", messages=HI, tools=TOOLS, tool_choice=choice)
        constraint = engine.requests[0].sampling_params.structured_outputs
        tag = getattr(constraint, "structural_tag", None) or ""
        found.append((reply.choices[0].finish_reason, "weather" in tag, "now" in tag))
    assert found == [
        ("tool_calls", False, False),
        ("stop", False, False),
        ("tool_calls", True, True),
        ("stop", True, False),
        ("tool_calls", False, True),
    ]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="m", messages=HI, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "absent"}}
        )
    assert refused.value.param == "tool_choice"


def test_parallel_calls_can_be_switched_off(server: Live) -> None:
    server.says(f"{THOUGHT}{CALL}\n{SECOND}{END}")
    reply = server.openai().chat.completions.create(model="m", messages=HI, tools=TOOLS, parallel_tool_calls=False)
    assert [call.function.name for call in reply.choices[0].message.tool_calls or ()] == ["weather"]


def test_usage_in_streams(server: Live) -> None:
    client = server.openai()
    server.says(f"Hello there{END}")
    plain = list(client.chat.completions.create(model="m", messages=HI, stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in plain)
    told = list(
        client.chat.completions.create(model="m", messages=HI, stream=True, stream_options={"include_usage": True})
    )
    assert [chunk.usage is not None for chunk in told] == [False] * (len(told) - 1) + [True]
    assert told[-1].choices == []
    options: Any = {"include_usage": True, "continuous_usage_stats": True}
    running = list(client.chat.completions.create(model="m", messages=HI, stream=True, stream_options=options))
    counts = [chunk.usage.completion_tokens for chunk in running if chunk.usage]
    assert len(counts) == len(running) and counts == sorted(counts) and counts[-1] == told[-1].usage.completion_tokens  # type: ignore[union-attr]


def test_what_else_a_reply_can_tell(server: Live) -> None:
    prompt_logprobs = [None, {"9707": {"logprob": -1.0, "rank": 1}}]
    server.says(f"Hello{END}", prompt_logprobs=prompt_logprobs, kv_transfer_params={"block": 7}, cached_tokens=4)
    body = {
        "return_token_ids": True,
        "prompt_logprobs": 1,
        "return_prompt_text": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    reply: Any = server.openai().chat.completions.create(
        model="m", messages=HI, seed=7, user="u", store=True, metadata={"a": "b"}, extra_body=body
    )
    assert reply.prompt_text == server.text(reply.prompt_token_ids)
    assert reply.choices[0].token_ids == server.ids(f"Hello{END}")
    assert reply.prompt_logprobs == [None, {"9707": {"logprob": -1.0, "rank": 1, "decoded_token": "Hello"}}]
    assert reply.kv_transfer_params == {"block": 7}
    assert reply.usage.prompt_tokens_details.cached_tokens == 4
    assert server.engine.requests[0].sampling_params.seed == 7


def test_stop_strings(server: Live) -> None:
    """B39: by choice, a stop string ends reasoning as it ends content, as engines do; the reply says so."""
    client = server.openai()
    server.says("<think>\nFirst END then\n</think>\n\nHello", delay_s=0.001)
    reply: Any = client.chat.completions.create(model="m", messages=HI, stop="END").choices[0]
    assert (reply.message.reasoning, reply.message.content) == ("First ", None)
    assert (reply.finish_reason, reply.stop_reason) == ("stop", "END")
    kept: Any = client.chat.completions.create(
        model="m", messages=HI, stop="END", extra_body={"include_stop_str_in_output": True}
    ).choices[0]
    assert kept.message.reasoning == "First END"


def test_errors_have_the_sdks_classes(server: Live) -> None:
    server.says(f"Hello{END}")
    client = server.openai()
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="absent", messages=HI)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="m", messages=HI, temperature=3)
    assert (wrong.value.param, wrong.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 50_000}])
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(openai.BadRequestError) as many:
        client.chat.completions.create(model="m", messages=HI, logprobs=True, top_logprobs=21)
    assert many.value.param == "top_logprobs"
    with pytest.raises(openai.AuthenticationError) as stranger:
        server.openai(api_key="wrong").chat.completions.create(model="m", messages=HI)
    assert stranger.value.code == "invalid_api_key"
    with pytest.raises(openai.BadRequestError):
        list(client.chat.completions.create(model="m", messages=[], stream=True))
    assert [model.id for model in client.models.list()] == ["m"]
    assert client.models.retrieve("m").id == "m"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("absent")


def test_sixteen_streams_at_once(server: Live) -> None:
    """Interleaved streams stay apart; async clients."""

    def answer(request: Any) -> Script:
        prompt = server.text(request.token_ids)
        number = prompt.split("number ")[1].split("<")[0]
        return Script(server.ids(f"{THOUGHT}It is {number}. {CALL}{END}"), delay_s=0.001)

    server.says(answer)

    async def one(client: openai.AsyncOpenAI, number: int) -> tuple[str, str, str]:
        async with client.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": f"number {number}"}], tools=TOOLS
        ) as stream:
            async for _ in stream:
                pass
            message: Any = (await stream.get_final_completion()).choices[0].message
        return message.content, message.reasoning, message.tool_calls[0].id

    async def all_of_them() -> list[tuple[str, str, str]]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
            return await asyncio.gather(*(one(client, number) for number in range(16)))

    found = asyncio.run(all_of_them())
    assert [content for content, _, _ in found] == [f"It is {number}." for number in range(16)]
    assert {reasoning for _, reasoning, _ in found} == {"Let me see 🙂."}
    assert len({call_id for _, _, call_id in found}) == 16
