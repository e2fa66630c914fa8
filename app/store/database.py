"""A database URL to connections, by SQLAlchemy's async engines: SQLite (WAL) by aiosqlite, PostgreSQL by asyncpg.

All work with the database is a plain function of a :class:`sqlalchemy.Connection`, and :class:`Database` runs it
whole: a read in autocommit, a write as one transaction. Such a function runs on the event loop and gives way at each
statement, so it reads and writes rows and leaves long work on them to its caller.

On SQLite each statement goes to its connection's thread and back three or four times; threads of our own that run such
a function whole need one hop. That was measured, in turn on two busy cores: in process at twice the creates and
retrieves; over HTTP, where most of the time goes elsewhere, at 81 creates and 1,414 retrieves a second beside 80 and
979 here (155 and 2,545 beside 124 and 1,487 in the quietest round). The library is worth that.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import greenlet_spawn

from app.errors import StartupError, StoreFailure
from app.store import sqlite

__all__ = ("Clash", "Database")

P = ParamSpec("P")
T = TypeVar("T")

POOL: dict[str, Any] = {
    "poolclass": AsyncAdaptedQueuePool,
    "max_overflow": 0,
    "pool_timeout": 60,
    "hide_parameters": True,
}
"""Of every engine. What a statement that fails would have written is in no error, and so in no log."""

LOST_RACES = ("40001", "40P01")
"""PostgreSQL's codes of a transaction that another one made impossible: it can be tried again."""


class Clash(StoreFailure):
    """Another transaction was there first: a key is taken, or the two excluded each other."""


class Database:
    """One database. Opening makes no connection; :meth:`close` ends all.

    Args:
        url: an async SQLAlchemy URL, ``sqlite+aiosqlite:///file.db`` or ``postgresql+asyncpg://host/name``.
        schema: PostgreSQL only: the schema to live in, instead of the role's first.
        pool_size: connections to read with, and on PostgreSQL as many to write with (SQLite has one writer).
        durable: whether SQLite waits for the disk at every commit (slower; survives a power cut too).
    """

    def __init__(self, url: str | URL, *, schema: str | None = None, pool_size: int = 5, durable: bool = False) -> None:
        try:
            self.url = make_url(url)
        except ArgumentError as error:
            raise StartupError(f"database_url is not a database URL: {url!r}.") from error
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        driver = self.url.drivername
        if driver not in ("sqlite+aiosqlite", "sqlite", "postgresql+asyncpg"):
            raise StartupError(f"database_url needs sqlite+aiosqlite:// or postgresql+asyncpg://, not {driver}://.")
        self._running: set[asyncio.Task[Any]] = set()
        try:
            if self.is_sqlite:
                # Writers queue here for one connection instead of spinning on the file's lock (which other processes
                # still share).
                self._writer = sqlite.open_engine(self.url, durable=durable, pool_size=1, **POOL)
                self._reader = self._writer
                if not sqlite.in_memory(self.url):
                    self._reader = sqlite.open_engine(
                        self.url, reads=True, durable=durable, pool_size=pool_size, **POOL
                    )
            else:
                place = {} if schema is None else {"server_settings": {"search_path": schema}}
                options: dict[str, Any] = {"connect_args": place, "pool_size": pool_size, **POOL}
                self._writer = create_async_engine(self.url, **options)
                self._reader = create_async_engine(
                    self.url, isolation_level="AUTOCOMMIT", skip_autocommit_rollback=True, **options
                )
        except ModuleNotFoundError as error:
            raise StartupError(f"{driver}:// needs a driver: pip install {error.name}.") from error

    async def read(
        self, work: Callable[Concatenate[Connection, P], T], /, *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run work that reads; each of its statements sees what is committed when it starts.

        Raises:
            StoreFailure: the database cannot be reached, or refused a statement.
        """

        def run() -> T:
            with self._reader.sync_engine.connect() as connection:
                return work(connection, *arguments, **options)

        if self._reader is self._writer:
            return await self._whole(run)
        # One that is cancelled in the middle of a statement costs its connection, and nothing else.
        with _translated():
            return await greenlet_spawn(run)

    async def write(
        self, work: Callable[Concatenate[Connection, P], T], /, *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run work in a transaction that commits at its end, and rolls back if it raises anything.

        Raises:
            Clash: another transaction was there first.
            StoreFailure: the database cannot be reached, or refused a statement.
        """

        def run() -> T:
            with self._writer.sync_engine.begin() as connection:
                return work(connection, *arguments, **options)

        return await self._whole(run)

    async def _whole(self, run: Callable[[], T]) -> T:
        """Run it in a task of its own: a caller that is cancelled never breaks off a statement on its connection."""
        task = asyncio.create_task(greenlet_spawn(run))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        with _translated():
            return await asyncio.shield(task)

    async def close(self) -> None:
        """Finish what has begun and end all connections."""
        while self._running:
            await asyncio.wait(self._running)
        await self._writer.dispose()
        await self._reader.dispose()

    async def size_bytes(self) -> int:
        """Bytes that the database occupies on disk."""
        query = (
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            if self.is_sqlite
            else "SELECT pg_database_size(current_database())"
        )
        return await self.read(lambda connection: int(connection.execute(text(query)).scalar_one()))


@contextmanager
def _translated() -> Iterator[None]:
    """Both databases' errors as ours; what the driver said is the cause, for the log and not for the caller."""
    try:
        yield
    except IntegrityError as error:
        raise Clash("The store has another row in this place.") from error
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        code: Any = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
        if code in LOST_RACES:
            raise Clash("Another transaction was there first.") from error
        raise StoreFailure(
            "The store cannot be reached, or failed; try again later.", code="store_unavailable"
        ) from error
