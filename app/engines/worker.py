"""One remote worker: a request to token chunks over HTTP, with deadlines, whatever the worker does.

What a worker speaks is its :class:`Wire` (:mod:`app.engines.vllm`, :mod:`app.engines.sglang`); connecting, reading
events, deadlines, refusals and aborting are done here. A worker's failure is a :class:`WorkerFailure`, which the fleet
may answer with a try on another worker.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import aiohttp
import msgspec
from msgspec import UNSET, Struct

from app.engines.engine import TokenChunk
from app.engines.sse import SseReader
from app.errors import EngineFailure, EngineTimeout, InvalidRequest, IsthmusError, Overloaded
from app.multimodal.splice import Body
from app.protocol.generate import GenerateRequest

__all__ = ("Deadlines", "Wire", "WireReply", "Worker", "WorkerFailure", "WorkerTimeout", "refusal")


T = TypeVar("T")


class WorkerFailure(EngineFailure):
    """The worker is gone, answers nonsense or says that it is broken."""


class WorkerTimeout(WorkerFailure, EngineTimeout):
    """The worker did not answer in time."""


class Deadlines(Struct, frozen=True, kw_only=True):
    """Seconds. ``first`` bounds the wait for the first event, ``between`` that for each next one."""

    connect: float = 5.0
    first: float = 300.0
    between: float = 60.0
    health: float = 2.0


class WireReply(Protocol):
    """Reads the reply to one request."""

    def event(self, data: bytes) -> list[TokenChunk] | None:
        """Chunks of one event; None at the stream's own end mark. Raises on an error event or nonsense."""

    def whole(self, body: bytes) -> list[TokenChunk]:
        """Chunks of a reply that was not streamed."""


class Wire(Protocol):
    """What a kind of worker speaks."""

    generate_path: str
    health_path: str
    abort_path: str

    def body(self, request: GenerateRequest, worker_id: str) -> tuple[bytes | Body, bool]:
        """The request's JSON, and whether its reply is streamed. ``worker_id`` is its unique id on the worker.

        Asked in a thread where the request has media.
        """

    def abort_body(self, worker_id: str) -> bytes:
        """JSON that ends a request."""

    def reply(self, request: GenerateRequest) -> WireReply:
        """A reader of the reply."""


class Worker:
    """One base URL. ``running`` counts requests in flight; ``healthy`` is the last health check's answer."""

    def __init__(
        self, url: str, wire: Wire, deadlines: Deadlines, *, api_key: str = "", max_connections: int = 1024
    ) -> None:
        self.url = url.rstrip("/")
        self.running = 0
        self.healthy = True
        self._wire = wire
        self._deadlines = deadlines
        self._farewells: set[asyncio.Task[None]] = set()
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._max_connections = max_connections
        self._connected: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        """Its connections, made on the loop that first asks for one. (aiohttp's pool stays quick with hundreds of
        requests in flight; httpx's looks at all of them at each.)"""
        if self._connected is None:
            self._connected = aiohttp.ClientSession(
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._deadlines.connect),
                # Shorter than the 5 s after which uvicorn closes an idle one: a request must not meet the closing.
                connector=aiohttp.TCPConnector(limit=self._max_connections, keepalive_timeout=3.0),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._connected

    async def close(self) -> None:
        """Close every connection."""
        if self._farewells:
            await asyncio.gather(*self._farewells, return_exceptions=True)
        if self._connected is not None:
            await self._connected.close()

    async def check(self) -> bool:
        """Ask for its health; the answer stays in ``healthy``."""
        try:
            async with (
                asyncio.timeout(self._deadlines.health),
                self._session.get(self.url + self._wire.health_path, allow_redirects=False) as reply,
            ):
                self.healthy = 200 <= reply.status < 300
        except (aiohttp.ClientError, TimeoutError, OSError):
            self.healthy = False
        return self.healthy

    async def generate(self, request: GenerateRequest, worker_id: str) -> AsyncGenerator[TokenChunk, None]:
        """Run ``request`` on the worker. Closing the iterator ends it there.

        Raises:
            InvalidRequest: the worker refuses the request itself.
            Overloaded: the worker has no room.
            WorkerFailure: anything else.
        """
        if request.features is None:
            body, streamed = self._wire.body(request, worker_id)
        else:
            body, streamed = await asyncio.to_thread(self._wire.body, request, worker_id)
        self.running += 1
        over = False
        choices = 1 if request.sampling_params.n is UNSET else request.sampling_params.n
        try:
            async with aclosing(self._chunks(request, body, streamed, choices)) as chunks:
                async for chunk in chunks:
                    choices -= chunk.finish_reason is not None
                    over = not choices
                    yield chunk
            over = True
        except IsthmusError as error:
            # A worker that has refused has nothing to end; one that was too slow may have.
            over = not isinstance(error, EngineTimeout)
            raise
        finally:
            self.running -= 1
            if not over:
                # The closed connection says the same, to a worker that looks.
                self._in_background(self.abort(worker_id))

    async def _chunks(
        self, request: GenerateRequest, body: bytes | Body, streamed: bool, choices: int
    ) -> AsyncGenerator[TokenChunk, None]:
        reply = self._wire.reply(request)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        data = body if isinstance(body, bytes) else _piecewise(body)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._deadlines.first
        try:
            url = self.url + self._wire.generate_path
            post = self._session.post(url, data=data, headers=headers, allow_redirects=False)
            response = await _by(deadline, post)
            try:
                if not 200 <= response.status < 300:
                    raise refusal(response.status, await _by(deadline, response.read()))
                if not streamed or response.content_type != "text/event-stream":
                    for chunk in reply.whole(await _by(deadline, response.read())):
                        yield chunk
                    return
                async with aclosing(self._events(response.content, reply, deadline)) as events:
                    async for chunk in events:
                        choices -= chunk.finish_reason is not None
                        yield chunk
            finally:
                if choices:
                    response.close()
                else:
                    self._in_background(self._read_out(response))
        except aiohttp.ClientError as error:
            raise WorkerFailure(f"The worker broke off: {type(error).__name__}.") from error
        except TimeoutError as error:
            raise WorkerTimeout("The worker did not answer in time.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WorkerFailure("The worker sent something that is no reply.") from error

    async def _events(
        self, source: aiohttp.StreamReader, reply: WireReply, deadline: float
    ) -> AsyncGenerator[TokenChunk, None]:
        """Chunks of the streamed reply; the deadline starts anew with every event that brings some."""
        reader = SseReader()
        loop = asyncio.get_running_loop()
        while received := await _by(deadline, source.readany()):
            for data in reader.feed(received):
                chunks = reply.event(data)
                if chunks is None:
                    return
                for chunk in chunks:
                    yield chunk
                deadline = loop.time() + self._deadlines.between
        raise WorkerFailure("The worker broke off in the middle of its reply.")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """What nobody waits for but :meth:`close`."""
        task = asyncio.get_running_loop().create_task(work)
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _read_out(self, response: aiohttp.ClientResponse) -> None:
        """Read what comes after the last choice's end, so that the connection can carry another request."""
        try:
            async with asyncio.timeout(self._deadlines.health):
                while await response.content.readany():
                    pass
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass
        finally:
            response.close()  # a reply that was read to its end has given its connection back already

    async def abort(self, worker_id: str) -> None:
        """End a request by its id on the worker; a worker that can't be reached has ended it already."""
        try:
            async with (
                asyncio.timeout(self._deadlines.health),
                self._session.post(
                    self.url + self._wire.abort_path,
                    data=self._wire.abort_body(worker_id),
                    headers={"Content-Type": "application/json"},
                    allow_redirects=False,
                ),
            ):
                pass
        except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError):
            pass


async def _piecewise(body: Body) -> AsyncGenerator[bytes, None]:
    """The body in chunks, between which others get their turn."""
    for chunk in body.chunks():
        yield chunk
        await asyncio.sleep(0)


async def _by(deadline: float, work: Awaitable[T]) -> T:
    """Await ``work`` until the loop's clock shows ``deadline``. No timeout ever spans a yield of a generator."""
    async with asyncio.timeout_at(deadline):
        return await work


def refusal(status: int, body: bytes) -> IsthmusError:
    """What a worker's error status means for the caller."""
    message, param = _explanation(body)
    if status in (429, 503):
        return Overloaded(message or "The worker has no room.")
    if status in (400, 413, 422):
        return InvalidRequest(message or "The worker refused the request.", param=param)
    if status in (408, 504):
        return WorkerTimeout("The worker did not answer in time.")
    return WorkerFailure(f"The worker answered with status {status}.")


def _explanation(body: bytes) -> tuple[str, str | None]:
    """Message and parameter of an error body in any of the usual shapes."""
    try:
        found: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "", None
    if isinstance(found, dict) and isinstance(found.get("error"), dict):
        found = found["error"]
    if not isinstance(found, dict):
        return "", None
    message, param = found.get("message"), found.get("param")
    return str(message or "")[:2000], param if isinstance(param, str) else None
