"""One remote worker: a request to token chunks over HTTP, with deadlines, whatever the worker does.

What a worker speaks is its :class:`Wire` (:mod:`app.engines.vllm`, :mod:`app.engines.sglang`); connecting, reading
events, deadlines, refusals and aborting are done here. A worker's failure is a :class:`WorkerFailure`, which the fleet
may answer with a try on another worker.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import httpx
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
        self._client = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(None, connect=deadlines.connect, pool=deadlines.first),
            # Shorter than the 5 s after which uvicorn closes an idle connection: a request must not meet the closing.
            limits=httpx.Limits(max_connections=max_connections, max_keepalive_connections=64, keepalive_expiry=3.0),
            trust_env=False,
            # Certificates are read for those who need them only: that takes a twentieth of a second.
            verify=self.url.startswith("https:"),
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._farewells:
            await asyncio.gather(*self._farewells, return_exceptions=True)
        await self._client.aclose()

    async def check(self) -> bool:
        """Ask for its health; the answer stays in ``healthy``."""
        try:
            async with asyncio.timeout(self._deadlines.health):
                reply = await self._client.get(self._wire.health_path)
            self.healthy = reply.is_success
        except (httpx.HTTPError, TimeoutError, OSError):
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
        content = body if isinstance(body, bytes) else _piecewise(body)
        post = self._client.build_request("POST", self._wire.generate_path, content=content, headers=headers)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._deadlines.first
        try:
            response = await _by(deadline, self._client.send(post, stream=True))
            source: AsyncIterator[bytes] | None = None
            try:
                if not response.is_success:
                    raise refusal(response.status_code, await _by(deadline, response.aread()))
                if not streamed or not response.headers.get("content-type", "").startswith("text/event-stream"):
                    for chunk in reply.whole(await _by(deadline, response.aread())):
                        yield chunk
                    return
                source = response.aiter_bytes()
                async with aclosing(self._events(source, reply, deadline)) as events:
                    async for chunk in events:
                        choices -= chunk.finish_reason is not None
                        yield chunk
            finally:
                if source is not None and not choices:
                    self._in_background(self._read_out(response, source))
                else:
                    await response.aclose()
        except TimeoutError as error:
            raise WorkerTimeout("The worker did not answer in time.") from error
        except httpx.HTTPError as error:
            raise WorkerFailure(f"The worker broke off: {type(error).__name__}.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WorkerFailure("The worker sent something that is no reply.") from error

    async def _events(
        self, source: AsyncIterator[bytes], reply: WireReply, deadline: float
    ) -> AsyncGenerator[TokenChunk, None]:
        """Chunks of the streamed reply; the deadline starts anew with every event that brings some."""
        reader = SseReader()
        loop = asyncio.get_running_loop()
        while (received := await _by(deadline, anext(source, None))) is not None:
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

    async def _read_out(self, response: httpx.Response, source: AsyncIterator[bytes]) -> None:
        """Read what comes after the last choice's end, so that the connection can carry another request."""
        try:
            async with asyncio.timeout(self._deadlines.health):
                async for _ in source:
                    pass
        except (httpx.HTTPError, TimeoutError, OSError):
            pass
        finally:
            await response.aclose()

    async def abort(self, worker_id: str) -> None:
        """End a request by its id on the worker; a worker that can't be reached has ended it already."""
        try:
            async with asyncio.timeout(self._deadlines.health):
                await self._client.post(
                    self._wire.abort_path,
                    content=self._wire.abort_body(worker_id),
                    headers={"Content-Type": "application/json"},
                )
        except (httpx.HTTPError, TimeoutError, OSError, RuntimeError):
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
