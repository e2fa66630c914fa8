"""Official clients fed with our events by a mock transport: their accumulators are the oracle."""

from collections.abc import Iterable
from typing import Any

import anthropic
import msgspec
import openai


def sse(events: Iterable[Any], named: bool, done: bool) -> bytes:
    """Server-sent events of JSON data; ``named``: with the data's type as the event's name."""
    lines = []
    for data in events:
        text = msgspec.json.encode(data).decode()
        lines.append(f"event: {msgspec.to_builtins(data)['type']}\ndata: {text}\n\n" if named else f"data: {text}\n\n")
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def _client(library: Any, body: bytes) -> Any:
    """A client of httpx, or of the fork of it that the SDK uses, whose every answer is this stream."""

    def answer(request: Any) -> Any:
        return library.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    return library.Client(transport=library.MockTransport(answer))


def openai_client(events: Iterable[Any], *, named: bool) -> openai.OpenAI:
    client = _client(_httpx_of(openai), sse(events, named, True))
    return openai.OpenAI(api_key="k", base_url="http://test/v1", http_client=client)


def anthropic_client(events: Iterable[Any]) -> anthropic.Anthropic:
    client = _client(_httpx_of(anthropic), sse(events, True, False))
    return anthropic.Anthropic(api_key="k", base_url="http://test", http_client=client)


def _httpx_of(sdk: Any) -> Any:
    """Which library it is differs between versions of the SDKs."""
    return getattr(sdk._base_client, "httpx2", None) or sdk._base_client.httpx
