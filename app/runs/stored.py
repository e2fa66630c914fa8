"""A run in the foreground that is stored: its turn is committed before its last event is let through.

A task of its own produces the events, so that a client that goes away ends the generation in an orderly way: the turn
is cancelled in the store, whatever the web server does to the generator that fed the client.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct

from app.errors import IsthmusError, StoreFailure
from app.runs.events import RunEvent, failure
from app.store.exact import ExactIds, pack
from app.store.turn import NewTurn

if TYPE_CHECKING:
    from app.store.store import ResponseStore

__all__ = ("StoredRun", "commit", "failure_of", "is_running", "settle", "stored")

log = logging.getLogger(__name__)

AHEAD = 256
"""Events that may wait for a slow client before the generation waits for it."""

_tasks: set[asyncio.Task[None]] = set()
_running: set[str] = set()
"""Turns that this process produces in the foreground."""


class StoredRun(Struct, frozen=True):
    """A turn that has begun: whose, which, and the token ids of the turn before it where they are known.

    In a conversation, which has no chain, each turn keeps its ids whole and takes those of the turn ``outdated`` away.
    """

    store: "ResponseStore"
    turn: NewTurn
    before: ExactIds | None = None
    outdated: str | None = None


async def stored(run: StoredRun, source: AsyncGenerator[RunEvent, None]) -> AsyncGenerator[RunEvent, None]:
    """Pass a run's events on; the last one only when the store has the turn.

    Whatever goes wrong ends the stream with ``error`` and ``response.failed``. Closing the iterator early cancels the
    run and its turn.
    """
    queue: asyncio.Queue[RunEvent | None] = asyncio.Queue(AHEAD)
    task = asyncio.create_task(_produce(run, source, queue), name=f"run {run.turn.id}")
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    try:
        while (event := await queue.get()) is not None:
            yield event
    finally:
        task.cancel()


def is_running(response_id: str) -> bool:
    """Whether this process produces this turn, in the foreground, for a client."""
    return response_id in _running


async def settle() -> None:
    """Wait for the runs that clients have left; called once, before the store is closed."""
    while _tasks:
        await asyncio.gather(*_tasks, return_exceptions=True)


async def _produce(
    run: StoredRun, source: AsyncGenerator[RunEvent, None], queue: asyncio.Queue[RunEvent | None]
) -> None:
    last = -1
    _running.add(run.turn.id)
    try:
        async with aclosing(source):
            async for event in source:
                for sent in [event] if event.ended is None else await commit(run, event):
                    await queue.put(sent)
                last = event.sequence
                if event.ended is not None:
                    break
            else:
                for sent in await _give_up(run, last + 1, RuntimeError("the run ended without a last event")):
                    await queue.put(sent)
    except asyncio.CancelledError:
        # In a task that no cancellation of ours can reach: the web server may cancel more than once.
        ending = asyncio.create_task(_abandon(run))
        _tasks.add(ending)
        ending.add_done_callback(_tasks.discard)
        await asyncio.shield(ending)
        raise
    except Exception as error:
        for sent in await _give_up(run, last + 1, error):
            await queue.put(sent)
    finally:
        _running.discard(run.turn.id)
    await queue.put(None)


async def commit(run: StoredRun, event: RunEvent) -> list[RunEvent]:
    """Store how a run ended; the events to send are then the last one, or those of a failure to store it."""
    ended = event.ended
    assert ended is not None
    exact = None if ended.exact is None else pack(ended.exact, run.before)
    try:
        kept = await run.store.finish(
            run.turn.id, status=ended.status, body=ended.body, output=ended.output, exact=exact, outdated=run.outdated
        )
        # Deleted while it ran: that was the caller's wish, and so was the answer.
        if kept or await run.store.status(run.turn.id) is None:
            return [event]
        reason = "The response had ended before it was complete."
    except StoreFailure:
        log.exception("response %s could not be stored", run.turn.id)
        reason = "The response could not be stored."
    return failure(ended.body, event.sequence, code="server_error", message=reason)


async def _give_up(run: StoredRun, sequence: int, error: Exception) -> list[RunEvent]:
    code, message = failure_of(error, run.turn.id)
    try:
        await run.store.fail(run.turn.id, code=code, message=message)
    except StoreFailure:
        log.exception("the failure of response %s could not be stored; a sweep will end it", run.turn.id)
    return failure(run.turn.body, sequence, code=code, message=message, error=error)


def failure_of(error: Exception, response_id: str) -> tuple[str, str]:
    """Code and message of a run's failure; what is no refusal of ours is logged, and not told."""
    if isinstance(error, IsthmusError):
        return error.code or "server_error", error.message
    log.error("response %s failed", response_id, exc_info=error)
    return "server_error", "The server failed while it generated this."


async def _abandon(run: StoredRun) -> None:
    try:
        await run.store.abandon(run.turn.id)
    except StoreFailure:
        log.exception("response %s could not be cancelled; a sweep will end it", run.turn.id)
