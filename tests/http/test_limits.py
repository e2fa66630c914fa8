"""Bodies that come slowly, or never: their places are given back, and others are served meanwhile."""

import asyncio
from typing import Any

import pytest

from app.errors import TooLarge
from app.http import limits
from app.http.limits import SlowBody, Watch, bounded_receive


def body(*pieces: bytes, every_s: float = 0.0) -> Any:
    """An ASGI receive: these pieces, then silence; the last of them ends the body where it is empty."""
    left = list(pieces)

    async def receive() -> Any:
        if not left:
            await asyncio.Event().wait()
        await asyncio.sleep(every_s)
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": piece != b""}

    return receive


async def read(receive: Any) -> bytes:
    found = b""
    while True:
        message = await receive()
        found += message["body"]
        if not message["more_body"]:
            return found


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"9")]])
def test_a_body_that_stops_coming_is_given_up(monkeypatch: pytest.MonkeyPatch, headers: Any) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.05)
    monkeypatch.setattr(limits, "LOOK_EVERY_S", 0.01)

    async def run() -> None:
        with pytest.raises(SlowBody):
            await read(bounded_receive({"headers": headers}, body(b"abc"), 1000, Watch()))

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_body_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.05)
    monkeypatch.setattr(limits, "LOOK_EVERY_S", 0.01)

    async def run() -> None:
        with pytest.raises(SlowBody):
            await read(bounded_receive({"headers": []}, body(*[b"x"] * 10_000, every_s=0.01), 100_000, Watch()))

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_long_body_that_keeps_its_pace_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.05)
    monkeypatch.setattr(limits, "LOOK_EVERY_S", 0.01)
    pieces = [b"x" * 1_000_000] * 10

    async def run() -> None:
        assert (
            len(await read(bounded_receive({"headers": []}, body(*pieces, b"", every_s=0.02), 10**9, Watch()))) == 10**7
        )

    asyncio.run(run())


def test_after_the_body_a_client_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.02)
    monkeypatch.setattr(limits, "LOOK_EVERY_S", 0.01)

    async def run() -> None:
        receive = bounded_receive({"headers": []}, body(b""), 10, Watch())
        assert await read(receive) == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.1)

    asyncio.run(run())


def test_an_announced_length_beyond_the_limit_is_refused_unread() -> None:
    async def run() -> None:
        with pytest.raises(TooLarge):
            bounded_receive({"headers": [(b"content-length", b"11")]}, body(), 10, Watch())

    asyncio.run(run())


def test_whoever_else_ends_a_task_is_not_answered_with_a_slow_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.05)
    monkeypatch.setattr(limits, "LOOK_EVERY_S", 0.01)

    async def run() -> None:
        watch = Watch()
        receive = bounded_receive({"headers": []}, body(), 10, watch)
        ended = asyncio.create_task(receive())
        await asyncio.sleep(0)
        ended.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ended
        slow = asyncio.create_task(read(bounded_receive({"headers": []}, body(), 10, watch)))
        with pytest.raises(SlowBody):
            await asyncio.wait_for(slow, 20)
        assert slow.cancelling() == 0

    asyncio.run(run())
