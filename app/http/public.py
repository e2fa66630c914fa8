"""A prepared reply to the whole answer, or to the event stream, of the API that asked."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from litestar import Request, Response
from litestar.datastructures import State

from app.dialects.writer import Event
from app.http.codec import encode, reply
from app.http.errors import Family, fault_body
from app.http.exchange import Exchange, exchange_of
from app.http.streams import event_stream, unless_gone
from app.runs.reply import Events, Reply

__all__ = ("DONE", "answered")

DONE = b"data: [DONE]\n\n"


async def answered(
    prepared: Reply, request: Request[Any, Any, State], family: Family, *, keep_alive_s: float
) -> Response[Any]:
    """Run it: streamed where the request asks for it, else whole. The generation ends with its client.

    What fails before the first event is an error reply; later it is an event of the API's own shape, the last one.

    Args:
        prepared: what will be said.
        request: its body has been read.
        family: whose shapes events and errors have. OpenAI's streams end with ``data: [DONE]``, Anthropic's do not.
        keep_alive_s: seconds of silence on a stream after which a comment is sent.
    """
    exchange = exchange_of(request.scope)
    exchange.tokens_in = prepared.prompt_tokens
    if not prepared.stream:
        return reply(await unless_gone(request.receive, _folded(prepared, exchange)))
    done = DONE if family == "openai" else b""

    def failed(error: Exception) -> bytes:
        body = fault_body(error, family)
        return _line(Event("error" if family == "anthropic" else None, body)) + done

    opening = _opened(prepared.events, exchange, done)
    return await event_stream(opening, failed, receive=request.receive, keep_alive_s=keep_alive_s)


async def _folded(prepared: Reply, exchange: Exchange) -> Any:
    written = []
    async with aclosing(prepared.events) as run:
        async for event, usage in run:
            written.append(event)
            exchange.tokens_out = usage.completion_tokens
    return prepared.fold(written)


async def _opened(run: Events, exchange: Exchange, done: bytes) -> AsyncIterator[bytes]:
    """The events as bytes, once the first one is there."""
    first, _ = await anext(run)
    return _written(first, run, exchange, done)


async def _written(first: Event, run: Events, exchange: Exchange, done: bytes) -> AsyncIterator[bytes]:
    async with aclosing(run):
        yield _line(first)
        async for event, usage in run:
            exchange.tokens_out = usage.completion_tokens
            yield _line(event)
        if done:
            yield done


def _line(event: Event) -> bytes:
    data = b"data: " + encode(event.data) + b"\n\n"
    return data if event.name is None else b"event: " + event.name.encode() + b"\n" + data
