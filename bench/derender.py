"""Streaming derender: reasoning and tool calls, one token a chunk, one client in sequence; flat in the position."""

import http.client
import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.servers import Server, free_port, isthmus, serving
from bench.table import Row

__all__ = ("measure",)

TOKENS = 4_000
ENDS = 100
"""Chunks at either end whose speeds are compared."""
REASONING = "The readings have to be compared one by one before anything can be said about the valve. " * 80
CALL = (
    '<tool_call>\n{"name": "compare", "arguments": {"first": 12, "second": "a valve", "notes": "%s"}}\n</tool_call>\n'
)
TEXT = f"{REASONING}</think>\n\nI will compare them.\n" + "".join(CALL % ("word " * 60) for _ in range(40))
CHAT = {
    "messages": [{"role": "user", "content": "Compare the readings."}],
    "tools": [{"type": "function", "function": {"name": "compare", "parameters": {"type": "object"}}}],
}


def measure(model: Path, peers: Path | None, seconds: float) -> Iterator[Row]:
    """Rates of one stream as a whole and at its two ends; ``seconds`` does not matter, nor do peers, which are slow."""
    formats = {"ISTHMUS_MODELS__0__TOOL_FORMAT": "hermes", "ISTHMUS_MODELS__0__REASONING_FORMAT": "qwen3"}
    server = isthmus(model, 1, free_port(), **formats)
    with serving(server):
        prompt = _post(server, "/v1/chat/completions/render", CHAT)["token_ids"]
        ids = _post(server, "/tokenize", {"prompt": TEXT})["tokens"][:TOKENS]
        times = list(_stream(server, prompt, ids))
    total = len(times) / sum(times)
    yield Row("isthmus", f"streaming derender, {len(times)} tokens, one a chunk", f"{total:,.0f} tokens/s", total)
    for name, part in (("first", times[1 : ENDS + 1]), ("last", times[-ENDS - 1 : -1])):
        rate = len(part) / sum(part)
        yield Row("isthmus", f"streaming derender, {name} {ENDS} chunks", f"{rate:,.0f} tokens/s", rate)


def _stream(server: Server, prompt: list[int], ids: list[int]) -> Iterator[float]:
    """Seconds of each chunk."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port))
    state = None
    for number, token in enumerate(ids):
        choice = {"index": 0, "token_ids": [token], "finish_reason": "length" if number == len(ids) - 1 else None}
        body: dict[str, Any] = {
            "stream": True,
            "generate_chunk": {"request_id": "chatcmpl-bench", "choices": [choice]},
            "chat_request": CHAT,
        }
        if state is None:
            body["prompt_token_ids"] = prompt
        else:
            body["stream_state"] = state
        wire = json.dumps(body).encode()
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions/derender", wire, {"Content-Type": "application/json"})
        reply = json.loads(connection.getresponse().read())
        yield time.perf_counter() - began
        state = reply["stream_state"]
    connection.close()


def _post(server: Server, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request) as reply:
        return json.loads(reply.read())
