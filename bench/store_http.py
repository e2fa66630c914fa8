"""Responses created and retrieved a second over HTTP: one server process, one store, a worker that answers at once."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec

from bench.load import drive, get, post
from bench.servers import Server, free_port, isthmus, serving
from bench.table import Row
from tests.engines.fake_worker import FakeWorker, in_a_thread

__all__ = ("over_http",)

CONNECTIONS = 8
ANSWER = [151667, 198, 198, 151668, 271, 9707, 13, 151645]
"""Nothing thought, "Hello." and the end, in Qwen3's ids."""


def over_http(name: str, database_url: str, model: Path, seconds: float) -> Iterator[Row]:
    """Rows of creates (not stored ones beside them) and retrieves.

    Args:
        name: of the database, for the table.
        database_url: an empty store.
        model: a directory with Qwen3's tokenizer and template.
        seconds: of each measurement.
    """
    with in_a_thread(FakeWorker(ANSWER)) as fake:
        models = [{"name": "m", "source": str(model), "engine": "e"}]
        server = isthmus(
            model,
            1,
            free_port(),
            ISTHMUS_MODEL="",
            ISTHMUS_MODELS=json.dumps(models),
            ISTHMUS_ENGINES=json.dumps([{"name": "e", "kind": "vllm", "urls": [fake.url]}]),
            ISTHMUS_DATABASE_URL=database_url,
        )
        with serving(server):
            url = f"{server.url}/v1/responses"
            for what, fields in (("create, not stored", {"store": False}), ("create", {})):
                body = msgspec.json.encode({"model": "m", "input": "Hello?", **fields})
                yield _measured(name, what, server, url, body, seconds, post)
            with urlopen(Request(url, body, {"Content-Type": "application/json"})) as reply:
                made = msgspec.json.decode(reply.read())["id"]
            yield _measured(name, "retrieve", server, url, f"/v1/responses/{made}".encode(), seconds, get)


def _measured(
    name: str, what: str, server: Server, url: str, request: bytes, seconds: float, wire: Callable[[str, bytes], bytes]
) -> Row:
    drive(url, [request], connections=CONNECTIONS, seconds=1, warm_up=0, wire=wire)
    before = server.cpu_s()
    run = drive(url, [request], connections=CONNECTIONS, seconds=seconds, warm_up=0, wire=wire)
    if run.failed:
        raise RuntimeError(f"{run.failed} failed, the first with {run.first_failure.decode(errors='replace')}")
    cpu = (server.cpu_s() - before) * 1000 / max(1, len(run.latencies))
    times = f"p50 {run.percentile(0.5) * 1000:.1f} ms, p99 {run.percentile(0.99) * 1000:.1f} ms, CPU {cpu:.2f} ms"
    return Row("isthmus", f"{name} over HTTP, {CONNECTIONS} clients: {what}", f"{run.rate:,.0f}/s, {times}", run.rate)
