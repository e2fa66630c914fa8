"""The composition root: settings, registry, models, engines, store and routes become one app.

:func:`create_app` is cheap and free of side effects (``litestar`` calls it for every command, every worker once
more); whatever takes time, opens files or may fail happens in the lifespan. A failure there is one line, not a
traceback, and ends the process.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from litestar import Litestar
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from litestar.plugins.core import MsgspecDIPlugin

from app.cli import Commands
from app.errors import StartupError
from app.http.codec import JsonRequest, StructDocs
from app.http.docs import asset, openapi_config, titled
from app.http.errors import EXCEPTION_HANDLERS
from app.http.json_route import ShortWay, short_ways
from app.http.routes import JSON_ROUTES, ROUTES
from app.http.service import Service
from app.http.shell import Gate, Shell
from app.http.startup import start
from app.http.telemetry import Telemetry

__all__ = ("Isthmus", "create_app")


class Isthmus(Litestar):
    """Litestar, with short ways to its JSON routes, and a start-up that fails says so in one line."""

    ways: Mapping[str, ShortWay] = {}

    @staticmethod
    def _get_default_plugins(plugins: list[Any]) -> list[Any]:
        """Litestar's own, less pydantic's and attrs': nothing here is made of these, and importing them takes longer
        than building the app."""
        return [*plugins, MsgspecDIPlugin()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve; see :class:`litestar.Litestar`."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        way = self.ways.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if way is None:
            await super().__call__(scope, receive, send)
        else:
            await way(scope, receive, send)

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        async def tidy(message: Any) -> None:
            if message["type"] == "lifespan.startup.failed" and "failure" in self.state:
                message = {**message, "message": self.state["failure"]}
            await send(message)

        try:
            await super().__call__(scope, receive, tidy)
        except BaseException:  # the server was told and ends; a traceback beside the one line would say no more
            if "failure" not in self.state:
                raise


def create_app() -> Isthmus:
    """The app, not yet loaded."""
    service = Service()
    gate = Gate(Telemetry())

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await start(service, gate, stack)
            except StartupError as error:
                app.state["failure"] = f"Isthmus cannot start: {error.message}"
                raise
            yield
            service.ready = False

    app = Isthmus(
        route_handlers=[*titled(ROUTES), asset],
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
        request_class=JsonRequest,
    )
    app.ways = short_ways(JSON_ROUTES, service, gate)
    return app
