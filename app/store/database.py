"""A database URL to connections: SQLite (WAL) or PostgreSQL, one pool to read with and one to write with.

Reads are single statements in autocommit, so they hold no transaction. A write is one transaction; SQLite allows one
at a time, so its writers queue for one connection here instead of spinning on its lock.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.errors import StartupError

__all__ = ("Database",)

PRAGMAS = (
    "PRAGMA busy_timeout=10000",
    "PRAGMA auto_vacuum=INCREMENTAL",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-65536",
    "PRAGMA mmap_size=268435456",
)
"""Set on every connection. WAL with NORMAL survives a killed process whole; a power cut may lose the last commits."""


class Database:
    """Both pools of one database. Opening makes no connection; :meth:`close` ends all.

    Args:
        url: an async SQLAlchemy URL, ``sqlite+aiosqlite:///file.db`` or ``postgresql+asyncpg://host/name``.
        schema: PostgreSQL only: the schema to live in, instead of the role's first.
        pool_size: connections of each pool (readers only on SQLite, which has one writer).
        durable: whether SQLite waits for the disk at every commit (slower; survives a power cut too).
    """

    def __init__(self, url: str | URL, *, schema: str | None = None, pool_size: int = 5, durable: bool = False) -> None:
        try:
            self.url = make_url(url)
        except ArgumentError as error:
            raise StartupError(f"database_url is not a database URL: {url!r}.") from error
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.url.get_driver_name() not in ("aiosqlite", "asyncpg"):
            raise StartupError(
                f"database_url needs sqlite+aiosqlite:// or postgresql+asyncpg://, not {self.url.drivername}://."
            )
        self._durable = durable
        self._threads: set[Thread] = set()
        connect_args: dict[str, Any] = {}
        if schema is not None and not self.is_sqlite:
            connect_args["server_settings"] = {"search_path": schema}
        in_memory = self.is_sqlite and self.url.database in (None, "", ":memory:")
        if in_memory:
            # Every connection would be a database of its own: all work shares one, in turn.
            self.writer = self._engine(connect_args, size=1)
            self.reader = self.writer
            return
        self.writer = self._engine(connect_args, size=1 if self.is_sqlite else pool_size)
        self.reader = self._engine(connect_args, size=pool_size, isolation_level="AUTOCOMMIT")

    def _engine(self, connect_args: dict[str, Any], *, size: int, **options: Any) -> AsyncEngine:
        from sqlalchemy.pool import AsyncAdaptedQueuePool

        try:
            engine = create_async_engine(
                self.url,
                poolclass=AsyncAdaptedQueuePool,
                pool_size=size,
                max_overflow=0,
                pool_timeout=60,
                connect_args=connect_args,
                **options,
            )
        except ModuleNotFoundError as error:
            raise StartupError(f"{self.url.drivername}:// needs a driver: pip install {error.name}.") from error
        if self.is_sqlite:
            event.listen(engine.sync_engine, "connect", self._set_pragmas)
            if not options:
                event.listen(engine.sync_engine, "begin", _begin_immediate)
        return engine

    def _set_pragmas(self, connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for pragma in PRAGMAS:
            cursor.execute(pragma)
        if self._durable:
            cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()
        thread = getattr(connection.driver_connection, "_thread", None)
        self._threads = {one for one in self._threads if one.is_alive()}
        if isinstance(thread, Thread):
            self._threads.add(thread)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection for reading; every statement sees what is committed when it starts."""
        async with self.reader.connect() as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that commits at the end, and rolls back if anything is raised."""
        async with self.writer.begin() as connection:
            yield connection

    async def close(self) -> None:
        """End all connections."""
        await self.writer.dispose()
        if self.reader is not self.writer:
            await self.reader.dispose()
        # A connection whose work was cancelled ends in its own time, and says so to this event loop.
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 2)

    async def size_bytes(self) -> int:
        """Bytes that the database occupies on disk."""
        query = (
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            if self.is_sqlite
            else "SELECT pg_database_size(current_database())"
        )
        async with self.read() as connection:
            return int((await connection.execute(text(query))).scalar_one())


def _begin_immediate(connection: Any) -> None:
    # A deferred transaction that reads first and then writes cannot wait for another writer: it fails at once.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
