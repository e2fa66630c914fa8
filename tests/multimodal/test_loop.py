"""Law 9: the event loop never waits while large images render."""

import asyncio
import json
import time
from typing import Any

import pytest

from tests.multimodal.pictures import chat, data_url, encoded, image_part, noise

TRIES = 8


def picture(seed: int) -> str:
    return data_url(encoded(noise(192, 108, seed).resize((1920, 1080)), "JPEG", quality=85), "image/jpeg")


@pytest.mark.parametrize("accept", [b"application/json", b"application/msgpack"])
def test_1080p_images_never_stall_the_loop(vision_client: Any, accept: bytes) -> None:
    """No stall over 10 ms while three images at once become 50 MB of reply and text requests go by.

    Another process on the machine can stall any loop, so a try counts only where an idle loop has just run smoothly,
    the best of several tries is taken, and one or two bad ones prove nothing.
    """
    found = []
    app = vision_client.app
    for attempt in range(TRIES):
        bodies = [json.dumps(chat(image_part(picture(10 * attempt + n)))).encode() for n in range(3)]
        idle, busy, size = asyncio.run(lag(app, bodies, accept))
        assert size > 12_000_000
        if idle < 0.004:
            found.append(busy)
            if busy < 0.010:
                return
    if len(found) < 3:
        pytest.skip("this machine is too busy: even an idle loop is stalled")
    pytest.fail(f"stalls of {[round(stall * 1e3, 1) for stall in found]} ms")


async def lag(app: Any, bodies: list[bytes], accept: bytes) -> tuple[float, float, int]:
    """Longest stall of an idle loop, longest while rendering, in seconds; and the smallest reply in bytes."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before - 0.001)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.3)
    idle, worst = worst, 0.0
    short = json.dumps(chat("Hi")).encode()
    rendering = [asyncio.create_task(post(app, body, accept)) for body in bodies]
    while not all(task.done() for task in rendering):
        await post(app, short, b"*/*")
        await asyncio.sleep(0.002)
    busy = worst
    watching.cancel()
    return idle, busy, min(task.result() for task in rendering)


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
