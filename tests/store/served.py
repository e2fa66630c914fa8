"""A server with a store, in a thread of the tests, whose one model says what a test tells it to say."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import openai
import pytest
import uvicorn

from app.asgi import create_app
from tests.engines.scripted import Script, ScriptedEngine
from tests.models import model_directory

END = "<|im_end|>"
THOUGHT = "<think>\nhm\n</think>\n\n"
CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
TOOLS: list[Any] = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
KEYS = '[{"key": "key-a", "tenant": "a"}, {"key": "key-a2", "tenant": "a"}, {"key": "key-b", "tenant": "b"}]'


class Served:
    """A running server. SDK clients ``a`` and ``a2`` are one tenant, ``b`` is another."""

    def __init__(self, port: int, service: Any) -> None:
        self.service = service
        self.base = f"http://127.0.0.1:{port}/v1"
        self.a, self.a2, self.b = (
            openai.OpenAI(base_url=self.base, api_key=key, max_retries=0) for key in ("key-a", "key-a2", "key-b")
        )
        self.http = httpx.Client(headers={"Authorization": "Bearer key-a"}, trust_env=False, timeout=60)

    @property
    def engine(self) -> ScriptedEngine:
        (model,) = self.service.models
        engine: ScriptedEngine = model.engine
        return engine

    def says(self, *answers: str, **fields: Any) -> ScriptedEngine:
        """Let the model answer these in turn, the last one again and again."""
        (model,) = self.service.models
        scripts = [Script(model.tokenizer.encode(answer).ids, **{"per_chunk": 1, **fields}) for answer in answers]
        model.engine = ScriptedEngine(*scripts)
        return self.engine

    def prompt(self, which: int = -1) -> str:
        """The text of a prompt that the engine got."""
        (model,) = self.service.models
        return str(model.tokenizer.decode(self.engine.requests[which].token_ids))

    def call(self, method: str, path: str, key: str = "key-a", **options: Any) -> httpx.Response:
        return self.http.request(method, self.base + path, headers={"Authorization": f"Bearer {key}"}, **options)

    def post(self, **body: Any) -> dict[str, Any]:
        """A response created, as JSON."""
        reply = self.call("POST", "/responses", json={"model": "m", **body})
        assert reply.status_code == 200, reply.text
        created: dict[str, Any] = reply.json()
        return created

    def stream(self, **body: Any) -> list[dict[str, Any]]:
        """The events of a streamed response; its framing is checked."""
        reply = self.call("POST", "/responses", json={"model": "m", "stream": True, **body})
        assert reply.status_code == 200, reply.text
        return read_events(reply.text)

    def close(self) -> None:
        self.http.close()
        for client in (self.a, self.a2, self.b):
            client.close()


def read_events(text: str) -> list[dict[str, Any]]:
    """A stream's events: each named by its type, numbered one by one, and ``[DONE]`` at the end."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    assert blocks[-1] == "data: [DONE]"
    events = []
    for block in blocks[:-1]:
        name, data = block.split("\n")
        event = msgspec.json.decode(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    first = events[0]["sequence_number"]
    assert [event["sequence_number"] for event in events] == list(range(first, first + len(events)))
    return events


def until(done: Callable[[], Any], *, within_s: float = 60) -> Any:
    """What a function answers as soon as that is true."""
    ends = time.monotonic() + within_s
    while not (found := done()):
        assert time.monotonic() < ends
        time.sleep(0.02)
    return found


@contextmanager
def serve(database_url: str, **environ: str) -> Iterator[Served]:
    """A server over this database: one replica."""
    folder = model_directory("qwen3")
    settings = {
        "ISTHMUS_CONFIG": os.devnull,
        "ISTHMUS_MODELS": f'[{{"name": "m", "source": "{folder}", "tokenizer": "hf"}}]',
        "ISTHMUS_DATABASE_URL": database_url,
        "ISTHMUS_API_KEYS": KEYS,
        "ISTHMUS_STATE_KEY": "of the tests",
        **environ,
    }
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        app = create_app()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        # The settings are read once, at start-up; other tests must not see them.
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            thread.start()
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.02)
        client = Served(listening.getsockname()[1], app.dependencies["service"].dependency())
        try:
            yield client
        finally:
            client.close()
            server.should_exit = True
            thread.join(20)
