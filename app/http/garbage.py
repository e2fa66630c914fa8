"""When the interpreter looks for garbage: between requests, as a look at a large request's objects stops everything.

Objects that nobody refers to any more are freed at once, without this; what is looked for are circles of them, such as
errors with their tracebacks, of which little comes together in a minute.
"""

import asyncio
import gc
from collections.abc import Callable

__all__ = ("look_seldom", "look_when_idle")

NEW, OLDER, ALL = 20_000, 50, 1_000_000
"""After so many new objects the new ones are looked at; after so many looks all but the oldest; and these, never."""
EVERY_S = 30.0
PATIENCE = 10
"""How often a busy server is spared before it is looked at all the same."""


def look_seldom() -> None:
    """What is there now stays, and is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW, OLDER, ALL)


async def look_when_idle(running: Callable[[], int]) -> None:
    """Look at everything now and then, when no request is in work. Never returns."""
    spared = 0
    while True:
        await asyncio.sleep(EVERY_S)
        if running() and spared < PATIENCE:
            spared += 1
            continue
        spared = 0
        gc.collect()
