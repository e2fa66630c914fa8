"""The composition root: settings, registry, models, engines, store, routes, in that order.

:func:`create_app` is cheap and free of side effects (``litestar`` calls it for every command, every worker once
more); whatever takes time, opens files or may fail happens in the lifespan. A failure there is one line, not a
traceback, and ends the process.
"""

import gc
import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from litestar import Litestar
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from msgspec import structs

from app.cli import Commands
from app.errors import StartupError
from app.http.codec import StructDocs
from app.http.docs import ASSETS, openapi_config
from app.http.errors import EXCEPTION_HANDLERS
from app.http.routes import ROUTES
from app.http.service import Service
from app.http.shell import Gate, Shell
from app.http.telemetry import Telemetry
from app.http.workers import end_with_parent
from app.registry import Registry
from app.settings import load_settings

__all__ = ("Isthmus", "create_app")

log = logging.getLogger("isthmus")
SWITCH_INTERVAL_S = 0.0005
"""How long a thread that holds the GIL keeps it from the event loop (Python's own default is 5 ms)."""


class Isthmus(Litestar):
    """Litestar, but a start-up that fails says so in one line."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve; see :class:`litestar.Litestar`."""
        if scope["type"] != "lifespan":
            await super().__call__(scope, receive, send)
            return
        failed = False

        async def tidy(message: Any) -> None:
            nonlocal failed
            if message["type"] == "lifespan.startup.failed":
                failed = True
                message = {**message, "message": self.state.get("failure") or message["message"]}
            await send(message)

        try:
            await super().__call__(scope, receive, tidy)
        except BaseException:
            if not failed or not self.state.get("failure"):
                raise


def create_app() -> Isthmus:
    """The app, not yet loaded."""
    service = Service()
    gate = Gate(Telemetry())

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await _load(service, gate, stack)
            except StartupError as error:
                app.state.failure = f"Isthmus cannot start: {error.message}"
                raise
            yield
            service.ready = False

    return Isthmus(
        route_handlers=[*ROUTES, ASSETS],
        lifespan=[lifespan],
        middleware=[DefineMiddleware(Shell, gate=gate)],
        exception_handlers=EXCEPTION_HANDLERS,
        dependencies={
            "service": Provide(lambda: service, sync_to_thread=False),
            "gate": Provide(lambda: gate, sync_to_thread=False),
        },
        openapi_config=openapi_config(),
        plugins=[StructDocs(), Commands()],
        logging_config=None,
        request_max_body_size=None,
    )


async def _load(service: Service, gate: Gate, stack: AsyncExitStack) -> None:
    end_with_parent()
    settings = load_settings(os.environ, Path.cwd())
    if not settings.state_key:
        settings = structs.replace(settings, state_key=secrets.token_hex(32))
    service.settings = settings
    service.registry = registry = Registry(settings.plugin_overrides)
    try:
        from app.models import load_models
    except ImportError:
        service.models = ()
    else:
        service.models = await load_models(settings, registry)
    gate.open(settings)
    stack.callback(gate.telemetry.closed)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    service.ready = True
