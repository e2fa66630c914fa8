"""Several runs of one request to one stream of their steps, as they come."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from app.derendering.derenderer import Step
from app.runs.run import Run, steps
from app.runs.tally import Tally

__all__ = ("merged",)

AT_ONCE = 64
"""Runs of one request that generate at the same time; the others wait, so that it leaves room for its neighbours."""
AHEAD = 64
"""Steps that may wait for a slow client before the runs wait for it."""


async def merged(runs: Sequence[tuple[Run, Tally]]) -> AsyncGenerator[tuple[int, Step], None]:
    """The steps of all runs, each with its run's place; the first failure ends them all.

    Closing the iterator stops every generation.
    """
    if len(runs) == 1:
        async with aclosing(steps(*runs[0])) as found:
            async for step in found:
                yield 0, step
        return
    queue: asyncio.Queue[tuple[int, Step] | Exception | None] = asyncio.Queue(AHEAD)
    places = asyncio.Semaphore(AT_ONCE)

    async def feed(number: int, run: Run, tally: Tally) -> None:
        try:
            async with places, aclosing(steps(run, tally)) as found:
                async for step in found:
                    await queue.put((number, step))
        except Exception as error:
            await queue.put(error)
        else:
            await queue.put(None)

    tasks = [asyncio.create_task(feed(number, *run)) for number, run in enumerate(runs)]
    running = len(tasks)
    try:
        while running:
            came = await queue.get()
            if isinstance(came, Exception):
                raise came
            if came is None:
                running -= 1
            else:
                yield came
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
