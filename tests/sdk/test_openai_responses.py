"""The openai SDK over responses, without a store: order and identity of events, items that come back, tools."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from tests.engines.scripted import Script
from tests.models import BUILT, model_directory
from tests.sdk.live import END, KEY, Live, live, served

THOUGHT = "<think>\nLet me see 🙂.\n</think>\n\n"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAADgAAAAcCAIAAAC72etpAAAAOklEQVR4nO3OQQkAIAAAMbV/Z63gYyDCLcHmHn9YrwO3impFtaJaUa2oVlQrqhXVim"
    "pFtaJaUa2odgCBvQE3zCn3NwAAAABJRU5ErkJggg=="
)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [
    {"type": "function", "name": "weather", "description": "Weather now.", "parameters": PARAMETERS},
    {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}},
]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "上海"}}\n</tool_call>'
SECOND = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
KEYS = {
    "id",
    "created_at",
    "completed_at",
    "model",
    "object",
    "output",
    "parallel_tool_calls",
    "tool_choice",
    "tools",
    "status",
    "incomplete_details",
    "previous_response_id",
    "instructions",
    "error",
    "truncation",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
}


def essence(response: Any) -> Any:
    items = [
        item.model_dump(exclude={"id", "call_id", "parsed_arguments"}, exclude_none=True) for item in response.output
    ]
    for item in items:
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return response.status, items, response.usage, response.incomplete_details


def check_order(events: list[Any]) -> None:
    """B67: one monotone sequence; each item announced once, done in order, under one id that the end repeats."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    ids: list[str] = []
    done: list[Any] = []
    for event in events[2:-1]:
        if event.type == "response.output_item.added":
            assert event.output_index == len(ids) == len(done)
            ids.append(event.item.id)
        elif event.type == "response.output_item.done":
            assert event.output_index == len(done) and event.item.id == ids[-1]
            done.append(event.item)
        else:
            assert (event.item_id, event.output_index) == (ids[-1], len(ids) - 1)
    final = events[-1].response
    assert final.id == events[0].response.id
    assert [item.to_dict() for item in final.output] == [item.to_dict() for item in done]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        (f"{THOUGHT}Hello, 世界 🙂!{END}", {}),
        (f"{THOUGHT}One moment. {CALL}\n{SECOND}{END}", {"tools": TOOLS}),
        (f"{CALL}{END}", {"tools": TOOLS, "tool_choice": "required"}),
        (f"{THOUGHT}{CALL} and more{END}", {"tools": TOOLS}),
        (f"{THOUGHT}Hello 🙂{END}", {"include": ["message.output_text.logprobs"], "top_logprobs": 1}),
        (f"Hello{END}", {"reasoning": {"effort": "none"}}),
        (f"{THOUGHT}{CALL}", {"tools": TOOLS, "max_output_tokens": 26}),
    ],
    ids=["text", "calls", "required", "after-a-call", "logprobs", "no-thinking", "cut-call"],
)
def test_the_stream_folds_to_the_whole(server: Live, answer: str, fields: dict[str, Any]) -> None:
    """Law 2, judged by the SDK, which raises on any event out of order."""
    client = server.openai()
    server.says(answer)
    whole = client.responses.create(model="m", input="Hi", **fields)
    assert whole.to_dict().keys() >= KEYS
    assert whole.status == ("incomplete" if "max_output_tokens" in fields else "completed")
    for per_chunk in (1, 4, 1000):
        server.says(answer, per_chunk=per_chunk)
        with client.responses.stream(model="m", input="Hi", **fields) as stream:
            last: Any = list(stream)[-1]
            assert essence(last.response) == essence(whole)
        check_order(list(client.responses.create(model="m", input="Hi", stream=True, **fields)))


def test_a_cut_response_is_incomplete(server: Live) -> None:
    client = server.openai()
    server.says(f"{THOUGHT}Hello there, everyone and all of you{END}")
    whole = client.responses.create(model="m", input="Hi", max_output_tokens=13)
    assert whole.status == "incomplete" and whole.incomplete_details
    assert whole.incomplete_details.reason == "max_output_tokens"
    assert [getattr(item, "status", None) for item in whole.output] == ["completed", "incomplete"]
    events = list(client.responses.create(model="m", input="Hi", max_output_tokens=13, stream=True))
    assert events[-1].type == "response.incomplete"
    check_order(events)


def test_a_tool_loop_with_inline_items(server: Live) -> None:
    """B64: our own output is valid input, reasoning and all."""
    engine = server.says(f"{THOUGHT}Look. {CALL}{END}", f"{THOUGHT}Warm.{END}", f"{THOUGHT}Bye.{END}")
    client = server.openai()
    items: list[Any] = [{"role": "user", "content": "Weather in 上海?"}]
    first = client.responses.create(model="m", input=items, tools=TOOLS, store=False)
    items += first.output
    call = first.output[-1]
    assert call.type == "function_call" and call.call_id.startswith("call_") and call.arguments == '{"city": "上海"}'
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "21 °C"})
    second = client.responses.create(model="m", input=items, tools=TOOLS, store=False)
    assert second.output_text == "Warm."
    items += [item.to_dict() for item in second.output]
    items.append({"role": "user", "content": "Thanks"})
    assert client.responses.create(model="m", input=items, tools=TOOLS, store=False).output_text == "Bye."
    prompt = server.text(engine.requests[2].token_ids)
    places = [prompt.index(part) for part in ("Weather in", "Look.", CALL, "21 °C", "Warm.", "Thanks")]
    assert places == sorted(places)


def test_codexs_second_turn(server: Live) -> None:
    """B63: items without type, id or status; an empty assistant message renders nothing."""
    engine = server.says(f"{THOUGHT}Done.{END}")
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"role": "assistant", "content": []},
        {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "noon"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "It is noon."}]},
        {"role": "user", "content": "and now?"},
    ]
    assert server.openai().responses.create(model="m", input=items, tools=TOOLS).output_text == "Done."
    prompt = server.text(engine.requests[0].token_ids)
    assert "<|im_start|>assistant\n<|im_end|>" not in prompt
    places = [prompt.index(part) for part in ("go", SECOND, "noon", "It is noon.", "and now?")]
    assert places == sorted(places)


def test_structured_output_is_parsed(server: Live) -> None:
    class Place(BaseModel):
        city: str
        people: int

    engine = server.says(f'{THOUGHT}{{"city": "Oslo", "people": 700000}}{END}')
    client = server.openai()
    assert client.responses.parse(model="m", input="Oslo?", text_format=Place).output_parsed == Place(
        city="Oslo", people=700000
    )
    with client.responses.stream(model="m", input="Oslo?", text_format=Place) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == Place(city="Oslo", people=700000)
    for request in engine.requests:
        assert request.sampling_params.structured_outputs.json["properties"].keys() == {"city", "people"}


def test_free_form_tools(server: Live) -> None:
    call = '<tool_call>\n{"name": "shell", "arguments": {"input": "ls \\"-l\\" | wc"}}\n</tool_call>'
    engine = server.says(f"{THOUGHT}{call}{END}", f"{THOUGHT}{call}{END}", f"{THOUGHT}Three.{END}")
    client = server.openai()
    tools: Any = [{"type": "custom", "name": "shell", "description": "Runs it."}]
    whole = client.responses.create(model="m", input="go", tools=tools)
    events = list(client.responses.create(model="m", input="go", tools=tools, stream=True))
    check_order(events)
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    used: Any = whole.output[-1]
    assert used.type == "custom_tool_call" and used.input == "".join(deltas) == 'ls "-l" | wc'
    items: Any = [{"role": "user", "content": "go"}, *whole.output]
    items.append({"type": "custom_tool_call_output", "call_id": used.call_id, "output": "3"})
    assert client.responses.create(model="m", input=items, tools=tools).output_text == "Three."
    assert "shell" in server.text(engine.requests[2].token_ids)


def test_tool_choices_reach_the_engine(server: Live) -> None:
    client = server.openai()
    named: Any = {"type": "function", "name": "weather"}
    allowed: Any = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "now"}]}
    found = []
    for choice in ("auto", "none", "required", named, allowed):
        engine = server.says(f"{THOUGHT}{CALL}{END}")
        reply = client.responses.create(model="m", input="go", tools=TOOLS, tool_choice=choice)
        constraint = engine.requests[0].sampling_params.structured_outputs
        tag = getattr(constraint, "structural_tag", None) or ""
        found.append((reply.output[-1].type, "weather" in tag, "now" in tag))
    assert found == [
        ("function_call", False, False),
        ("message", False, False),
        ("function_call", True, True),
        ("function_call", True, False),
        ("function_call", False, True),
    ]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_0"}, "previous_response_id"),
        ({"conversation": "conv_0"}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "absent"}}, "tool_choice"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format"),
        ({"temperature": 3}, "temperature"),
        ({"top_logprobs": 21, "include": ["message.output_text.logprobs"]}, "top_logprobs"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_served_is_refused_by_name(server: Live, fields: Any, param: str, stream: bool) -> None:
    """Nothing is stored here, so what needs a store is refused, too, never ignored."""
    server.says(f"x{END}")
    with pytest.raises(openai.BadRequestError) as refused:
        server.openai().responses.create(model="m", input="Hi", stream=stream, **fields)
    assert refused.value.param is not None and refused.value.param.startswith(param)
    assert server.engine.requests == []


def test_errors_have_the_sdks_classes(server: Live) -> None:
    server.says(f"Hello{END}")
    client = server.openai()
    with pytest.raises(openai.NotFoundError) as unknown:
        client.responses.create(model="absent", input="Hi")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        client.responses.create(model="m", input="word " * 50_000)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "input")
    with pytest.raises(openai.AuthenticationError):
        server.openai(api_key="wrong").responses.create(model="m", input="Hi")
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_0")
    assert client.responses.input_tokens.count(model="m", input="Hi").input_tokens > 0
    raw = client.responses.with_raw_response.create(model="m", input="Hi")
    assert raw.headers["x-request-id"] and raw.parse().status == "completed"


def test_sixteen_streams_at_once(server: Live) -> None:
    def answer(request: Any) -> Script:
        number = server.text(request.token_ids).split("number ")[1].split("<")[0]
        return Script(server.ids(f"{THOUGHT}It is {number}. {CALL}{END}"), delay_s=0.001)

    server.says(answer)

    async def one(client: openai.AsyncOpenAI, number: int) -> Any:
        async with client.responses.stream(model="m", input=f"number {number}", tools=TOOLS) as stream:
            async for _ in stream:
                pass
            return await stream.get_final_response()

    async def all_of_them() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
            return await asyncio.gather(*(one(client, number) for number in range(16)))

    found = asyncio.run(all_of_them())
    assert [response.output_text.strip() for response in found] == [f"It is {number}." for number in range(16)]
    ids = [item.id for response in found for item in response.output]
    assert len(set(ids)) == len(ids) == 48


@pytest.fixture(scope="module")
def others() -> Iterator[Live]:
    """Models with other formats over the same tokenizer, and one of another family."""
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    qwen = model_directory("qwen3")
    models = [
        served(qwen, "glm", tool_format="glm45", reasoning_format="glm45"),
        served(qwen, "coder", tool_format="qwen3_coder", reasoning_format="none"),
        served(qwen, "kimi", tool_format="kimi_k2", reasoning_format="none"),
        served(model_directory("mistral-nemo"), "mistral", tool_format="mistral"),
        served(model_directory("gpt-oss"), "oss"),
        served(model_directory("qwen2.5-vl"), "vl"),
    ]
    with live(models) as server:
        yield server


def test_flat_tools_with_a_typed_format(others: Live) -> None:
    """B66: the parser knows the tools' types whatever shape the request gave them in."""
    tools: Any = [
        {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    ]
    call = "<think>hm</think>\n<tool_call>add\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
    others.says(f"{call}{END}", name="glm")
    client = others.openai()
    whole = client.responses.create(model="glm", input="go", tools=tools)
    with client.responses.stream(model="glm", input="go", tools=tools) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    for response in (whole, final):
        assert [(item.type, getattr(item, "arguments", "")) for item in response.output][-1] == (
            "function_call",
            '{"n": 3}',
        )


@pytest.mark.parametrize("stream", [False, True])
def test_a_required_call_in_elements(others: Live, stream: bool) -> None:
    """B14: the native parser reads it; the finish reason says tool_calls only where there are calls."""
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}]
    call = "<tool_call>\n<function=f>\n<parameter=city>\n上海\n</parameter>\n</function>\n</tool_call>"
    client = others.openai()
    body: Any = {"model": "coder", "messages": [{"role": "user", "content": "go"}], "tools": tools}
    for answer, calls in ((call, [("f", '{"city": "上海"}')]), ("No.", [])):
        others.says(f"{answer}{END}", name="coder")
        if stream:
            with client.chat.completions.stream(**body, tool_choice="required") as events:
                for _ in events:
                    pass
                choice: Any = events.get_final_completion().choices[0]
        else:
            choice = client.chat.completions.create(**body, tool_choice="required").choices[0]
        assert [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()] == calls
        assert choice.finish_reason == ("tool_calls" if calls else "stop")


def test_native_call_ids_come_back(others: Live) -> None:
    """B20: nine characters of a Mistral model, and Kimi's running numbers, through a second turn."""
    client = others.openai()
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}]
    marks = {
        "mistral": '[TOOL_CALLS][{"name": "f", "arguments": {"city": "Oslo"}}]</s>',
        "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:%d<|tool_call_argument_begin|>"
        f'{{"city": "Oslo"}}<|tool_call_end|><|tool_calls_section_end|>{END}',
    }
    for name, text in marks.items():
        messages: list[Any] = [{"role": "user", "content": "go"}]
        ids = []
        for turn in range(2):
            others.says(text % turn if "%" in text else text, name=name)
            with client.chat.completions.stream(
                model=name, messages=messages, tools=tools, tool_choice="required" if turn else "auto"
            ) as stream:
                for _ in stream:
                    pass
                message = stream.get_final_completion().choices[0].message
            (call,) = message.tool_calls or ()
            ids.append(call.id)
            messages += [
                {"role": "assistant", "tool_calls": [call.model_dump(include={"id", "type", "function"})]},
                {"role": "tool", "tool_call_id": call.id, "content": "21"},
            ]
        if name == "mistral":
            assert all(len(call_id) == 9 and call_id.isalnum() for call_id in ids) and ids[0] != ids[1]
        else:
            assert ids == ["functions.f:0", "functions.f:1"]


def test_a_repeated_request_names_its_calls_alike(server: Live) -> None:
    """B45: ids depend on the request's id, the choice and the call alone."""
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "n": 2, "temperature": 1}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
    found = []
    for request_id in ("one", "one", "two"):
        server.says(f"{CALL}{CALL}{END}", per_chunk=len(found) + 1)
        headers = {"Authorization": f"Bearer {KEY}", "X-Request-Id": request_id}
        reply = httpx.post(
            f"{server.url}/v1/chat/completions", json={**body, "tools": tools}, headers=headers, trust_env=False
        )
        found.append([call["id"] for choice in reply.json()["choices"] for call in choice["message"]["tool_calls"]])
    assert found[0] == found[1] and len(set(found[0])) == 4 and not set(found[0]) & set(found[2])


def test_harmony_from_end_to_end(others: Live) -> None:
    """gpt-oss: channels on the wire in, reasoning and calls out, in three APIs; and back in as history."""
    thought = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
    call = '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "上海"}<|call|>'
    final = "<|channel|>final<|message|>Warm 🙂.<|return|>"
    client, other = others.openai(), others.anthropic()
    engine = others.says(thought + call, thought + final, name="oss")
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    first = client.responses.create(model="oss", input=items, tools=TOOLS)
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    used: Any = first.output[1]
    assert (used.name, used.arguments) == ("weather", '{"city": "上海"}')
    items += [*first.output, {"type": "function_call_output", "call_id": used.call_id, "output": "21"}]
    assert client.responses.create(model="oss", input=items, tools=TOOLS).output_text == "Warm 🙂."
    prompt = others.text(engine.requests[1].token_ids, "oss")
    assert "functions.weather" in prompt and "上海" in prompt
    chat_tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
    for stream in (False, True):
        others.says(thought + call, name="oss")
        body: Any = {"model": "oss", "messages": [{"role": "user", "content": "Weather?"}], "tools": chat_tools}
        if stream:
            with client.chat.completions.stream(**body) as events:
                for _ in events:
                    pass
                choice: Any = events.get_final_completion().choices[0]
        else:
            choice = client.chat.completions.create(**body).choices[0]
        assert (choice.message.reasoning, choice.finish_reason) == ("hm", "tool_calls")
        assert choice.message.tool_calls[0].function.arguments == '{"city": "上海"}'
    others.says(thought + final, name="oss")
    with other.messages.stream(
        model="oss", messages=[{"role": "user", "content": "Hi"}], max_tokens=99
    ) as stream_of_blocks:
        assert "".join(stream_of_blocks.text_stream) == "Warm 🙂."
        assert [block.type for block in stream_of_blocks.get_final_message().content] == ["thinking", "text"]


def test_images_reach_the_engine(others: Live) -> None:
    """The same image from three APIs is the same placeholder and the same tensors."""
    url = f"data:image/png;base64,{PNG}"
    engine = others.says(f"Red.{END}", name="vl")
    ours, theirs = others.openai(), others.anthropic()
    chat: Any = [{"type": "text", "text": "Colour?"}, {"type": "image_url", "image_url": {"url": url}}]
    items: Any = [{"type": "input_text", "text": "Colour?"}, {"type": "input_image", "image_url": url}]
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    blocks: Any = [{"type": "text", "text": "Colour?"}, {"type": "image", "source": source}]
    reply = ours.chat.completions.create(model="vl", messages=[{"role": "user", "content": chat}])
    assert reply.choices[0].message.content == "Red."
    response = ours.responses.create(model="vl", input=[{"role": "user", "content": items}])
    assert response.output_text == "Red."
    message = theirs.messages.create(model="vl", messages=[{"role": "user", "content": blocks}], max_tokens=9)
    assert message.content[0].to_dict()["text"] == "Red."
    count = theirs.messages.count_tokens(model="vl", messages=[{"role": "user", "content": blocks}])
    assert count.input_tokens == message.usage.input_tokens
    hashes = [request.features.mm_hashes for request in engine.requests]
    assert hashes[0]["image"] and hashes[0] == hashes[1] == hashes[2]
    assert len({tuple(request.token_ids) for request in engine.requests}) == 1
    with pytest.raises(openai.BadRequestError) as refused:
        broken: Any = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
        ours.chat.completions.create(model="vl", messages=[{"role": "user", "content": broken}])
    assert (refused.value.param or "").startswith("messages[0].content[0]")
