"""One function, a struct in and JSON bytes out, as a documented Litestar route with a short way in.

Litestar's own way to a handler costs more than rendering a short prompt. So a JSON route is registered with Litestar,
which documents it and answers whatever is not a plain POST to it, and the app also hands a POST to its exact path
straight to the same function, through the same shell, decoder and error envelopes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.di import NamedDependency

from app.http.codec import StructDTO, decode, json_body, read_body, readable
from app.http.docs import error_replies
from app.http.errors import send_error
from app.http.exchange import Exchange, exchange_of
from app.http.large import decode_large, is_large
from app.http.service import Service
from app.http.shell import Gate, Shell
from app.multimodal.splice import Body
from app.rendering.prompt import LONG_WORK, in_thread

__all__ = ("JsonRoute", "ShortWay", "short_ways")

Run = Callable[[Service, Any, Exchange], Awaitable[bytes | Body]]


class JsonRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A path, what it takes and gives, and the function that does it.

    ``example`` is a body that works on a fresh server; the function's docstring is the route's description.
    """

    path: str
    run: Run
    takes: Any
    gives: Any
    example: dict[str, Any]
    tag: str
    opt: Mapping[str, bool] = {}

    def handler(self) -> Any:
        """The Litestar route handler."""
        run = self.run
        reply_type: Any = Response

        async def handle(data: Any, request: Request[Any, Any, State], service: NamedDependency[Service]) -> Any:
            exchange = exchange_of(request.scope)
            return Response(bytes(await run(service, data, exchange)), media_type=exchange.media_type.decode())

        handle.__name__ = handle.__qualname__ = run.__name__
        handle.__doc__ = run.__doc__
        handle.__annotations__["data"] = Annotated[self.takes, json_body(self.example)]
        handle.__annotations__["return"] = reply_type[self.gives]
        decorator = post(
            self.path,
            status_code=200,
            dto=StructDTO,
            return_dto=None,
            tags=[self.tag],
            opt=dict(self.opt),
            responses=error_replies(self.path),
        )
        return decorator(handle)


class Handled(msgspec.Struct, frozen=True):
    """What the shell looks at of a route handler."""

    opt: dict[str, bool]


class Ending:
    """The innermost ASGI app of a short way: body to struct, function, bytes."""

    def __init__(self, route: JsonRoute, service: Service) -> None:
        self.takes = route.takes
        self.decoder = msgspec.json.Decoder(route.takes)
        self.run = route.run
        self.service = service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        exchange = scope["isthmus"]
        try:
            given = await read_body(receive)
            if is_large(given):
                exchange.large = True
                data = await in_thread(LONG_WORK, lambda: decode_large(self.takes, readable(scope["headers"], given)))
            else:
                data = decode(self.decoder, scope["headers"], given)
            body = await self.run(self.service, data, exchange)
        except Exception as error:
            await send_error(scope, send, error)
            return
        headers = [(b"content-type", exchange.media_type), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if isinstance(body, Body):
            for chunk in body.chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await asyncio.sleep(0)  # a client that reads fast would keep the loop here
            body = b""
        await send({"type": "http.response.body", "body": body})


class ShortWay:
    """One path's way in: what the router would have put into the scope, then the shell."""

    def __init__(self, route: JsonRoute, service: Service, gate: Gate) -> None:
        self.shell = Shell(Ending(route, service), gate)
        self.handled = Handled(dict(route.opt))
        self.path = route.path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one POST."""
        scope["route_handler"] = self.handled
        scope["path_template"] = self.path
        await self.shell(scope, receive, send)


def short_ways(routes: Iterable[JsonRoute], service: Service, gate: Gate) -> dict[str, ShortWay]:
    """ASGI apps by exact path, for POST."""
    return {route.path: ShortWay(route, service, gate) for route in routes}
