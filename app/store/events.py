"""The log of a background run's streamed events: appended in batches, replayed from any sequence number.

The log is the only memory of a stream, so any replica can replay it; it is swept some minutes after the run ends.
"""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import Connection, and_, bindparam, func, insert, or_, select

from app.protocol.ids import now_ms
from app.store.database import Database
from app.store.tables import events, responses, threads
from app.store.turn import RUNNING, Status

__all__ = ("EventLog", "LoggedEvent", "Replay")

AT_ONCE = 1000
"""Events read in one statement."""


class LoggedEvent(Struct, frozen=True):
    """One event: its ``sequence_number`` and its JSON."""

    sequence: int
    event: bytes


class Replay(Struct, frozen=True):
    """What there is to replay: the next events, and the state that the run was in before they were read.

    With a ``status`` that is an end and no further events, the replay is over.
    """

    status: Status
    events: list[LoggedEvent]


class EventLog:
    """The event logs of one tenant's responses."""

    def __init__(self, database: Database, tenant: str) -> None:
        self.tenant = tenant
        self._database = database

    async def append(self, response_id: str, batch: Sequence[LoggedEvent]) -> bool:
        """Log events of a running response; False, and nothing logged, where it does not run any more."""

        def work(connection: Connection) -> bool:
            place = {"key": response_id, "tenant": self.tenant}
            if connection.execute(_RUNNING, place).first() is None:
                return False
            write(connection, response_id, batch)
            return True

        return await self._database.write(work)

    async def read(self, response_id: str, after: int = -1) -> Replay | None:
        """The events whose sequence number is over ``after``, oldest first; None where there is no such response."""

        def work(connection: Connection) -> Replay | None:
            place = {"key": response_id, "tenant": self.tenant, "now": now_ms()}
            # The state first: what was logged before the run ended is then in what is read next.
            found = connection.execute(_STATE, place).first()
            if found is None:
                return None
            rows = connection.execute(_READ, {"key": response_id, "after": after})
            return Replay(found.status, [LoggedEvent(row.sequence, bytes(row.event)) for row in rows])

        return await self._database.read(work)

    async def last(self, response_id: str) -> int:
        """The highest sequence number that is logged for this response; -1 for none (logs are swept)."""
        place = {"key": response_id, "tenant": self.tenant}
        return await self._database.read(lambda connection: int(connection.execute(_LAST, place).scalar_one()))


def write(connection: Connection, response_id: str, batch: Sequence[LoggedEvent]) -> None:
    """Log events in the caller's transaction."""
    if batch:
        rows = [{"response_id": response_id, "sequence": one.sequence, "event": one.event} for one in batch]
        connection.execute(insert(events), rows)


_MINE = and_(responses.c.id == bindparam("key"), responses.c.tenant_id == bindparam("tenant"))
_RUNNING = select(responses.c.id).where(_MINE, responses.c.status.in_(RUNNING)).with_for_update()
_STATE = select(responses.c.status).where(
    _MINE,
    threads.c.id == responses.c.thread_id,
    or_(threads.c.expires_at.is_(None), threads.c.expires_at > bindparam("now")),
)
_READ = (
    select(events.c.sequence, events.c.event)
    .where(events.c.response_id == bindparam("key"), events.c.sequence > bindparam("after"))
    .order_by(events.c.sequence)
    .limit(AT_ONCE)
)
_LAST = select(func.coalesce(func.max(events.c.sequence), -1)).where(_MINE, events.c.response_id == responses.c.id)
