"""Work on large JSON to a thread, so that the event loop never waits for it; on a little of it, at once."""

import asyncio
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from msgspec import Raw

__all__ = ("apart", "size_of")

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = 1 << 18
"""Bytes that are split, searched or decoded within a millisecond."""


async def apart(size: int, work: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
    """What work comes to; in a thread where it has so many bytes to go through that the loop would stand still."""
    if size <= AT_ONCE:
        return work(*arguments, **options)
    return await asyncio.to_thread(work, *arguments, **options)


def size_of(items: Iterable[Raw | bytes]) -> int:
    """Bytes of some items."""
    return sum(len(bytes(item)) for item in items)
