"""What expires goes, all of it and nothing else; dead processes' turns end; one replica sweeps."""

import asyncio

import msgspec
import pytest
from sqlalchemy import func, select, text

from app.errors import InvalidRequest
from app.protocol.ids import now_ms
from app.store import leases
from app.store.database import Database
from app.store.events import EventLog, LoggedEvent
from app.store.retention import Retention, Sweeper, sweep
from app.store.store import ResponseStore
from app.store.tables import events, metadata

from .conftest import Place
from .turns import OWNER, complete, new_turn, texts, value

pytestmark = pytest.mark.anyio

GONE = Retention(days=1e-9)


async def counts(database: Database) -> dict[str, int]:
    return {
        name: await value(database, select(func.count()).select_from(table))
        for name, table in metadata.tables.items()
        if name != "leases"
    }


async def set_expiry(database: Database, at_ms: int) -> None:
    update = text("UPDATE threads SET expires_at = :at")
    await database.write(lambda connection: connection.execute(update, {"at": at_ms}))


async def test_a_sweep_deletes_expired_threads_whole_in_batches(database: Database) -> None:
    gone, kept = ResponseStore(database, "a", GONE), ResponseStore(database, "a")
    for number in range(7):
        await complete(gone, f"gone {number}")
    head = await complete(kept, "kept", previous_id=await complete(kept, "root"))
    await asyncio.sleep(0.01)
    done = await sweep(database, batch=3)
    assert (done.threads, done.responses) == (7, 7)
    assert not await sweep(database)
    assert texts((await kept.resolve(head)).items()) == ["root", "re: root", "kept", "re: kept"]
    left = await counts(database)
    assert (left["threads"], left["responses"], left["turns"]) == (1, 2, 2)


async def test_a_thread_lives_on_from_its_last_use(database: Database) -> None:
    """An ancestor never expires before its descendants: what expires is the thread."""
    store = ResponseStore(database, "a", Retention(days=30))
    head = await complete(store, "root")
    for number in range(3):
        await set_expiry(database, now_ms() + 60_000)
        before = now_ms()
        head = await complete(store, str(number), previous_id=head)
        until = await value(database, text("SELECT expires_at FROM threads"))
        assert before <= until - 30 * 86_400_000 <= now_ms()
    assert not await sweep(database)
    await set_expiry(database, now_ms())
    with pytest.raises(InvalidRequest):
        await store.resolve(head)
    assert (await sweep(database)).responses == 4


async def test_for_ever_is_for_ever(database: Database) -> None:
    name = await complete(ResponseStore(database, "a", Retention(days=0)))
    assert not await sweep(database)
    assert await value(database, text("SELECT expires_at FROM threads")) is None
    assert (await ResponseStore(database, "a").retrieve(name)).status == "completed"


async def test_event_logs_go_some_time_after_their_run(database: Database) -> None:
    store, log = ResponseStore(database, "a", Retention(events_s=0)), EventLog(database, "a")
    turn = new_turn(background=True)
    await leases.hold_process(database, OWNER)
    await store.begin(turn)
    assert await log.append(turn.id, [LoggedEvent(0, b'{"n":0}'), LoggedEvent(1, b'{"n":1}')])
    assert (await sweep(database)).event_logs == 0
    await store.finish(turn.id, status="completed", body=turn.body, output=[])
    assert not await log.append(turn.id, [LoggedEvent(2, b"{}")])
    await asyncio.sleep(0.01)
    assert (await sweep(database)).event_logs == 1
    assert await log.last(turn.id) == -1
    assert (await counts(database))["events"] == 0
    assert not await sweep(database)
    assert (await store.retrieve(turn.id)).status == "completed"
    assert events.name == "events"


async def test_a_log_is_replayed_from_any_place(database: Database) -> None:
    store, log = ResponseStore(database, "a"), EventLog(database, "a")
    turn = new_turn(background=True)
    await store.begin(turn)
    for start in (0, 4):
        await log.append(turn.id, [LoggedEvent(n, b'{"n":%d}' % n) for n in range(start, start + 4)])
    for after in (-1, 0, 3, 7, 99):
        replay = await log.read(turn.id, after)
        assert replay is not None
        assert [one.sequence for one in replay.events] == list(range(after + 1, 8))
        assert replay.status == "in_progress"


async def test_the_turns_of_a_dead_process_fail_and_those_of_the_living_go_on(database: Database) -> None:
    store = ResponseStore(database, "a")
    dead, alive = new_turn(background=True, status="queued", owner="dead"), new_turn(owner="alive")
    front = new_turn(owner="dead")  # it crashed between the turn's beginning and its run
    for turn in (dead, alive, front):
        await store.begin(turn)
    done = await complete(store, owner="dead")
    await leases.hold_process(database, "dead", for_ms=0)
    await leases.hold_process(database, "alive")
    assert (await sweep(database)).given_up == 2
    for turn in (dead, front):
        failed = msgspec.json.decode((await store.retrieve(turn.id)).body)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert (await store.retrieve(alive.id)).status == "in_progress"
    assert (await store.retrieve(done)).status == "completed"
    # The process was only slow: it comes too late, and learns that.
    assert not await store.finish(dead.id, status="completed", body=dead.body, output=[])
    assert await store.finish(alive.id, status="completed", body=alive.body, output=[])


async def test_one_of_several_replicas_sweeps(place: Place) -> None:
    async with place.open() as one, place.open() as two:
        sweepers = [Sweeper(database, name) for database, name in ((one, "one"), (two, "two"))]
        swept = await asyncio.gather(*[sweeper.once() for sweeper in sweepers])
        assert [result is None for result in swept].count(True) == 1
        first = sweepers[0 if swept[0] is not None else 1]
        other = sweepers[1 if first is sweepers[0] else 0]
        assert await first.once() is not None
        first.start()
        await first.stop()
        assert await other.once() is not None


async def test_a_lease_passes_on_when_it_runs_out(database: Database) -> None:
    assert await leases.hold(database, "x", "one", for_ms=60_000)
    assert not await leases.hold(database, "x", "two", for_ms=60_000)
    assert await leases.hold(database, "x", "one", for_ms=0)
    assert await leases.hold(database, "x", "two", for_ms=60_000)
    await leases.release(database, "x", "one")
    assert not await leases.hold(database, "x", "one", for_ms=60_000)
    await leases.release(database, "x", "two")
    assert await leases.hold(database, "x", "one", for_ms=60_000)


async def test_an_sqlite_file_shrinks_after_a_sweep(database: Database) -> None:
    if not database.is_sqlite:
        pytest.skip("PostgreSQL frees space by itself")
    store = ResponseStore(database, "a", GONE)
    for _ in range(30):
        await complete(store, "x" * 50_000)
    before = await database.size_bytes()
    await asyncio.sleep(0.01)
    await sweep(database)
    assert await database.size_bytes() < before / 4
