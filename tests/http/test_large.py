"""Large bodies: decoded a piece at a time to the same as at once, bounded in counts, and never on the event loop."""

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from app.errors import InvalidRequest
from app.http import garbage
from app.http.large import MOST_ENTRIES, MOST_TOOLS, decode_large, is_large
from app.protocol.chat import ChatRequest
from app.protocol.completions import CompletionsRequest
from app.protocol.generate import GenerateRequest
from app.protocol.responses import ResponsesRequest
from app.protocol.tokenize import DetokenizeRequest, TokenizeRequest
from tests.http.conftest import serving
from tests.http.test_errors import check
from tests.http.test_live import _post

PATH = "/v1/chat/completions/render"
MESSAGE = {"role": "user", "content": 'a "quoted" \\ [bracket] {brace}, 上海 🙂'}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"type": "string"}}}}}
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
LARGE: list[tuple[Any, dict[str, Any]]] = [
    (ChatRequest, {"messages": [MESSAGE] * 3_000, "tools": [TOOL] * 2_000, "unknown": [[1, {"a": 2}]] * 9_000}),
    (ResponsesRequest, {"input": [ITEM] * 3_000, "metadata": {"a": "b"}}),
    (ResponsesRequest, {"input": "x" * 400_000}),
    (CompletionsRequest, {"prompt": list(range(100_000)), "temperature": 1}),
    (CompletionsRequest, {"prompt": [[1, 2, 3] * 100] * 500}),
    (CompletionsRequest, {"prompt": ["[1, 2]" * 9, '{"a": 1}, 3' * 9, ""] * 4_000}),
    (DetokenizeRequest, {"tokens": list(range(200_000))}),
    (TokenizeRequest, {"messages": [MESSAGE] * 9_000}),
    (GenerateRequest, {"token_ids": [1] * 50_000, "token_offsets": [[0, 1]] * 50_000, "sampling_params": {}}),
]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("kind", "body"), LARGE)
def test_a_large_body_is_decoded_to_the_same(kind: Any, body: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(body, indent=indent).encode()
    assert is_large(text)
    assert decode_large(kind, text) == msgspec.json.decode(text, type=kind)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [MESSAGE] * 3_000 + [{"role": 3}]},
        {"messages": [MESSAGE] * 3_000 + [3]},
        {"messages": [MESSAGE] * 3_000 + [MESSAGE | {"tool_calls": [{"function": {"name": 1}}]}] + [MESSAGE] * 3_000},
        {"messages": [MESSAGE] * 3_000, "stop_token_ids": [*range(20_000), "x"]},
        {"messages": [MESSAGE] * 3_000, "n": "x"},
        {"tools": [TOOL] * 2_000},
        {"messages": "x" * 300_000},
        [MESSAGE] * 4_000,
    ],
)
def test_a_large_body_is_refused_by_the_same_words(body: Any) -> None:
    text = json.dumps(body).encode()
    with pytest.raises(msgspec.ValidationError) as usual:
        msgspec.json.decode(text, type=ChatRequest)
    with pytest.raises(msgspec.ValidationError) as large:
        decode_large(ChatRequest, text)
    assert str(large.value) == str(usual.value)


@pytest.mark.parametrize("text", [b'{"messages": [' + b"1," * 200_000 + b"]}", b'{"messages": [[' * 200_000, b"["])
def test_a_large_body_that_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        decode_large(ChatRequest, text)


def test_lists_have_bounds() -> None:
    for field, most, entry in (("messages", MOST_ENTRIES, MESSAGE), ("tools", MOST_TOOLS, TOOL)):
        body = {"messages": [], field: [entry] * most}
        assert len(getattr(decode_large(ChatRequest, json.dumps(body).encode()), field)) == most
        body[field].append(entry)
        with pytest.raises(InvalidRequest) as refused:
            decode_large(ChatRequest, json.dumps(body).encode())
        assert refused.value.param == field


def test_short_bodies_and_long_texts_with_few_objects_are_not_large() -> None:
    assert not is_large(b"{}") and not is_large(b"{" * 10_000)
    assert not is_large(b'{"prompt": "' + b"x" * 200_000 + b'"}')
    assert is_large(b"{" * 40_000) and is_large(b"x" * 300_000)


def test_an_encoded_image_makes_no_body_large() -> None:
    """A 1080p JPEG is half a megabyte of one string, which is decoded in a quarter of a millisecond."""
    image = "iVBORw0KGgo" * 60_000
    url = {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}}]}
        ]
    }
    block = {"messages": [{"role": "user", "content": [{"type": "image", "source": {"data": image}}]}]}
    for body in (url, block):
        for separators in ((",", ":"), (", ", ": ")):
            text = json.dumps(body, separators=separators).encode()
            assert not is_large(text)
            assert is_large(text + b"x" * 300_000)
            assert is_large(text * 7)  # so many images in one take some milliseconds
    assert is_large(b'{"data":' + b"1," * 200_000 + b'"data":"')


@pytest.mark.parametrize(
    "path", [PATH, "/v1/chat/completions", "/v1/responses", "/v1/messages/count_tokens", "/tokenize"]
)
def test_every_kind_of_route_refuses_too_many(client: TestClient[Any], path: str) -> None:
    entries = [{"role": "user", "content": ""}] * (MOST_ENTRIES + 1)
    field = "input" if path == "/v1/responses" else "messages"
    reply = client.post(path, json={"model": "m", field: entries})
    of = {"/v1/chat/completions": "openai", "/v1/responses": "openai", "/v1/messages/count_tokens": "anthropic"}
    assert field in check(reply, 400, of.get(path, "vllm"))["message"]


def test_the_loop_turns_while_a_large_body_is_read_and_rendered(model_folder: Path) -> None:
    """Counted, not timed: were it done on the loop, the loop would turn a few times only."""
    messages = [{"role": role, "content": "Hi"} for role in ("user", "assistant")] * (MOST_ENTRIES // 2)
    body = json.dumps({"model": "m", "messages": messages, "tools": [TOOL] * MOST_TOOLS}).encode()
    with serving(model_folder, {"ISTHMUS_MODELS__0__MAX_MODEL_LEN": "1000000"}) as client:

        async def turns() -> int:
            counted = 0

            async def turn() -> None:
                nonlocal counted
                while True:
                    await asyncio.sleep(0.001)
                    counted += 1

            turning = asyncio.create_task(turn())
            await _post(client.app, body)
            turning.cancel()
            return counted

        assert asyncio.run(turns()) > 20


def test_garbage_is_looked_for_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "EVERY_S", 0.0)
    looks: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: looks.append(running[0]))
    running = [1]

    async def run() -> None:
        looking = asyncio.create_task(garbage.look_when_idle(lambda: running[0]))
        for _ in range(garbage.PATIENCE):
            await asyncio.sleep(0)
        assert looks == []
        running[0] = 0
        for _ in range(5):
            await asyncio.sleep(0)
        assert looks and set(looks) == {0}
        looking.cancel()

    asyncio.run(run())


def test_the_functions_of_namespaces_are_counted_too(client: TestClient[Any]) -> None:
    functions = [{"type": "function", "name": f"f{number}"} for number in range(MOST_TOOLS + 1)]
    body = {"input": "Hi", "tools": [{"type": "namespace", "name": "n", "tools": functions}]}
    assert check(client.post("/v1/responses/render", json=body), 400, "vllm")["param"] == "tools"
    chosen = {"type": "allowed_tools", "tools": functions}
    body = {"input": "Hi", "tools": functions[:9], "tool_choice": chosen}
    assert check(client.post("/v1/responses/render", json=body), 400, "vllm")["param"] == "tool_choice.tools"


def test_many_prompts_keep_their_order(client: TestClient[Any]) -> None:
    prompts = [f"prompt {number}" for number in range(100)]
    rendered = client.post("/v1/completions/render", json={"model": "m", "prompt": prompts}).json()
    assert [one["request_id"].rpartition("-")[2] for one in rendered] == [str(number) for number in range(100)]
    alone = client.post("/v1/completions/render", json={"model": "m", "prompt": prompts[77]}).json()
    assert rendered[77]["token_ids"] == alone[0]["token_ids"]
