"""Render: requests a second and latency at three sizes, start-up time and memory, ours beside vLLM's."""

from collections.abc import Iterator
from pathlib import Path

from bench.bodies import SIZES, bodies
from bench.load import drive
from bench.servers import Server, free_port, isthmus, peer, serving
from bench.table import Row

__all__ = ("measure",)

DIFFERENT = 512
"""Requests that differ, sent in turn."""
CONNECTIONS = 16


def measure(model: Path, peers: Path | None, seconds: float) -> Iterator[Row]:
    """A row for each server and size; servers run one after the other, each with both cores beside the load."""
    servers = [isthmus(model, 2, free_port())]
    if peers is not None:
        servers += [peer(peers, "rust", model, free_port()), peer(peers, "python", model, free_port())]
    for server in servers:
        with serving(server):
            yield from _sizes(server, seconds)
            yield Row(server.name, "start to ready", f"{server.ready_s:.2f} s", server.ready_s)
            yield Row(server.name, "memory when ready", f"{server.memory_mb:.0f} MB", server.memory_mb)
    alone = isthmus(model, 1, free_port())
    with serving(alone):
        yield Row(alone.name, "start to ready, one worker", f"{alone.ready_s:.2f} s", alone.ready_s)
        yield Row(alone.name, "memory when ready, one worker", f"{alone.memory_mb:.0f} MB", alone.memory_mb)


def _sizes(server: Server, seconds: float) -> Iterator[Row]:
    url = f"{server.url}/v1/chat/completions/render"
    for size in SIZES:
        requests = bodies(server.model, size, DIFFERENT)
        drive(url, requests, connections=CONNECTIONS, seconds=2, warm_up=0)
        used = server.cpu_s()
        result = drive(url, requests, connections=CONNECTIONS, seconds=seconds, warm_up=0)
        used = (server.cpu_s() - used) / max(1, len(result.latencies))
        median, tail = (result.percentile(share) * 1e3 for share in (0.5, 0.99))
        said = f"{result.rate:,.0f}/s, p50 {median:.1f} ms, p99 {tail:.1f} ms"
        if result.failed:
            said += f", {result.failed} failed: {result.first_failure.decode(errors='replace')[-300:]}"
        yield Row(server.name, f"chat render, {size}", said, result.rate)
        what = f"processor time of one, {size}"
        yield Row(server.name, what, f"{used * 1e6:,.0f} us", 1 / used)
