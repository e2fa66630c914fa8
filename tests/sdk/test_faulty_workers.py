"""A worker that dies, hangs, breaks off or talks nonsense in the middle: what each public API says of it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.engines.fake_worker import FakeWorker
from tests.models import BUILT, model_directory
from tests.sdk.live import KEY, Live, live, served, until
from tests.sdk.test_leaving import APIS, events_of

WORDS = [9707, 1052, 11, 5043, 13]
"""Qwen's ids of "Hello there, everyone." or the like; the text is not looked at."""


@pytest.fixture(scope="module")
def pool() -> Iterator[tuple[Live, FakeWorker]]:
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def within(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    worker = FakeWorker(tokens=WORDS)
    within(worker.__aenter__())
    options = {"breaker_failures": 1000, "first_token_timeout_s": 1, "token_timeout_s": 1, "health_interval_s": 0}
    engine = {"name": "pool", "kind": "vllm", "urls": [worker.url], "options": options}
    model = served(model_directory("qwen3"), engine="pool", reasoning_format="none", tool_format="none")
    with live([model], ISTHMUS_ENGINES=json.dumps([engine])) as server:
        yield server, worker
    within(worker.__aexit__())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()


def post(server: Live, path: str, **fields: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {KEY}"}
    body = APIS[path] | ({"prompt": "Hi"} if "prompt" in APIS[path] else {}) | fields
    return httpx.post(server.url + path, json=body, headers=headers, timeout=60, trust_env=False)


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("fault", ["die", "half", "nonsense", "error", "hang"])
def test_a_fault_in_the_middle(pool: tuple[Live, FakeWorker], path: str, fault: str) -> None:
    server, worker = pool
    worker.fault, worker.numbers = fault, [500, 3]
    try:
        streamed = post(server, path, stream=True)
        whole = post(server, path)
    finally:
        worker.fault = ""
    assert streamed.status_code == 200
    events = events_of(streamed.text)
    if path == "/v1/messages":
        assert events[0]["type"] == "message_start" and events[-1]["type"] == "error"
    elif path == "/v1/responses":
        assert [event["type"] for event in events[-3:-1]] == ["error", "response.failed"]
    else:
        assert events[-1] == "[DONE]" and events[-2]["error"]["message"] and events[0]["choices"]
    assert whole.status_code in (503, 504) and whole.json()["error"]["message"]
    assert until(lambda: worker.running == 0)
    fine = post(server, path, stream=True)
    assert fine.status_code == 200 and "error" not in {event.get("type") for event in events_of(fine.text)[:-1]}


@pytest.mark.parametrize("path", APIS)
def test_a_fault_before_the_first_token_is_an_error_reply(pool: tuple[Live, FakeWorker], path: str) -> None:
    server, worker = pool
    for fault, numbers, status in (("die", [0], 503), ("hang", [0], 504), ("garbage", [], 503), ("status", [400], 400)):
        worker.fault, worker.numbers = fault, list(numbers)
        try:
            replies = [post(server, path, stream=stream) for stream in (True, False)]
        finally:
            worker.fault = ""
        for reply in replies:
            assert reply.status_code == status, (fault, reply.text)
            assert (reply.json().get("type") == "error") == (path == "/v1/messages")
    assert until(lambda: worker.running == 0)
