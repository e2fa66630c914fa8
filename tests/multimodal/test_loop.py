"""Law 9: the event loop never waits while large images render."""

import asyncio
import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from app.engines.vllm import VllmWire
from app.engines.worker import Deadlines, Worker
from app.multimodal.encoded import EncodedItem
from app.protocol.generate import GenerateRequest
from tests.multimodal.pictures import chat, data_url, encoded, image_part, noise

TRIES = 8
SCHEDULE = Path("/proc/thread-self/schedstat")


def picture(seed: int) -> str:
    return data_url(encoded(noise(192, 108, seed).resize((1920, 1080)), "JPEG", quality=85), "image/jpeg")


@pytest.mark.parametrize("accept", [b"application/json", b"application/msgpack"])
def test_1080p_images_never_stall_the_loop(vision_client: Any, accept: bytes) -> None:
    """While three images at once become 50 MB of reply and text requests go by."""
    app = vision_client.app
    short = json.dumps(chat("Hi")).encode()

    async def render(bodies: list[bytes]) -> None:
        rendering = [asyncio.create_task(post(app, body, accept)) for body in bodies]
        while not all(task.done() for task in rendering):
            await post(app, short, b"*/*")
            await asyncio.sleep(0.002)
        assert min(task.result() for task in rendering) > 12_000_000

    never_stalled(lambda at: render([json.dumps(chat(image_part(picture(10 * at + n)))).encode() for n in range(3)]))


@pytest.mark.parametrize("kind", ["rendered", "base64", "bytes"])
def test_1080p_tensors_on_their_way_to_a_worker_never_stall_the_loop(kind: str) -> None:
    """Items of 12.6 MB, as a render has them and as a request brings them, to a worker that takes them slowly."""
    raw = np.random.default_rng(0).bytes(12_660_000)
    item: Any = {"rendered": EncodedItem([raw]), "base64": base64.b64encode(raw).decode(), "bytes": raw}[kind]
    features = {"mm_hashes": {"image": ["a"]}, "mm_placeholders": {"image": [{"offset": 0, "length": 1}]}}
    request = msgspec.convert({"token_ids": [1], "sampling_params": {}, "features": features}, GenerateRequest)
    assert request.features is not None
    request.features.kwargs_data = {"image": [item]}
    with sink() as (url, received):

        async def generate(_: int) -> None:
            worker = Worker(url, VllmWire(), Deadlines())
            chunks = [chunk async for chunk in worker.generate(request, "r")]
            await worker.close()
            assert chunks[-1].finish_reason == "stop"

        never_stalled(generate)
    sent = json.loads(received[-1])
    assert base64.b64decode(sent["features"]["kwargs_data"]["image"][0]) == raw


@contextmanager
def sink() -> Iterator[tuple[str, list[bytes]]]:
    """A worker over a bare socket, in a thread: its URL and the bodies it got."""
    bodies: list[bytes] = []
    events = b'data: {"choices":[{"index":0,"token_ids":[7],"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                length = 0
                while (line := stream.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                parts: list[bytes] = []
                while (left := length - sum(map(len, parts))) > 0:
                    parts.append(stream.read(min(left, 1 << 20)))
                    time.sleep(0.002)
                bodies.append(b"".join(parts))
                connection.sendall(head % len(events) + events)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", bodies


def never_stalled(work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Fail where every try of ``work``, which gets the try's number, stalls the loop for 10 ms or more.

    Another process on the machine can stall any loop, so a try counts only where an idle loop has just run smoothly,
    the best of several tries is taken, and one or two bad ones prove nothing.
    """
    found = []
    for attempt in range(TRIES):
        idle, busy = asyncio.run(lag(work(attempt)))
        if busy < 0.010:
            return
        if idle < 0.004:
            found.append(busy)
    if len(found) < 3:
        pytest.skip("this machine is too busy: even an idle loop is stalled")
    pytest.fail(f"stalls of {[round(stall * 1e3, 1) for stall in found]} ms")


async def lag(work: Coroutine[Any, Any, None]) -> tuple[float, float]:
    """Longest stall of an idle loop, and longest during ``work``, in seconds."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before, queued = time.perf_counter(), waited_for_a_core()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before - 0.001 - (waited_for_a_core() - queued))

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.3)
    idle, worst = worst, 0.0
    await work
    watching.cancel()
    return idle, worst


def waited_for_a_core() -> float:
    """Seconds for which this thread was ready to run and other processes ran instead."""
    return int(SCHEDULE.read_text().split()[1]) / 1e9 if SCHEDULE.exists() else 0.0


async def post(app: Any, body: bytes, accept: bytes) -> int:
    """The reply's bytes."""
    size = 0

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal size
        assert message.get("status", 200) == 200
        size += len(message.get("body", b""))

    path = "/v1/chat/completions/render"
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"accept", accept),
    ]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": headers}
    await app({**scope, "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1"}, receive, send)
    return size
