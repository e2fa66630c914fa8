"""Workers of both protocols that die, hang, break off or talk nonsense: what each API says of it."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.engines.fake_worker import FakeWorker
from tests.models import BUILT, model_directory
from tests.sdk.live import KEY, Live, live, served, until
from tests.sdk.test_leaving import EVERY, GENERATE, ask, events_of

WORDS = [9707, 1052, 11, 5043, 13]
"""Qwen's ids of "Hello there, everyone." or the like; the text is not looked at."""
MANY = [1052] * 60
BODIES = {path: body | ({"prompt": "Hi"} if "prompt" in body else {}) for path, body in EVERY.items()}


class Pool:
    """A server whose model ``m`` has one worker, ``worker``, and whose model ``four`` has four, ``workers``."""

    def __init__(self, server: Live, worker: FakeWorker, workers: list[FakeWorker], within: Callable[[Any], Any]):
        self.server, self.worker, self.workers, self.within = server, worker, workers, within

    def post(self, path: str, **fields: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.post(self.server.url + path, json=BODIES[path] | fields, headers=headers, timeout=60)

    def both(self, path: str) -> tuple[httpx.Response, httpx.Response]:
        """The streamed and the whole reply, asked for at the same time."""
        with ThreadPoolExecutor(2) as threads:
            streamed, whole = (threads.submit(self.post, path, stream=stream) for stream in (True, False))
            return streamed.result(), whole.result()

    @contextlib.contextmanager
    def broken(self, fault: str, numbers: list[int]) -> Iterator[None]:
        self.worker.fault, self.worker.numbers = fault, numbers
        try:
            yield
        finally:
            self.worker.fault = ""

    def idle(self) -> bool:
        """Whether nothing is left of any request, here and on the workers."""
        fleets = [fleet for name in ("m", "four") for fleet in self.server.model(name).engine.roles.fleets]

        def nothing() -> bool:
            ours = sum(worker.running for fleet in fleets for worker in fleet.workers.values())
            theirs = sum(worker.running for worker in (self.worker, *self.workers))
            return not ours and not theirs and not self.server.tasks() and not any(fleet._placed for fleet in fleets)

        return until(nothing)


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    kind = request.param
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def within(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    worker, *workers = [FakeWorker(tokens=WORDS, kind=kind) for _ in range(5)]
    for one in (worker, *workers):
        within(one.__aenter__())
    options = {"breaker_failures": 1000, "first_token_timeout_s": 1, "token_timeout_s": 1, "health_interval_s": 0}
    spread = {"affinity_slack": 0, "affinity_load_blocks": 100, "health_interval_s": 0.05, "breaker_rest_s": 0.05}
    engines = [
        {"name": "one", "kind": kind, "urls": [worker.url], "options": options},
        {"name": "four", "kind": kind, "urls": [one.url for one in workers], "options": spread},
    ]
    formats = {"reasoning_format": "none", "tool_format": "none"}
    folder = model_directory("qwen3")
    models = [served(folder, engine="one", **formats), served(folder, "four", engine="four", **formats)]
    with live(models, ISTHMUS_ENGINES=json.dumps(engines)) as server:
        yield Pool(server, worker, workers, within)
    for one in (worker, *workers):
        within(one.__aexit__())
    within(asyncio.sleep(0.05))  # transports close in the loop's next turns
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()


def check_broken_stream(path: str, text: str) -> None:
    """Tokens, then an error of the API's own shape, then its own end."""
    events = events_of(text)
    if path == "/v1/messages":
        assert events[0]["type"] == "message_start" and events[-1]["type"] == "error"
    elif path == "/v1/responses":
        assert [event["type"] for event in events[-3:-1]] == ["error", "response.failed"]
    else:
        assert events[-1] == "[DONE]" and events[-2]["error"]["message"] and events[0]["choices"]


def went_well(path: str, reply: httpx.Response) -> bool:
    """Whether the whole answer is there, streamed or not."""
    return reply.status_code == 200 and not any(word in reply.text for word in ('"error":{', "event: error"))


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("fault", ["die", "half", "nonsense", "wild", "error", "hang"])
def test_a_fault_in_the_middle(pool: Pool, path: str, fault: str) -> None:
    with pool.broken(fault, [500, 3]):
        streamed, whole = pool.both(path)
    assert streamed.status_code == 200
    check_broken_stream(path, streamed.text)
    assert whole.status_code in (503, 504) and whole.json()["error"]["message"]
    assert pool.idle()
    for stream in (True, False):
        assert went_well(path, pool.post(path, stream=stream))


@pytest.mark.parametrize("path", BODIES)
def test_a_fault_before_the_first_token_is_an_error_reply(pool: Pool, path: str) -> None:
    for fault, numbers, status in (
        ("die", [0], 503),
        ("half", [0], 503),
        ("nonsense", [0], 503),
        ("hang", [0], 504),
        ("garbage", [], 503),
        ("status", [400], 400),
        ("status", [503], 429),
    ):
        with pool.broken(fault, numbers):
            replies = pool.both(path)
        for reply in replies:
            assert reply.status_code == status, (fault, reply.text)
            assert (reply.json().get("type") == "error") == (path == "/v1/messages")
    assert pool.idle()


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("taken", [0, 2])
def test_a_client_that_leaves_ends_the_request_on_the_worker(pool: Pool, path: str, stream: bool, taken: int) -> None:
    worker = pool.workers[0]
    for one in pool.workers:
        one.fault, one.numbers = "hang", [taken]
    before = sum(len(one.aborted) for one in pool.workers)
    try:
        connection = ask(pool.server, path, **{**BODIES[path], "model": "four", "stream": stream})
        assert until(lambda: sum(one.running for one in pool.workers) == 1)
        if stream and taken:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.close()
        assert pool.idle()
        assert until(lambda: sum(len(one.aborted) for one in pool.workers) == before + 1)
    finally:
        for one in pool.workers:
            one.fault = ""
    assert worker.connections <= 2


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [True, False])
def test_a_worker_killed_in_the_middle_leaves_the_others_untouched(pool: Pool, path: str, stream: bool) -> None:
    """It is back at once, as a restarted one is."""
    for one in pool.workers:
        one.tokens, one.delay_s = MANY, 0.01
    victim = pool.workers[1]
    try:
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(pool.post, path, model="four", stream=stream) for _ in range(4)]
            assert until(lambda: all(one.running == 1 for one in pool.workers))
            time.sleep(0.1)
            pool.within(_broken_off(victim))
            replies = [one.result(60) for one in asked]
    finally:
        for one in pool.workers:
            one.tokens, one.delay_s = WORDS, 0.0
    assert sum(went_well(path, reply) for reply in replies) == 3, [reply.text[-300:] for reply in replies]
    (bad,) = (reply for reply in replies if not went_well(path, reply))
    if stream:
        check_broken_stream(path, bad.text)
    else:
        assert bad.status_code == 503
    assert pool.idle()


async def _broken_off(worker: FakeWorker) -> None:
    for task in list(worker._tasks):
        task.cancel()


def test_three_dead_of_four(pool: Pool) -> None:
    """The last test of its server: the dead stay dead."""

    async def kill(worker: FakeWorker) -> None:
        worker.kill()

    for worker in pool.workers[:3]:
        pool.within(kill(worker))
    (fleet,) = pool.server.model("four").engine.roles.fleets
    assert until(lambda: sum(worker.healthy for worker in fleet.workers.values()) == 1)
    for path in BODIES:
        for stream in (True, False):
            assert went_well(path, pool.post(path, model="four", stream=stream))
    pool.within(kill(pool.workers[3]))
    for path in BODIES:
        for stream in (True, False):
            reply = pool.post(path, model="four", stream=stream)
            assert reply.status_code == 503 and reply.json()["error"]["message"]
    assert pool.idle()
    assert went_well(GENERATE, pool.post(GENERATE))
