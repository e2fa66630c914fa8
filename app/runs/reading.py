"""A request of the dialect's to what is rendered: on the event loop, or in a thread where its body is a large one."""

from collections.abc import Callable

from msgspec.structs import replace

from app.rendering.prompt import LONG_WORK, in_thread
from app.rendering.request import RenderInput

__all__ = ("reading", "reading_all")


async def reading(read: Callable[[], RenderInput], *, long: bool) -> RenderInput:
    """What ``read`` makes of the request. ``long`` says that this takes long; then its rendering does, too."""
    return read() if not long else replace(await in_thread(LONG_WORK, read), long=True)


async def reading_all(read: Callable[[], list[RenderInput]], *, long: bool) -> list[RenderInput]:
    """Like :func:`reading`, where one request is rendered several times."""
    return read() if not long else [replace(given, long=True) for given in await in_thread(LONG_WORK, read)]
