"""Work on an SQLite file: one thread that writes, some that read, each with a connection of its own.

SQLite allows one transaction that writes at a time, so writers queue here for the one thread instead of spinning on
the file's lock (which other processes still share).
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

__all__ = ("Sqlite",)

T = TypeVar("T")

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


class Sqlite:
    """The threads of one SQLite database; a database in memory has one thread for all its work.

    Args:
        url: whose database is the file's name, or empty.
        readers: threads that read.
        durable: whether every commit waits for the disk.
    """

    def __init__(self, url: URL, *, readers: int, durable: bool) -> None:
        in_memory = url.database in (None, "", ":memory:")
        pragmas = (*PRAGMAS, "PRAGMA synchronous=FULL") if durable else PRAGMAS
        address = url.set(drivername="sqlite")
        self._writer = _Threads(address, pragmas, count=1, transactions=True)
        self._reader = self._writer if in_memory else _Threads(address, pragmas, count=readers, transactions=False)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run work on a connection in autocommit."""
        return await self._reader.run(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run work in one transaction, after those that came before it."""
        return await self._writer.run(work)

    async def close(self) -> None:
        """Finish what has begun and close every connection."""
        for threads in {self._writer, self._reader}:
            await asyncio.to_thread(threads.close)


class _Threads:
    """Some threads, each with a connection that it keeps."""

    def __init__(self, url: URL, pragmas: tuple[str, ...], *, count: int, transactions: bool) -> None:
        options: dict[str, Any] = {} if transactions else {"isolation_level": "AUTOCOMMIT"}
        # Closed by the thread that closes the database, hence check_same_thread; used by one thread only.
        self._engine = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False}, **options)
        self._transactions = transactions
        self._pragmas = pragmas
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="store")
        self._local = threading.local()
        self._open: list[Connection] = []
        event.listen(self._engine, "connect", self._configure)
        if transactions:
            event.listen(self._engine, "begin", _begin_immediate)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run work in one of the threads; a caller that is cancelled leaves it whole: done, or never begun."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, work)

    def _run(self, work: Callable[[Connection], T]) -> T:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._engine.connect()
            self._open.append(connection)
        if not self._transactions:
            return work(connection)
        try:
            with connection.begin():
                return work(connection)
        finally:
            driver: Any = connection.connection.driver_connection
            if driver.in_transaction:  # its commit failed, which ends no transaction
                driver.rollback()

    def _configure(self, connection: Any, _record: Any) -> None:
        # The driver's own transactions are deferred; ours begin when we say.
        connection.isolation_level = None
        for pragma in self._pragmas:
            connection.execute(pragma).close()

    def close(self) -> None:
        self._executor.shutdown(wait=True)
        for connection in self._open:
            connection.close()
        self._engine.dispose()


def _begin_immediate(connection: Connection) -> None:
    # A deferred transaction that reads first and then writes cannot wait for another writer: it fails at once.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
