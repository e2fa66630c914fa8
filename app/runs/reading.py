"""Requests, as their dialects read them, to what is rendered: on the event loop, or in a thread where they are long."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from app.protocol.generate import GenerateRequest
from app.rendering.prompt import LONG_WORK, in_thread
from app.rendering.request import RenderInput

__all__ = ("reading", "reading_all", "rendering_all")

AT_ONCE = 32
"""Prompts of one request that are rendered in one turn of the event loop."""


async def reading(read: Callable[[], RenderInput], *, long: bool) -> RenderInput:
    """What ``read`` makes of the request. ``long`` says that this takes long; then its rendering does, too."""
    return read() if not long else replace(await in_thread(LONG_WORK, read), long=True)


async def reading_all(read: Callable[[], list[RenderInput]], *, long: bool) -> list[RenderInput]:
    """Like :func:`reading`, where one request is rendered several times."""
    return read() if not long else [replace(given, long=True) for given in await in_thread(LONG_WORK, read)]


class Renders(Protocol):
    """The part of :class:`app.rendering.renderer.Renderer` that is used here."""

    async def render(self, request: RenderInput) -> GenerateRequest:
        """See there."""


async def rendering_all(inputs: Sequence[RenderInput], renderer: Renders) -> list[GenerateRequest]:
    """All prompts of one request rendered, in their order, some at a time, so that others have their turn."""
    rendered: list[GenerateRequest] = []
    for start in range(0, len(inputs), AT_ONCE):
        rendered += await asyncio.gather(*(renderer.render(given) for given in inputs[start : start + AT_ONCE]))
    return rendered
