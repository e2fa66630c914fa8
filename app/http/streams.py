"""Pre-encoded events to an event stream, and work that ends when its client leaves.

The source of a stream runs in a task of its own: when the client leaves, Litestar cancels the sending side in a way
in which nothing can be awaited any more, while the source must still tell its engine to stop.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar, cast

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Stream

__all__ = ("ClientGone", "event_stream", "unless_gone")

T = TypeVar("T")
COMMENT = b": keep-alive\n\n"
BEHIND = 256
"""Events that a slow client may lag behind before the source waits for it."""
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_pumps: set[asyncio.Task[None]] = set()


class ClientGone(HTTPException):
    """The client left before its answer was there; nobody reads this."""

    status_code = 499
    detail = "The client closed the request."


async def event_stream(
    opening: Awaitable[AsyncIterator[bytes]],
    fault: Callable[[Exception], bytes],
    *,
    receive: Any = None,
    keep_alive_s: float = 15,
) -> Response[Any]:
    """An open event stream.

    ``opening`` gives the source once its first event is certain; what it raises until then becomes an ordinary error
    reply, unless it takes so long that the stream had to be opened to keep the connection. It is cancelled when the
    client leaves before.

    Args:
        opening: the source of whole events (``data: ...`` with a blank line).
        fault: an exception to the events that end a stream in the API's own shape. Used only for what the source
            itself did not turn into events.
        receive: the request's; its body must have been read. None: nobody watches whether the client leaves.
        keep_alive_s: seconds of silence after which a comment is sent, so that proxies keep the connection; 0: none.

    Raises:
        ClientGone: it left before the first event.
    """
    silence = keep_alive_s or None
    starting = asyncio.ensure_future(opening)
    waited: set[asyncio.Future[Any]] = {starting}
    if receive is not None:
        waited.add(asyncio.create_task(_disconnected(receive)))
    try:
        await asyncio.wait(waited, timeout=silence, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        elif any(other.done() for other in waited):
            raise ClientGone()
    except BaseException:
        starting.cancel()
        raise
    finally:
        for other in waited - {starting}:
            other.cancel()
    return Stream(_relay(starting, fault, silence), media_type="text/event-stream; charset=utf-8", headers=HEADERS)


async def _relay(
    starting: "asyncio.Future[AsyncIterator[bytes]]", fault: Callable[[Exception], bytes], silence: float | None
) -> AsyncIterator[bytes]:
    """The events, as many at once as are there; a comment after each long silence."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(BEHIND)
    pump = asyncio.create_task(_pump(starting, queue, fault))
    _pumps.add(pump)
    pump.add_done_callback(_pumps.discard)
    try:
        while True:
            if queue.empty():
                try:
                    async with asyncio.timeout(silence):
                        event = await queue.get()
                except TimeoutError:
                    yield COMMENT
                    continue
            else:
                event = queue.get_nowait()
            ready = []
            while event is not None:
                ready.append(event)
                if queue.empty():
                    break
                event = queue.get_nowait()
            if ready:
                yield b"".join(ready)
            if event is None:
                return
    finally:
        pump.cancel()


async def _pump(
    starting: "asyncio.Future[AsyncIterator[bytes]]",
    queue: "asyncio.Queue[bytes | None]",
    fault: Callable[[Exception], bytes],
) -> None:
    try:
        source = cast("Any", await starting)
        async with aclosing(source) as events:
            async for event in events:
                await queue.put(event)
    except Exception as error:
        await queue.put(fault(error))
    await queue.put(None)


async def unless_gone(receive: Any, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; the work is cancelled when the client leaves. The request's body must have been read.

    Raises:
        ClientGone: it left.
    """
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone()
    finally:
        watch.cancel()
        task.cancel()


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
