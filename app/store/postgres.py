"""Work on a PostgreSQL database: a pool of connections to read with, and one to write with."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import create_async_engine

__all__ = ("Postgres",)

T = TypeVar("T")


class Postgres:
    """Both pools of one database; reads are single statements in autocommit, and hold no transaction.

    Args:
        url: with the driver asyncpg.
        schema: to live in, instead of the role's first.
        pool_size: connections of each pool.
    """

    def __init__(self, url: URL, *, schema: str | None, pool_size: int) -> None:
        options: dict[str, Any] = {
            "pool_size": pool_size,
            "max_overflow": 0,
            "pool_timeout": 60,
            "connect_args": {} if schema is None else {"server_settings": {"search_path": schema}},
        }
        self._writer = create_async_engine(url, **options)
        self._reader = create_async_engine(url, isolation_level="AUTOCOMMIT", **options)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run work on a connection in autocommit."""
        async with self._reader.connect() as connection:
            return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run work in one transaction."""
        async with self._writer.begin() as connection:
            return await connection.run_sync(work)

    async def close(self) -> None:
        """End all connections."""
        await self._writer.dispose()
        await self._reader.dispose()
