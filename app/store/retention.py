"""How long things are kept, and the sweeper that deletes what has expired: one among all replicas, in small batches."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, Connection, bindparam, case, delete, func, select, text, update
from sqlalchemy.util import await_only

from app.errors import StoreFailure
from app.protocol.ids import now_ms
from app.store import blobs, leases
from app.store.database import Database
from app.store.tables import events, responses, threads
from app.store.tables import leases as lease_table
from app.store.turn import RUNNING, ended_body

__all__ = ("Retention", "Sweeper", "Swept", "give_up_dead", "give_up_lost", "sweep")

log = logging.getLogger(__name__)

BATCH = 500
"""Threads, or event logs, that one transaction deletes."""


class Retention(Struct, frozen=True, kw_only=True):
    """Threads are kept ``days`` after their last use (0: for ever), event logs ``events_s`` seconds after their run."""

    days: float = 30
    events_s: float = 600

    @property
    def events_ms(self) -> int:
        """How long an event log outlives its run, in milliseconds."""
        return round(self.events_s * 1000)

    def until(self, now: int) -> int | None:
        """When a thread that is used now expires, in Unix milliseconds; None: never."""
        return now + round(self.days * 86_400_000) if self.days else None


class Swept(Struct):
    """What one sweep did."""

    threads: int = 0
    responses: int = 0
    blobs: int = 0
    event_logs: int = 0
    given_up: int = 0
    """Turns whose process died: they are failed now."""

    def __bool__(self) -> bool:
        return any((self.threads, self.event_logs, self.given_up))


async def sweep(database: Database, *, retention: Retention = Retention(), batch: int = BATCH) -> Swept:
    """Delete all that has expired, and end the turns whose process has died."""
    done = Swept(given_up=await give_up_dead(database, retention))
    removed = batch
    while removed == batch:
        removed = await database.write(_sweep_threads, batch, done)
    removed = batch
    while removed == batch:
        removed = await database.write(_sweep_events, batch)
        done.event_logs += removed
    await database.write(_forget_old_leases)
    if done.threads and database.is_sqlite:
        await _shrink(database)
    return done


def _sweep_threads(connection: Connection, batch: int, done: Swept) -> int:
    ids = list(connection.execute(_EXPIRED, {"now": now_ms(), "most": batch}).scalars())
    if not ids:
        return 0
    # As a query: a statement takes 32,766 values, and a thread has any number of responses.
    inside = select(responses.c.id).where(responses.c.thread_id.in_(ids))
    count = connection.execute(select(func.count()).select_from(inside.subquery())).scalar_one()
    used = blobs.uses_of(connection, "response_id", inside)
    connection.execute(_DELETE_THREADS, {"ids": ids})
    done.blobs += blobs.drop_unused(connection, used)
    done.threads += len(ids)
    done.responses += count
    return len(ids)


def _sweep_events(connection: Connection, batch: int) -> int:
    ids = list(connection.execute(_OLD_LOGS, {"now": now_ms(), "most": batch}).scalars())
    if ids:
        connection.execute(_DELETE_EVENTS, {"ids": ids})
        connection.execute(_LOGS_GONE, {"ids": ids})
    return len(ids)


def _forget_old_leases(connection: Connection) -> None:
    connection.execute(delete(lease_table).where(lease_table.c.expires_at < now_ms() - 86_400_000))


async def _shrink(database: Database, pages: int = 2000) -> None:
    """Give free pages of an SQLite file back, some at a time: each round holds the write lock for milliseconds."""

    def free_pages(connection: Connection) -> int:
        if connection.execute(text("PRAGMA auto_vacuum")).scalar_one() != 2:
            return 0
        return int(connection.execute(text("PRAGMA freelist_count")).scalar_one())

    def give_back(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        # It frees a page at each step, and only a script is stepped to its end: its rows have no columns.
        await_only(driver.executescript(f"PRAGMA incremental_vacuum({pages})"))

    # In autocommit, as a vacuum has to be: with a reader's connection.
    for _ in range(-(await database.read(free_pages) // -pages)):
        await database.read(give_back)


async def give_up_dead(database: Database, retention: Retention = Retention()) -> int:
    """End as failed every running turn whose process has no lease any more; a turn that has ended stays as it is."""

    def orphans(connection: Connection) -> Sequence[Any]:
        dead = set(connection.execute(_OWNERS).scalars()) - leases.alive_owners(connection)
        place = {"owners": sorted(dead), "before": now_ms()}
        return connection.execute(_ORPHANS, place).all() if dead else []

    return await _fail(database, await database.read(orphans), retention)


async def give_up_lost(
    database: Database, owner: str, running: Callable[[str], bool], *, after_s: float, retention: Retention
) -> int:
    """End as failed every turn that a living process has begun and does not run.

    Args:
        database: the store.
        owner: the process, which calls this itself.
        running: whether it runs the turn of this id.
        after_s: seconds from a turn's beginning in which its run may still start.
        retention: how long the event logs of what is ended are kept.
    """
    place = {"owners": [owner], "before": now_ms() - round(after_s * 1000)}
    found = await database.read(lambda connection: connection.execute(_ORPHANS, place).all())
    return await _fail(database, [row for row in found if not running(row.id)], retention)


async def _fail(database: Database, orphans: Sequence[Any], retention: Retention) -> int:
    given_up = 0
    for orphan in orphans:
        now = now_ms()
        body = ended_body(
            bytes(orphan.body), "failed", code="server_error", message="The server stopped while it generated this."
        )
        values = {"key": orphan.id, "by": orphan.owner, "now": now, "new": body, "until": now + retention.events_ms}
        given_up += await database.write(_give_up, values)
    return given_up


def _give_up(connection: Connection, values: dict[str, Any]) -> int:
    return connection.execute(_GIVE_UP, values).rowcount


class Sweeper:
    """Sweeps now and then for as long as it runs, if this process holds the lease of sweeping.

    Args:
        database: what to sweep.
        owner: this process.
        retention: for how long things are kept.
        every_s: seconds between two sweeps, give or take a fifth (so that replicas do not move in step).
    """

    LEASE = "sweep"

    def __init__(
        self, database: Database, owner: str, *, retention: Retention = Retention(), every_s: float = 60
    ) -> None:
        self._database = database
        self._owner = owner
        self._retention = retention
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Sweep from now on, in a task of its own."""
        self._task = asyncio.create_task(self._run(), name="store-sweeper")

    async def stop(self) -> None:
        """Stop, and let another replica sweep at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with contextlib.suppress(StoreFailure):  # it runs out by itself
                await leases.release(self._database, self.LEASE, self._owner)

    async def once(self) -> Swept | None:
        """One sweep, or None where another process holds the lease."""
        for_ms = round(self._every_s * 3000)
        if not await leases.hold(self._database, self.LEASE, self._owner, for_ms=for_ms):
            return None
        return await sweep(self._database, retention=self._retention)

    async def _run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        while True:
            await sleep(self._every_s * random.uniform(0.8, 1.2))
            try:
                if swept := await self.once():
                    log.info("swept the store: %s", swept)
            except StoreFailure:
                log.exception("the sweep failed; the next one will try again")


_EXPIRED = (
    select(threads.c.id)
    .where(threads.c.expires_at <= bindparam("now"))
    .order_by(threads.c.expires_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_DELETE_THREADS = delete(threads).where(threads.c.id.in_(bindparam("ids", expanding=True)))
_OLD_LOGS = select(responses.c.id).where(responses.c.events_until <= bindparam("now")).limit(bindparam("most"))
_DELETE_EVENTS = delete(events).where(events.c.response_id.in_(bindparam("ids", expanding=True)))
_LOGS_GONE = update(responses).where(responses.c.id.in_(bindparam("ids", expanding=True))).values(events_until=None)
_OWNERS = select(responses.c.owner).where(responses.c.owner.is_not(None)).distinct()
_ORPHANS = select(responses.c.id, responses.c.owner, responses.c.body).where(
    responses.c.owner.in_(bindparam("owners", expanding=True)),
    responses.c.status.in_(RUNNING),
    responses.c.created_at <= bindparam("before"),
)
_GIVE_UP = (
    update(responses)
    .where(responses.c.id == bindparam("key"), responses.c.owner == bindparam("by"), responses.c.status.in_(RUNNING))
    .values(
        status="failed",
        body=bindparam("new"),
        owner=None,
        finished_at=bindparam("now"),
        events_until=case((responses.c.background, bindparam("until", type_=BigInteger)), else_=None),
    )
)
