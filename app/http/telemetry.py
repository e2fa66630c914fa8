"""Requests, latency, tokens and load, for Prometheus; by route template and served model, never a prompt.

With several workers each one writes its numbers to files under ``PROMETHEUS_MULTIPROC_DIR`` (``litestar run`` makes the
folder), and whichever answers ``/metrics`` adds them up.
"""

import os
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from app.http.exchange import Exchange

__all__ = ("CONTENT_TYPE", "Telemetry")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LOAD_EVERY_S = 0.05
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Telemetry:
    """One process's numbers."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "isthmus_requests", "Requests answered", ("method", "route", "status", "model"), registry=registry
        )
        self._seconds = Histogram(
            "isthmus_request_seconds",
            "Seconds from the request's head to the reply's last byte",
            ("method", "route", "model"),
            buckets=BUCKETS,
            registry=registry,
        )
        self._tokens_in = Counter(
            "isthmus_prompt_tokens",
            "Tokens rendered, tokenised or generated from",
            ("route", "model"),
            registry=registry,
        )
        self._tokens_out = Counter(
            "isthmus_output_tokens", "Tokens generated or derendered", ("route", "model"), registry=registry
        )
        self._load = Gauge(
            "isthmus_requests_in_work",
            "Requests in work or waiting now; at max_queue the next one is answered 429",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._limit = Gauge(
            "isthmus_requests_limit", "max_queue of all workers", registry=registry, multiprocess_mode="livesum"
        )
        self._written = 0.0
        self._children: dict[tuple[str, str, int, str], tuple[Any, Any, Any, Any]] = {}

    def opened(self, limit: int) -> None:
        """The server serves, ``limit`` requests at once."""
        self._limit.set(limit)
        self._load.set(0)

    def closed(self) -> None:
        """This process ends: its gauges count no more."""
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]

    def load(self, running: int) -> None:
        """So many requests are in work or waiting; told often, written as often as anyone could look."""
        now = time.monotonic()
        if running == 0 or now - self._written > LOAD_EVERY_S:
            self._written = now
            self._load.set(running)

    def count(self, method: str, route: str, status: int, exchange: Exchange, seconds: float) -> None:
        """One request is over; ``route`` is its template, of which there are few."""
        key = (method, route, status, exchange.model)
        children = self._children.get(key)
        if children is None:
            children = self._children[key] = (
                self._requests.labels(method, route, str(status), exchange.model),
                self._seconds.labels(method, route, exchange.model),
                self._tokens_in.labels(route, exchange.model),
                self._tokens_out.labels(route, exchange.model),
            )
        children[0].inc()
        children[1].observe(seconds)
        if exchange.tokens_in:
            children[2].inc(exchange.tokens_in)
        if exchange.tokens_out:
            children[3].inc(exchange.tokens_out)

    def text(self) -> bytes:
        """All workers' numbers in Prometheus' text form."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
