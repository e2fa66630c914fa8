"""The whole server on a real socket, in a thread of the test's process, so that its engine can be scripted and seen."""

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import uvicorn

from app.asgi import create_app
from tests.engines.scripted import Script, ScriptedEngine

END = "<|im_end|>"
KEY = "key-a"


class Live:
    """A server that answers, and clients for it. ``m`` is the model that :meth:`says` scripts."""

    def __init__(self, port: int, service: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.service = service
        self.loop = loop
        self.engine: Any = None
        self.at_start = {_name(task) for task in asyncio.all_tasks(loop)}
        self._clients: list[Any] = []

    def model(self, name: str = "m") -> Any:
        return self.service.models.get(name)

    def ids(self, text: str, name: str = "m") -> list[int]:
        ids: list[int] = self.model(name).tokenizer.encode(text).ids
        return ids

    def text(self, ids: list[int], name: str = "m") -> str:
        text: str = self.model(name).tokenizer.decode(ids)
        return text

    def says(self, *answers: str | Callable[..., Script], name: str = "m", **fields: Any) -> ScriptedEngine:
        """A fresh engine that gives these answers in turn; ``fields`` are those of Script."""
        scripts = [
            answer if callable(answer) else Script(self.ids(answer, name), **({"per_chunk": 1} | fields))
            for answer in answers
        ]
        self.engine = self.model(name).engine = ScriptedEngine(*scripts)
        return self.engine

    def openai(self, **options: Any) -> openai.OpenAI:
        return self._kept(openai.OpenAI(base_url=f"{self.url}/v1", **({"api_key": KEY, "max_retries": 0} | options)))

    def anthropic(self, **options: Any) -> anthropic.Anthropic:
        return self._kept(anthropic.Anthropic(base_url=self.url, **({"api_key": KEY, "max_retries": 0} | options)))

    def _kept(self, client: Any) -> Any:
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()

    def idle(self, seconds: float = 20) -> bool:
        """Whether nothing is left of any request: no engine slot, no place in the queue, no task of ours."""
        return until(lambda: self.engine.running == 0 and not self.tasks(), seconds)

    def tasks(self) -> list[str]:
        """What runs in the server's loop that did not when it had just started."""
        return [name for task in asyncio.all_tasks(self.loop) if (name := _name(task)) not in self.at_start]


def _name(task: "asyncio.Task[Any]") -> str:
    return str(getattr(task.get_coro(), "__qualname__", ""))


def until(true: Callable[[], bool], seconds: float = 20) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if true():
            return True
        time.sleep(0.02)
    return bool(true())


@contextmanager
def live(models: list[dict[str, Any]] | None, **environ: str) -> Iterator[Live]:
    """A server with these models (None: the demo model) and further settings by their environment names."""
    settings = {"ISTHMUS_CONFIG": os.devnull, "ISTHMUS_DATABASE_URL": "", "ISTHMUS_API_KEYS": f'["{KEY}"]', **environ}
    if models is not None:
        settings["ISTHMUS_MODELS"] = json.dumps(models)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        app = create_app()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        loops: list[asyncio.AbstractEventLoop] = []

        async def serve() -> None:
            loops.append(asyncio.get_running_loop())
            await server.serve(sockets=[listening])

        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        # The settings are read once, at start-up; other tests must not see them.
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            thread.start()
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.02)
        found = Live(listening.getsockname()[1], app.dependencies["service"].dependency(), loops[0])
        try:
            yield found
        finally:
            found.close()
            server.should_exit = True
            thread.join(30)


def served(folder: Path, name: str = "m", **fields: Any) -> dict[str, Any]:
    """A model's settings."""
    return {"name": name, "source": str(folder), "tokenizer": "hf", **fields}
