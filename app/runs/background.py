"""Runs that go on without a client: produced by a task, logged event by event, replayed by any replica.

A process keeps a lease for as long as it lives; a run whose process has lost its lease is ended as failed by the next
sweep, and a turn that has begun and is not run by its living process by that process itself. Cancelling is a change of
state in the store, which the run notices when it next logs, wherever it runs. The last event is never logged: a replay
makes it from the stored response, so it cannot be seen before the turn is.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator, Callable

import msgspec

from app.errors import InvalidRequest, StoreFailure
from app.runs.events import Ended, RunEvent, terminal
from app.runs.stored import StoredRun, failure_of, is_running
from app.store import leases
from app.store.database import Database
from app.store.events import EventLog, LoggedEvent
from app.store.exact import pack
from app.store.items import edit
from app.store.retention import Retention, give_up_lost
from app.store.store import ResponseStore
from app.store.turn import ENDED, StoredResponse, not_found

__all__ = ("BackgroundRuns", "Source", "replay")

log = logging.getLogger(__name__)

Source = Callable[[], AsyncGenerator[RunEvent, None]]
"""Starts a run and yields its events."""

FLUSH_S = 0.1
"""Events of this long go into one write of the log."""
LOOK_S = 1.0
"""How often a silent run looks whether it was cancelled."""


class BackgroundRuns:
    """All background runs of this process, and the lease that says that it lives.

    Args:
        database: the store's.
        owner: names this process in the store; drawn where it is not given.
        heartbeat_s: seconds between two renewals of the lease (of :data:`app.store.leases.LEASE_MS`).
        starts_in_s: seconds in which the run of a turn that has begun must start, or the turn is ended as failed.
        retention: how long event logs are kept.
    """

    def __init__(
        self,
        database: Database,
        *,
        owner: str | None = None,
        heartbeat_s: float = 5,
        starts_in_s: float = 60,
        retention: Retention = Retention(),
    ) -> None:
        self.owner = owner or secrets.token_hex(16)
        self._database = database
        self._heartbeat_s = heartbeat_s
        self._starts_in_s = starts_in_s
        self._retention = retention
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._heart: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take the lease. Before this, no turn may begin in this process's name."""
        await leases.hold_process(self._database, self.owner)
        self._heart = asyncio.create_task(self._beat(), name="store-heartbeat")

    async def stop(self) -> None:
        """End what runs as failed, and give the lease back."""
        tasks = list(self._tasks.values())
        for task in (*tasks, *([self._heart] if self._heart else [])):
            task.cancel()
        await asyncio.gather(*tasks, *([self._heart] if self._heart else []), return_exceptions=True)
        with contextlib.suppress(StoreFailure):
            await leases.release(self._database, leases.process_lease(self.owner), self.owner)

    def launch(self, run: StoredRun, source: Source) -> None:
        """Run a turn that has begun as queued (or in_progress) and in this process's name."""
        task = asyncio.create_task(self._run(run, source), name=f"background {run.turn.id}")
        self._tasks[run.turn.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.turn.id, None))

    async def cancel(self, store: ResponseStore, response_id: str) -> StoredResponse:
        """Cancel a background response, here or on another replica; one that has ended is returned as it is.

        Raises:
            NotFound: there is no such response.
            InvalidRequest: it does not run in the background.
        """
        found = await store.cancel(response_id)
        task = self._tasks.get(response_id)
        if task is not None and found.status == "cancelled":
            task.cancel()
            # Its generation has stopped when this returns.
            await asyncio.wait([task], timeout=5)
        return found

    async def _run(self, run: StoredRun, source: Source) -> None:
        try:
            if run.turn.status == "queued" and not await run.store.start(
                run.turn.id, edit(run.turn.body, {"status": "in_progress"})
            ):
                return
            await _Logged(run, EventLog(self._database, run.store.tenant)).run(source())
        except asyncio.CancelledError:
            # Cancelled in the store already, or the process stops: then this is the end of it.
            await self._fail(run, "server_error", "The server stopped while it generated this.")
            raise
        except Exception as error:
            await self._fail(run, *failure_of(error, run.turn.id))

    async def _fail(self, run: StoredRun, code: str, message: str) -> None:
        try:
            await run.store.fail(run.turn.id, code=code, message=message)
        except StoreFailure:
            log.exception("the end of response %s could not be stored; a sweep will end it", run.turn.id)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            try:
                await leases.hold_process(self._database, self.owner)
                # What began while its client left, or could not be ended when the database was away.
                await give_up_lost(
                    self._database, self.owner, self._runs, after_s=self._starts_in_s, retention=self._retention
                )
            except StoreFailure:
                log.exception("the heartbeat failed; the next one will try again")

    def _runs(self, response_id: str) -> bool:
        return response_id in self._tasks or is_running(response_id)


class _Logged:
    """One run on its way into the log: one task takes events from the source, the other writes them in batches."""

    def __init__(self, run: StoredRun, events: EventLog) -> None:
        self._of = run
        self._log = events
        self._waiting: list[LoggedEvent] = []
        self._ended: Ended | None = None
        self._news = asyncio.Event()

    async def run(self, source: AsyncGenerator[RunEvent, None]) -> None:
        """Log all but the last event, then end the turn. Ends early where the turn does not run any more."""
        take = asyncio.create_task(self._take(source))
        try:
            while await self._write(finished=take.done()):
                if take.done() and not self._waiting:
                    await take
                    await self._finish()
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), LOOK_S)
                if not take.done():
                    await asyncio.sleep(FLUSH_S)
        finally:
            take.cancel()
            await asyncio.gather(take, return_exceptions=True)

    async def _take(self, source: AsyncGenerator[RunEvent, None]) -> None:
        try:
            async with contextlib.aclosing(source):
                async for event in source:
                    if event.ended is not None:
                        self._ended = event.ended
                        return
                    self._waiting.append(LoggedEvent(event.sequence, event.data))
                    self._news.set()
        finally:
            self._news.set()

    async def _write(self, *, finished: bool) -> bool:
        """Write what waits; False where the turn does not run any more."""
        if not finished:
            self._news.clear()
        batch, self._waiting = self._waiting, []
        if batch:
            return await self._log.append(self._of.turn.id, batch)
        return await self._of.store.status(self._of.turn.id) not in (*ENDED, None)

    async def _finish(self) -> None:
        if self._ended is None:
            raise RuntimeError("the run ended without a last event")
        exact = None if self._ended.exact is None else pack(self._ended.exact, self._of.before)
        await self._of.store.finish(
            self._of.turn.id,
            status=self._ended.status,
            body=self._ended.body,
            output=self._ended.output,
            exact=exact,
            outdated=self._of.outdated,
        )


async def replay(
    database: Database, store: ResponseStore, response_id: str, *, after: int = -1, poll_s: float = FLUSH_S
) -> AsyncGenerator[RunEvent, None]:
    """Yield a background response's events whose sequence number is over ``after``, those to come included.

    Raises:
        NotFound: there is no such response.
        InvalidRequest: it does not run in the background, or its log has been swept.
    """
    found = await store.retrieve(response_id)
    if not found.background:
        raise InvalidRequest("Only a background response can be streamed after its creation.", param="stream")
    events = EventLog(database, store.tenant)
    if found.status in ENDED and found.status != "cancelled" and await events.last(response_id) < 0:
        raise InvalidRequest(
            "The events of this response are not kept any more; retrieve it without `stream`.", param="stream"
        )
    while True:
        more = await events.read(response_id, after)
        if more is None:
            raise not_found(response_id)
        for logged in more.events:
            after = logged.sequence
            yield RunEvent(logged.sequence, _Type.of(logged.event), logged.event)
        if not more.events:
            if more.status in ENDED:
                last = await events.last(response_id)
                if after <= last:  # else this caller has seen the last event
                    yield await _last(store, response_id, last + 1)
                return
            await asyncio.sleep(poll_s)


async def _last(store: ResponseStore, response_id: str, sequence: int) -> RunEvent:
    found = await store.retrieve(response_id)
    return terminal(Ended(status=found.status, body=found.body, output=[]), sequence, whole=found.body)


class _Type(msgspec.Struct):
    type: str

    @classmethod
    def of(cls, event: bytes) -> str:
        return msgspec.json.decode(event, type=cls).type
