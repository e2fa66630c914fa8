"""Settings to all that the stateful API stands on: database, sweeper, background runs, seal; opened once a process.

This is the only module through which a server comes to SQLAlchemy, and start-up imports it only where a store is
wanted: everything else knows the store by :class:`State`, or by values.
"""

import secrets
from collections.abc import AsyncGenerator

from app.runs.background import BackgroundRuns, replay
from app.runs.events import RunEvent
from app.runs.sealed import Seal
from app.runs.stored import settle
from app.settings import Settings
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.retention import Retention, Sweeper
from app.store.revision import ensure_head
from app.store.store import ResponseStore

__all__ = ("State", "open_state")


class State:
    """The store of one running process. Every store it gives is bound to one tenant."""

    def __init__(
        self, database: Database, revision: str, retention: Retention, seal: Seal, sweep_every_s: float = 60
    ) -> None:
        self.database = database
        self.revision = revision
        self.retention = retention
        self.seal = seal
        self.background = BackgroundRuns(database, retention=retention)
        self._sweeper = Sweeper(database, self.background.owner, retention=retention, every_s=sweep_every_s)

    @property
    def owner(self) -> str:
        """This process's name in the store: what its turns are begun with."""
        return self.background.owner

    def responses(self, tenant: str) -> ResponseStore:
        """A tenant's responses."""
        return ResponseStore(self.database, tenant, self.retention)

    def conversations(self, tenant: str) -> ConversationStore:
        """A tenant's conversations."""
        return ConversationStore(self.database, tenant)

    def replay(self, tenant: str, response_id: str, *, after: int = -1) -> AsyncGenerator[RunEvent, None]:
        """A background response's events over ``after``, those to come included; see :func:`.background.replay`."""
        return replay(self.database, self.responses(tenant), response_id, after=after)

    async def start(self) -> None:
        """Take this process's lease and begin to sweep."""
        await self.background.start()
        self._sweeper.start()

    async def close(self) -> None:
        """End what runs, as failed or cancelled, and close the database."""
        await self._sweeper.stop()
        await self.background.stop()
        await settle()
        await self.database.close()


async def open_state(settings: Settings) -> State | None:
    """Open the store that the settings name; None where they name none.

    Raises:
        app.errors.StartupError: the database cannot be opened, or is not at head; one line that says what mends it.
    """
    if not settings.database_url:
        return None
    database = Database(settings.database_url)
    try:
        revision = await ensure_head(database, auto_upgrade=settings.database_auto_upgrade)
    except BaseException:
        await database.close()
        raise
    seal = Seal([settings.state_key or secrets.token_hex(32)])
    state = State(database, revision, Retention(days=settings.retention_days), seal, settings.sweep_every_s)
    await state.start()
    return state
