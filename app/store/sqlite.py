"""An SQLite URL to an engine: pragmas on every connection, and transactions that take the write lock at once."""

import sqlite3
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolResetState

from app.errors import StartupError

__all__ = ("in_memory", "open_engine")

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


def in_memory(url: URL) -> bool:
    """Whether a database lives in its one connection and nowhere else."""
    return url.database in (None, "", ":memory:")


def open_engine(url: URL, *, reads: bool = False, durable: bool = False, **pool: Any) -> AsyncEngine:
    """An engine that has made no connection yet, of a file that can be opened.

    A connection of aiosqlite's that fails to open says so to an event loop that may have gone by then, so the file is
    tried first.

    Args:
        url: whose database is the file's name, or empty.
        reads: whether each statement stands for itself, instead of what is done on a connection being a transaction.
        durable: whether every commit waits for the disk.
        pool: for SQLAlchemy; each connection has a thread of aiosqlite's.

    Raises:
        StartupError: the file cannot be opened.
    """
    script = ";".join((*PRAGMAS, "PRAGMA synchronous=FULL") if durable else PRAGMAS)
    if reads:
        pool["isolation_level"] = "AUTOCOMMIT"
    engine = create_async_engine(url.set(drivername="sqlite+aiosqlite"), pool_reset_on_return=None, **pool)

    arguments: Any
    options: Any
    arguments, options = engine.dialect.create_connect_args(engine.url)
    try:
        sqlite3.connect(*arguments, **options).close()
    except sqlite3.Error as error:
        raise StartupError(f"the store at {str(url)!r} cannot be opened: {error}.") from error

    def connected(connection: Any, _record: Any) -> None:
        # The driver's own transactions are deferred; ours begin when we say.
        connection.isolation_level = None
        connection.run_async(lambda driver: driver.executescript(script))

    def begun(connection: Connection) -> None:
        # A deferred transaction that reads first and then writes cannot wait for another writer: it fails at once.
        adapted: Any = connection.connection.dbapi_connection
        adapted.run_async(lambda driver: driver.execute("BEGIN IMMEDIATE"))

    def returned(connection: Any, _record: Any, state: PoolResetState) -> None:
        # A commit that failed has ended no transaction; to ask is cheaper than to roll back every time.
        if not state.terminate_only and connection.driver_connection.in_transaction:
            connection.rollback()

    event.listen(engine.sync_engine, "connect", connected)
    if not reads:
        event.listen(engine.sync_engine, "begin", begun)
        event.listen(engine.sync_engine, "reset", returned)
    return engine
