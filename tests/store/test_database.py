"""What runs on a connection: whole whatever happens to its caller, and never so long that the event loop waits."""

import asyncio
import threading
from typing import Any

import pytest
from sqlalchemy import Connection, event, func, select, text
from sqlalchemy.exc import OperationalError

from app.errors import StoreFailure
from app.protocol.ids import new_id
from app.store import blobs, chain
from app.store.apart import AT_ONCE
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.store import ResponseStore
from app.store.tables import responses, threads, turns

from .test_exact_and_blobs import image, picture
from .turns import complete, new_turn, texts, user, value

pytestmark = pytest.mark.anyio


async def busy(database: Database) -> list[int]:
    """Connections of each pool that somebody holds."""
    return [engine.pool.checkedout() for engine in (database._reader, database._writer)]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_caller_breaks_nothing(database: Database, times: int) -> None:
    """Wherever in its writes and reads a caller is cancelled (again, too): each was done whole, or not at all."""
    store = ResponseStore(database, "a")
    root = await complete(store, "root")
    for steps in range(60):
        name = new_id("resp")
        work = asyncio.create_task(complete(store, "cut", id=name, previous_id=root))
        other = asyncio.create_task(store.resolve(root))
        for _ in range(steps):
            await asyncio.sleep(0.0005 if steps % 2 else 0)
        for task in (work, other):
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
        await asyncio.gather(work, other, return_exceptions=True)
        # The connection is as good as new at once: this waits behind what was cancelled.
        await complete(store, "next", previous_id=root)
        assert texts((await store.resolve(root)).items()) == ["root", "re: root"]
    assert await busy(database) == [0, 0]
    rows = await database.read(
        lambda connection: connection.execute(
            select(responses.c.status, turns.c.input, turns.c.output).where(turns.c.response_id == responses.c.id)
        ).all()
    )
    assert len(rows) == await value(database, select(func.count()).select_from(responses)) > 61
    assert {(row.status, bytes(row.output) == b"[]") for row in rows} <= {("completed", False), ("in_progress", True)}


async def test_closing_waits_for_what_was_begun(database: Database) -> None:
    store = ResponseStore(database, "a")
    turn = new_turn("q")
    begun = asyncio.create_task(store.begin(turn))
    await asyncio.sleep(0)
    begun.cancel()
    await asyncio.gather(begun, return_exceptions=True)
    await database.close()
    assert await store.status(turn.id) in ("in_progress", None)
    again = asyncio.create_task(store.begin(new_turn("q2")))
    await asyncio.sleep(0)
    await database.close()
    await again
    assert await value(database, select(func.count()).select_from(threads)) == len(
        await database.read(lambda connection: connection.execute(select(turns.c.response_id)).all())
    )


@pytest.mark.parametrize("when", ["begin", "before_cursor_execute", "commit", "rollback"])
async def test_a_failing_statement_leaves_a_good_connection(database: Database, when: str) -> None:
    def refuse(*_: Any) -> None:
        raise OperationalError("", {}, Exception("no"))

    def work(connection: Connection) -> None:
        connection.execute(text("INSERT INTO threads VALUES ('thr_1', 'a', 0, NULL)"))
        if when == "rollback":
            raise RuntimeError("no")

    engine = database._writer.sync_engine
    event.listen(engine, when, refuse)
    try:
        with pytest.raises((StoreFailure, RuntimeError)):
            await database.write(work)
    finally:
        event.remove(engine, when, refuse)
    assert await value(database, select(func.count()).select_from(threads)) == 0
    when = ""
    await database.write(work)
    assert await value(database, select(func.count()).select_from(threads)) == 1
    assert await busy(database) == [0, 0]


async def test_what_is_stored_is_in_no_error(database: Database) -> None:
    store = ResponseStore(database, "a")
    turn = new_turn(extra={"instructions": "secret-words"})
    await store.begin(turn)
    with pytest.raises(StoreFailure) as failed:
        await store.begin(turn)
    seen: BaseException | None = failed.value
    while seen is not None:
        assert "secret-words" not in str(seen)
        seen = seen.__cause__


async def test_long_work_on_json_leaves_the_loop(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than can be gone through at once is split, searched and decoded in another thread."""
    here = threading.get_ident()
    seen: dict[str, set[bool]] = {}

    def watched(name: str, work: Any) -> Any:
        def run(*arguments: Any) -> Any:
            seen.setdefault(name, set()).add(threading.get_ident() == here)
            return work(*arguments)

        return run

    monkeypatch.setattr(blobs, "take_out", watched("take_out", blobs.take_out))
    monkeypatch.setattr(chain, "read", watched("read", chain.read))
    store = ResponseStore(database, "a")
    small = await complete(store, "small")
    await store.resolve(small)
    assert seen == {"take_out": {True}, "read": {True}}
    for given in ([picture(image(AT_ONCE))], [user("x" * AT_ONCE)]):
        seen.clear()
        turn = new_turn(input=given, previous_id=small)
        await store.begin(turn)
        await store.finish(turn.id, status="completed", body=turn.body, output=given)
        await store.resolve(turn.id)
        assert seen == {"take_out": {False}, "read": {False}}
    listed = await store.input_items(turn.id, limit=1)
    assert len(bytes(listed.data[0])) > AT_ONCE
    conversations = ConversationStore(database, "a")
    made = await conversations.create([user("x" * AT_ONCE)])
    assert len(bytes((await conversations.page(made.id)).data[0])) > AT_ONCE
