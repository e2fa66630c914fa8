"""Whether the server lives, serves, and what it is: /health, /ping, /ready, /version, /load, /metrics."""

from importlib.metadata import version
from typing import Any

from litestar import MediaType, Response, get, route
from litestar.di import NamedDependency
from litestar.enums import HttpMethod
from litestar.openapi import ResponseSpec

from app.http.codec import reply
from app.http.service import Service
from app.http.shell import OPEN, Gate
from app.http.telemetry import CONTENT_TYPE
from app.protocol.service import Readiness, ServerLoad, Version

__all__ = ("ROUTES",)

NO_KEY: list[Any] = [{}]
NOT_READY = {503: ResponseSpec(Readiness, description="Some model has not rendered a probe.", generate_examples=False)}


@get("/health", opt=OPEN, security=NO_KEY, media_type=MediaType.TEXT, tags=["operations"])
async def health() -> None:
    """Liveness: 200 with an empty body as soon as the process takes connections."""


@route(
    "/ping",
    http_method=[HttpMethod.GET, HttpMethod.POST],
    opt=OPEN,
    security=NO_KEY,
    status_code=200,
    media_type=MediaType.TEXT,
    tags=["operations"],
)
async def ping() -> None:
    """Liveness under the name that SageMaker asks for."""


@get("/ready", opt=OPEN, security=NO_KEY, tags=["operations"], responses=NOT_READY)
async def ready(service: NamedDependency[Service]) -> Response[Readiness]:
    """Readiness: 200 once every model has rendered a probe, else 503."""
    names = [model.name for model in service.models] if service.ready else []
    return reply(Readiness(ready=service.ready, models=names), status=200 if service.ready else 503)


@get("/version", tags=["operations"])
async def show_version(service: NamedDependency[Service]) -> Response[Version]:
    """The server's version, and every installed plugin with its distribution, version and state."""
    return reply(Version(version=version("isthmus"), plugins=service.registry.listing()))


@get("/load", tags=["operations"])
async def load(gate: NamedDependency[Gate]) -> Response[ServerLoad]:
    """Requests in work or waiting in this process; this one is not counted."""
    return reply(ServerLoad(server_load=gate.admission.running - 1))


@get("/metrics", media_type=MediaType.TEXT, tags=["operations"])
async def metrics(gate: NamedDependency[Gate]) -> Response[bytes]:
    """Prometheus metrics: requests, latency, tokens and load by route and model. Never a prompt."""
    return Response(gate.telemetry.text(), headers={"Content-Type": CONTENT_TYPE})


ROUTES: list[Any] = [health, ping, ready, show_version, load, metrics]
