"""The store as a server opens it: made at head, alive while it runs, closed without leaving anything behind."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from app.errors import StartupError
from app.runs.state import open_state
from app.runs.stored import StoredRun
from app.settings import Settings
from app.store import leases
from app.store.database import Database
from app.store.retention import sweep

from .scripted_run import ScriptedRun
from .turns import complete, new_turn, texts, value


def url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path / 'state.db'}"


def test_a_store_is_opened_used_and_opened_again(tmp_path: Path) -> None:
    async def check() -> None:
        state = await open_state(Settings(database_url=url(tmp_path)))
        assert state is not None
        store = state.responses("a")
        head = await complete(store, "kept", owner=state.owner)
        running = new_turn(background=True, status="queued", owner=state.owner)
        await store.begin(running)
        state.background.launch(StoredRun(store, running), ScriptedRun(running, gate=asyncio.Event()))
        assert not await sweep(state.database)
        assert (await state.conversations("a").create()).object == "conversation"
        await state.close()
        again = await open_state(Settings(database_url=url(tmp_path)))
        assert again is not None
        assert again.revision == state.revision
        assert texts((await again.responses("a").resolve(head)).items()) == ["kept", "re: kept"]
        assert await again.responses("a").status(running.id) == "failed"
        assert await again.database.read(leases.alive_owners) == {again.owner}
        await again.close()

    asyncio.run(check())


def test_no_url_is_no_store_and_a_wrong_one_stops_start_up(tmp_path: Path) -> None:
    assert asyncio.run(open_state(Settings(database_url=""))) is None
    with pytest.raises(StartupError):
        asyncio.run(open_state(Settings(database_url=f"sqlite+aiosqlite:///{tmp_path}/no/such/place.db")))


def test_in_memory_everything_shares_one_database() -> None:
    async def check() -> None:
        state = await open_state(Settings(database_url="sqlite+aiosqlite://"))
        assert state is not None
        store = state.responses("a")
        heads = await asyncio.gather(*[complete(store, str(n), owner=state.owner) for n in range(5)])
        assert [len((await store.resolve(head)).items()) for head in heads] == [2] * 5
        await state.close()

    asyncio.run(check())


def test_sqlite_is_set_up_to_survive(tmp_path: Path) -> None:
    async def check() -> None:
        database = Database(url(tmp_path), durable=True)
        assert await value(database, text("PRAGMA synchronous")) == 2
        assert await value(database, text("PRAGMA journal_mode")) == "wal"
        assert await value(database, text("PRAGMA foreign_keys")) == 1
        await database.close()

    asyncio.run(check())
