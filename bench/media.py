"""Images: a JPEG to tensors and to placeholders alone, in JSON and msgpack, ours beside vLLM's Python render server."""

import base64
import http.client
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.servers import Server, free_port, isthmus, peer, serving
from bench.table import Row
from tests.models import model_directory

__all__ = ("measure",)

SIZES = {"720p": (1280, 720), "1080p": (1920, 1080)}
PATH = "/v1/chat/completions/render"
FEWEST = 5
MANY = 60
"""Different pictures of a size, so that no server answers from its cache."""


def measure(model: Path, peers: Path | None, seconds: float) -> Iterator[Row]:
    """A row for each server, size and kind of reply; requests come one after another. (``model`` is of text.)"""
    vision = model_directory("qwen2.5-vl")
    servers = [isthmus(vision, 1, free_port())]
    if peers is not None:
        servers.append(peer(peers, "python", vision, free_port()))
    for server in servers:
        with serving(server):
            yield from _sizes(server, seconds)


def _sizes(server: Server, seconds: float) -> Iterator[Row]:
    kinds = {"tensors": ({}, "application/json"), "placeholders": ({"mm_payload": "none"}, "application/json")}
    if server.name == "isthmus":
        kinds["tensors, msgpack"] = ({}, "application/msgpack")
    for number, (size, (width, height)) in enumerate(SIZES.items()):
        lengths: dict[str, int] = {}
        for at, (kind, (fields, accept)) in enumerate(kinds.items()):
            seeds = range((number * 10 + at) * MANY, (number * 10 + at + 1) * MANY)
            requests = [_request(server.model, width, height, seed, fields) for seed in seeds]
            used = server.cpu_s()
            times, length = _drive(server.url, requests, accept, seconds)
            lengths[kind] = length
            used = (server.cpu_s() - used) / len(times)
            median = sorted(times)[len(times) // 2]
            said = f"{median * 1e3:.1f} ms, {length / 1e6:.3f} MB, {used * 1e3:.1f} ms of processor time"
            yield Row(server.name, f"{size} JPEG to {kind}", said, 1 / median)
        if "tensors, msgpack" in lengths:
            saved = 1 - lengths["tensors, msgpack"] / lengths["tensors"]
            yield Row(server.name, f"{size} JPEG, msgpack beside JSON", f"{saved:.1%} fewer bytes")


def _request(model: str, width: int, height: int, seed: int, fields: dict[str, str]) -> bytes:
    """A chat request with a picture of its own."""
    import numpy as np
    from PIL import Image

    coarse = np.random.default_rng(seed).integers(0, 256, (height // 16, width // 16, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    url = "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is this?"}]
    return json.dumps({"model": model, "messages": [{"role": "user", "content": content}], **fields}).encode()


def _drive(url: str, requests: list[bytes], accept: str, seconds: float) -> tuple[list[float], int]:
    """Seconds of each request, the first left out, and the last reply's bytes."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    times: list[float] = []
    length = 0
    until = time.perf_counter() + seconds
    for number, body in enumerate(requests):
        if number > FEWEST and time.perf_counter() > until:
            break
        began = time.perf_counter()
        connection.request("POST", PATH, body, {"Content-Type": "application/json", "Accept": accept})
        reply = connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{url} answered {reply.status}: {content[:300]!r}")
        if number:
            times.append(time.perf_counter() - began)
        length = len(content)
    connection.close()
    return times, length
