"""Every test of the store runs twice: on an SQLite file, and on PostgreSQL where one listens.

``ISTHMUS_TEST_POSTGRES`` names the PostgreSQL database (postgresql+asyncpg://...); each run has a schema of its own in
it, so runs do not meet.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url, text

from app.errors import StoreFailure
from app.store.database import Database
from app.store.revision import create_at_head
from app.store.tables import metadata

POSTGRES = os.environ.get("ISTHMUS_TEST_POSTGRES", "postgresql+asyncpg://postgres@127.0.0.1:5432/test")


class Place:
    """Where one test's store is. :meth:`open` gives a database with pools of its own: a replica."""

    def __init__(self, url: str, schema: str | None = None) -> None:
        self.url = url
        self.schema = schema

    @property
    def is_sqlite(self) -> bool:
        return self.schema is None

    @asynccontextmanager
    async def open(self, **options: object) -> AsyncIterator[Database]:
        database = Database(self.url, schema=self.schema, **options)
        try:
            yield database
        finally:
            await database.close()


async def _in_postgres(schema: str, statement: str) -> None:
    database = Database(POSTGRES, schema=schema, pool_size=1)
    try:
        await database.write(lambda connection: connection.execute(text(statement)))
    finally:
        await database.close()


@pytest.fixture(scope="session")
def postgres_schema() -> Iterator[str]:
    schema = f"isthmus_{os.getpid()}_{secrets.token_hex(4)}"
    try:
        asyncio.run(_in_postgres(schema, f"CREATE SCHEMA {schema}"))
    except StoreFailure as error:
        reason = str(error.__cause__).strip().splitlines()[0]
        pytest.skip(f"no PostgreSQL at {POSTGRES} ({reason}); set ISTHMUS_TEST_POSTGRES=postgresql+asyncpg://…")
    yield schema
    asyncio.run(_in_postgres(schema, f"DROP SCHEMA {schema} CASCADE"))


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database without any table."""
    if request.param == "sqlite":
        yield Place(f"sqlite+aiosqlite:///{tmp_path / 'store.db'}")
        return
    schema = request.getfixturevalue("postgres_schema") + "_bare"
    asyncio.run(_in_postgres(schema, f"CREATE SCHEMA {schema}"))
    yield Place(POSTGRES, schema)
    asyncio.run(_in_postgres(schema, f"DROP SCHEMA {schema} CASCADE"))


@pytest.fixture(scope="session")
def postgres_place(postgres_schema: str) -> Place:
    place = Place(POSTGRES, postgres_schema)
    asyncio.run(_create(place))
    return place


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database at head, with nothing in it."""
    if request.param == "sqlite":
        place = Place(f"sqlite+aiosqlite:///{tmp_path / 'store.db'}")
        asyncio.run(_create(place))
        return place
    place = request.getfixturevalue("postgres_place")
    asyncio.run(_empty(place))
    return place


async def _create(place: Place) -> None:
    async with place.open() as database:
        await create_at_head(database)


async def _empty(place: Place) -> None:
    def work(connection: Connection) -> None:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())

    async with place.open() as database:
        await database.write(work)


@pytest.fixture(scope="session")
def postgres_url(postgres_schema: str) -> Iterator[str]:
    """A PostgreSQL database of its own, for servers: they are given a URL, and no schema."""
    name = postgres_schema + "_served"
    asyncio.run(_in_autocommit(f"CREATE DATABASE {name}"))
    yield make_url(POSTGRES).set(database=name).render_as_string(hide_password=False)
    asyncio.run(_in_autocommit(f"DROP DATABASE {name} WITH (FORCE)"))


async def _in_autocommit(statement: str) -> None:
    database = Database(POSTGRES, pool_size=1)
    try:
        await database.read(lambda connection: connection.execute(text(statement)))
    finally:
        await database.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of an empty store, for the servers of one module."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"
    url: str = request.getfixturevalue("postgres_url")
    asyncio.run(_create(Place(url)))
    asyncio.run(_empty(Place(url)))
    return url


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def database(place: Place) -> AsyncIterator[Database]:
    async with place.open() as opened:
        yield opened
