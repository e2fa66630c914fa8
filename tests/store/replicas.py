"""Real servers over one store, as processes, whose one model is a worker in the tests' own process."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tokenizers import Tokenizer

from tests.engines.fake_worker import FakeWorker
from tests.http.live import Running, running
from tests.models import model_directory

from .served import KEYS, read_events


class Words:
    """The worker's vocabulary."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(model_directory("qwen3") / "tokenizer.json"))

    def ids(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))


class Replica:
    """A client of one server process."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.http = httpx.Client(
            base_url=f"{server.url}/v1", headers={"Authorization": "Bearer key-a"}, trust_env=False, timeout=60
        )

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.http.request(method, path, **options)

    def get(self, name: str) -> dict[str, Any]:
        reply = self.call("GET", f"/responses/{name}")
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    def post(self, **body: Any) -> dict[str, Any]:
        reply = self.call("POST", "/responses", json={"model": "m", **body})
        assert reply.status_code == 200, reply.text
        made: dict[str, Any] = reply.json()
        return made

    def stream(self, **body: Any) -> list[dict[str, Any]]:
        reply = self.call("POST", "/responses", json={"model": "m", "stream": True, **body})
        assert reply.status_code == 200, reply.text
        return read_events(reply.text)


@contextmanager
def replica(database_url: str, fake: FakeWorker, folder: Path, **settings: str) -> Iterator[Replica]:
    """A server process over this store and this worker; killed on leaving."""
    model = {"name": "m", "source": str(model_directory("qwen3")), "tokenizer": "hf", "engine": "e"}
    environ = {
        "ISTHMUS_MODELS": json.dumps([model]),
        "ISTHMUS_ENGINES": json.dumps([{"name": "e", "kind": "vllm", "urls": [fake.url]}]),
        "ISTHMUS_DATABASE_URL": database_url,
        "ISTHMUS_API_KEYS": KEYS,
        "ISTHMUS_STATE_KEY": "of the tests",
        "ISTHMUS_CACHE": str(folder),
        "OMP_NUM_THREADS": "1",
        **settings,
    }
    with running(environ) as server:
        client = Replica(server)
        try:
            yield client
        finally:
            client.http.close()
