"""Clients that leave, engines that fail late, long silences, full queues: on each public API, whole and streamed."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from app.errors import EngineTimeout, Overloaded
from tests.models import BUILT, model_directory
from tests.sdk.live import END, KEY, Live, live, served, until

MESSAGES = [{"role": "user", "content": "Hi"}]
APIS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "m", "messages": MESSAGES},
    "/v1/completions": {"model": "m", "prompt": ["Hi", "Ho"], "max_tokens": 400},
    "/v1/responses": {"model": "m", "input": "Hi"},
    "/v1/messages": {"model": "m", "messages": MESSAGES, "max_tokens": 400},
}
GENERATE = "/inference/v1/generate"
EVERY = {
    **APIS,
    GENERATE: {"model": "m", "token_ids": [9707], "output_mode": "text", "sampling_params": {"max_tokens": 400}},
}
"""The public APIs, and the engine alone."""
LONG = "<think>\nhm\n</think>\n\n" + "word " * 200
HEADERS = {"Authorization": f"Bearer {KEY}"}


def ask(server: Live, path: str, **fields: Any) -> socket.socket:
    """A request on the wire; the socket on which its answer comes."""
    body = json.dumps(EVERY[path] | fields)
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {KEY}\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


def post(server: Live, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=EVERY[path] | fields, headers=HEADERS, timeout=60, trust_env=False)


def events_of(text: str) -> list[Any]:
    """The JSON of a stream's events, and its [DONE]."""
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@pytest.mark.parametrize("path", EVERY)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("stage", ["before_the_first_token", "between_tokens"])
def test_a_client_that_leaves_stops_the_generation(server: Live, path: str, stream: bool, stage: str) -> None:
    engine = server.says(LONG, delay_s=0.02 if stage == "between_tokens" else 30)
    connection = ask(server, path, stream=stream)
    runs = 2 if path == "/v1/completions" else 1
    assert until(lambda: engine.running == runs)
    if stage == "between_tokens":
        if stream:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        else:
            time.sleep(0.1)
    connection.close()
    assert server.idle(10), "the generation went on for nobody"
    assert len(engine.aborted) == runs
    assert httpx.get(f"{server.url}/load", headers=HEADERS, trust_env=False).json() == {"server_load": 0}


def test_a_client_that_leaves_at_any_moment_leaves_nothing_behind(server: Live) -> None:
    engine = server.says(LONG, delay_s=0.002)
    for number, path in enumerate([*EVERY] * 6):
        with contextlib.closing(ask(server, path, stream=number % 3 > 0)):
            time.sleep(0.004 * (number % 7))
    assert server.idle(20)
    assert engine.running == 0


@pytest.mark.parametrize("path", EVERY)
def test_an_error_after_the_first_byte_is_an_event_and_the_stream_ends(server: Live, path: str) -> None:
    server.says(LONG, fail_after=8, per_chunk=2)
    reply = post(server, path, stream=True)
    assert reply.status_code == 200
    events = events_of(reply.text)
    if path == "/v1/messages":
        assert events[0]["type"] == "message_start"
        assert events[-1]["type"] == "error" and events[-1]["error"]["type"] == "api_error"
        assert reply.text.rstrip().split("\n\n")[-1].startswith("event: error\n")
        return
    assert events.pop() == "[DONE]"
    if path == "/v1/responses":
        error, failed = events[-2:]
        assert (error["type"], failed["type"]) == ("error", "response.failed")
        assert failed["response"]["status"] == "failed" and failed["response"]["error"]["message"]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        return
    assert events[0]["choices"] and "engine died" in events[-1]["error"]["message"]
    assert set(events[-1]["error"]) == {"message", "type", "param", "code"}


def test_the_sdks_raise_on_late_errors(server: Live) -> None:
    server.says(LONG, fail_after=8)
    with pytest.raises(openai.APIError, match="engine died"):
        list(server.openai().chat.completions.create(model="m", messages=MESSAGES, stream=True))  # type: ignore[arg-type]
    with pytest.raises(anthropic.APIError, match="engine died"):
        list(server.anthropic().messages.create(model="m", messages=MESSAGES, max_tokens=99, stream=True))  # type: ignore[arg-type]
    seen = [event.type for event in server.openai().responses.create(model="m", input="Hi", stream=True)]
    assert seen[-2:] == ["error", "response.failed"]


@pytest.mark.parametrize("path", EVERY)
@pytest.mark.parametrize("stream", [True, False])
def test_what_fails_before_the_first_token_is_an_error_reply(server: Live, path: str, stream: bool) -> None:
    cases = [(Overloaded("Busy.", retry_after=7), 429), (EngineTimeout("Too slow."), 504), (None, 503)]
    for error, status in cases:
        server.says("x", fail_after=0, error=error)
        reply = post(server, path, stream=stream)
        assert reply.status_code == status, reply.text
        assert reply.headers["content-type"].startswith("application/json")
        assert status != 429 or reply.headers["retry-after"] == "7"
        assert (reply.json().get("type") == "error") == (path == "/v1/messages")


@pytest.mark.parametrize("path", EVERY)
def test_a_bug_is_told_without_its_words(server: Live, path: str) -> None:
    secret: Any = RuntimeError("a secret of the house")
    server.says(LONG, fail_after=0, error=secret)
    assert "secret" not in post(server, path).text
    server.says(LONG, fail_after=8, error=secret)
    reply = post(server, path, stream=True)
    assert (
        "secret" not in reply.text
        and "error" in reply.text.rstrip().split("\n\n")[-2 if "[DONE]" in reply.text else -1]
    )


@pytest.mark.parametrize("path", EVERY)
def test_an_aborted_generation_is_no_success(server: Live, path: str) -> None:
    """Ended by an operator through abort_requests."""
    engine = server.says(LONG, delay_s=0.02)
    connection = ask(server, path, stream=True)
    connection.recv(65536)
    ids = [request.request_id for request in engine.requests]
    httpx.post(f"{server.url}/inference/v1/abort_requests", json={"request_ids": ids}, headers=HEADERS, trust_env=False)
    rest = b""
    connection.settimeout(20)
    while not rest.endswith(b"0\r\n\r\n"):
        rest += connection.recv(65536)
    connection.close()
    assert b'"finish_reason":"abort"' in rest or b"aborted" in rest
    assert b'"stop_reason":"end_turn"' not in rest and b"response.completed" not in rest


@pytest.fixture(scope="module")
def narrow() -> Iterator[Live]:
    """One request at a time, and impatient proxies."""
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    with live([served(model_directory("qwen3"))], ISTHMUS_MAX_QUEUE="1", ISTHMUS_KEEP_ALIVE_S="0.05") as server:
        yield server


@pytest.fixture
def public() -> Iterator[Live]:
    """A server without the scale-out endpoints."""
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    with live([served(model_directory("qwen3"))], ISTHMUS_SCALE_OUT="false") as server:
        yield server


@pytest.mark.parametrize("path", EVERY)
def test_long_silences_get_comments(narrow: Live, path: str) -> None:
    narrow.says(f"<think>\nhm\n</think>\n\nHello{END}", delay_s=0.15)
    text = post(narrow, path, stream=True).text
    blocks = text.strip().split("\n\n")
    assert blocks[0] == ": keep-alive" and blocks.count(": keep-alive") > 3
    assert "Hello" in text and blocks[-1] in ("data: [DONE]", 'event: message_stop\ndata: {"type":"message_stop"}')


@pytest.mark.parametrize("path", EVERY)
def test_a_client_that_leaves_a_silent_stream_stops_it(narrow: Live, path: str) -> None:
    engine = narrow.says(LONG, delay_s=30)
    with contextlib.closing(ask(narrow, path, stream=True)) as connection:
        assert until(lambda: engine.running > 0)
        heard = b""
        while heard.count(b": keep-alive") < 3:
            heard += connection.recv(65536)
    assert narrow.idle(10)
    assert engine.aborted


def test_the_sdks_read_over_comments(narrow: Live) -> None:
    narrow.says(f"<think>\nhm\n</think>\n\nHello{END}", delay_s=0.1)
    with narrow.anthropic().messages.stream(model="m", messages=MESSAGES, max_tokens=99) as stream:  # type: ignore[arg-type]
        assert "".join(stream.text_stream) == "Hello"
    with narrow.openai().responses.stream(model="m", input="Hi") as events:
        for _ in events:
            pass
        assert events.get_final_response().output_text == "Hello"


def test_a_refusal_behind_a_silence_is_an_event(narrow: Live) -> None:
    narrow.says("x", delay_s=0.2, fail_after=0)
    for path in EVERY:
        reply = post(narrow, path, stream=True)
        assert reply.status_code == 200 and reply.text.startswith(": keep-alive")
        assert any("error" in str(event) for event in events_of(reply.text))


def test_a_full_server_answers_429_in_each_apis_words(narrow: Live) -> None:
    engine = narrow.says(LONG, delay_s=0.05)
    with contextlib.closing(ask(narrow, "/v1/chat/completions", stream=True)) as connection:
        assert until(lambda: engine.running == 1)
        for path in (*APIS, "/v1/messages/count_tokens"):
            body = APIS[path.removesuffix("/count_tokens")]
            reply = httpx.post(narrow.url + path, json=body, headers=HEADERS, trust_env=False)
            assert reply.status_code == 429 and reply.headers["retry-after"] == "1"
            if path.startswith("/v1/messages"):
                assert reply.json()["error"]["type"] == "rate_limit_error" and reply.json()["type"] == "error"
            else:
                assert reply.json()["error"]["code"] == "rate_limit_exceeded"
        with pytest.raises(openai.RateLimitError):
            narrow.openai().responses.create(model="m", input="Hi")
        with pytest.raises(anthropic.RateLimitError):
            narrow.anthropic().messages.count_tokens(model="m", messages=MESSAGES)  # type: ignore[arg-type]
        connection.close()
        assert narrow.idle()
    # The SDKs wait as they are told and try again.
    narrow.says(f"Hello{END}", delay_s=0.05)
    first = ask(narrow, "/v1/messages")
    assert until(lambda: narrow.engine.running == 1)
    assert narrow.openai(max_retries=3).responses.create(model="m", input="Hi").status == "completed"
    first.close()


def test_public_apis_work_without_the_scale_out_endpoints(public: Live) -> None:
    public.says(f"Hello{END}")
    for path in APIS:
        assert post(public, path).status_code == 200
        if path != "/v1/completions":
            assert post(public, path, stream=True).status_code == 200
        assert (
            httpx.post(f"{public.url}{path}/render", json=APIS[path], headers=HEADERS, trust_env=False).status_code
            == 403
        )
    assert public.anthropic().messages.count_tokens(model="m", messages=MESSAGES).input_tokens > 0  # type: ignore[arg-type]


@pytest.mark.parametrize("path", EVERY)
def test_metrics_count_tokens_by_model(server: Live, path: str) -> None:
    answer = f"<think>\nhm\n</think>\n\nHello{END}"
    server.says(answer)

    def counted(kind: str) -> float:
        text = httpx.get(f"{server.url}/metrics", headers=HEADERS, trust_env=False).text
        start = f'isthmus_{kind}_tokens_total{{model="m",route="{path}"}} '
        return sum(float(line.removeprefix(start)) for line in text.splitlines() if line.startswith(start))

    outputs, prompts = counted("output"), counted("prompt")
    post(server, path)
    post(server, path, stream=True)
    more = 2 * len(server.ids(answer)) * (2 if path == "/v1/completions" else 1)
    assert until(lambda: counted("output") == outputs + more)
    assert counted("prompt") > prompts
