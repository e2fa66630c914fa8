"""A database URL to connections: SQLite (WAL) on threads of our own, or PostgreSQL through asyncpg.

All work with the database is a plain function of a :class:`sqlalchemy.Connection`, and :class:`Database` runs it
whole: a read in autocommit, a write as one transaction. On SQLite that is one hop to a thread for a transaction of any
number of statements (an async driver hops two or three times for each).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from app.errors import StartupError, StoreFailure
from app.store.sqlite import Sqlite

__all__ = ("Clash", "Database")

P = ParamSpec("P")
T = TypeVar("T")

LOST_RACES = ("40001", "40P01")
"""PostgreSQL's codes of a transaction that another one made impossible: it can be tried again."""


class Clash(StoreFailure):
    """Another transaction was there first: a key is taken, or the two excluded each other."""


class Backend(Protocol):
    """One kind of database: runs functions on its connections."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """In autocommit."""

    async def write(self, work: Callable[[Connection], T]) -> T:
        """In one transaction."""

    async def close(self) -> None:
        """End all connections."""


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
        self._backend: Backend
        try:
            if self.is_sqlite:
                self._backend = Sqlite(self.url, readers=pool_size, durable=durable)
            else:
                # SQLAlchemy's asyncio half is a third of its import time, and SQLite needs none of it.
                from app.store.postgres import Postgres

                self._backend = Postgres(self.url, schema=schema, pool_size=pool_size)
        except ModuleNotFoundError as error:
            raise StartupError(f"{driver}:// needs a driver: pip install {error.name}.") from error

    async def read(
        self, work: Callable[Concatenate[Connection, P], T], /, *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run work that reads; each of its statements sees what is committed when it starts.

        Raises:
            StoreFailure: the database cannot be reached, or refused a statement.
        """
        with _translated():
            return await self._backend.read(lambda connection: work(connection, *arguments, **options))

    async def write(
        self, work: Callable[Concatenate[Connection, P], T], /, *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run work in a transaction that commits at its end, and rolls back if it raises anything.

        Raises:
            Clash: another transaction was there first.
            StoreFailure: the database cannot be reached, or refused a statement.
        """
        with _translated():
            return await self._backend.write(lambda connection: work(connection, *arguments, **options))

    async def close(self) -> None:
        """End all connections."""
        await self._backend.close()

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
    except (SQLAlchemyError, OSError) as error:
        code: Any = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
        if code in LOST_RACES:
            raise Clash("Another transaction was there first.") from error
        raise StoreFailure(
            "The store cannot be reached, or failed; try again later.", code="store_unavailable"
        ) from error
