"""The layer around every route: request id, key, places in the queue, body size, metrics."""

import time
from typing import Any

from app.errors import Forbidden, IsthmusError
from app.http.auth import KeyRing
from app.http.errors import send_error
from app.http.exchange import Exchange
from app.http.limits import Admission, Watch, bounded_receive
from app.http.telemetry import Telemetry
from app.settings import Settings

__all__ = ("OPEN", "SCALE_OUT", "Gate", "Shell")

OPEN = {"open": True}
"""Route options: answered without a key, a place in the queue or a line in the metrics (health and docs)."""
SCALE_OUT = {"scale_out": True}
"""Route options: render, derender, tokenize and generate, which ``scale_out = false`` switches off."""


class Gate:
    """What a request is checked against; every key is refused until the settings are read."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self.keys = KeyRing(())
        self.scale_out = True
        self.max_body_bytes = 0
        self.admission = Admission(0)
        self.watch = Watch()

    def open(self, settings: Settings) -> None:
        """Take the settings' keys and bounds."""
        self.keys = KeyRing(settings.api_keys)
        self.scale_out = settings.scale_out
        self.max_body_bytes = settings.max_body_bytes
        self.admission = Admission(settings.max_queue)
        self.telemetry.opened(settings.max_queue)


class Shell:
    """Litestar middleware, one instance a route; all of them share the gate."""

    def __init__(self, app: Any, gate: Gate) -> None:
        self.app = app
        self.gate = gate

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request in, and see its reply off."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange.of_headers(scope["headers"])
        scope["isthmus"] = exchange
        status = 500

        async def seen(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", exchange.request_id.encode("latin-1"))]
            await send(message)

        options = scope["route_handler"].opt
        if "open" in options or scope["method"] == "OPTIONS":
            await self.app(scope, receive, seen)
            return
        gate = self.gate
        admission = gate.admission
        telemetry = gate.telemetry
        began = time.perf_counter()
        try:
            exchange.tenant = gate.keys.tenant(scope["headers"])
            if "scale_out" in options and not gate.scale_out:
                raise Forbidden("Render, derender, tokenize and generate are switched off here (scale_out = false).")
            receive = bounded_receive(scope, receive, gate.max_body_bytes, gate.watch)
            admission.enter()
        except IsthmusError as error:
            await send_error(scope, seen, error)
        else:
            telemetry.load(admission.running)
            try:
                await self.app(scope, receive, seen)
            finally:
                admission.leave()
                telemetry.load(admission.running)
        finally:
            telemetry.count(scope["method"], scope["path_template"], status, exchange, time.perf_counter() - began)
