"""Stored and background runs: durable before told, cancelled for good, replayed by any replica, ended after a crash."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy.exc import OperationalError

from app.errors import EngineFailure, InvalidRequest, NotFound
from app.runs.background import BackgroundRuns, replay
from app.runs.events import TERMINAL, RunEvent
from app.runs.stored import StoredRun, settle, stored
from app.store import leases
from app.store.database import Database
from app.store.exact import ExactIds
from app.store.retention import Retention, sweep
from app.store.store import ResponseStore

from .conftest import Place
from .scripted_run import ScriptedRun
from .turns import complete, new_turn, texts

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(database: Database) -> ResponseStore:
    return ResponseStore(database, "a")


@pytest.fixture
async def runs(database: Database) -> AsyncIterator[BackgroundRuns]:
    background = BackgroundRuns(database)
    await background.start()
    yield background
    await background.stop()


@contextmanager
def full_disk() -> Iterator[None]:
    """No commit succeeds meanwhile."""

    def refuse(*_: Any) -> None:
        raise OperationalError("COMMIT", {}, Exception("disk full"))

    sqlalchemy_event.listen(Engine, "commit", refuse)
    try:
        yield
    finally:
        sqlalchemy_event.remove(Engine, "commit", refuse)


async def collect(events: AsyncIterator[RunEvent]) -> list[RunEvent]:
    return [event async for event in events]


def check_stream(events: list[RunEvent], status: str) -> dict[str, Any]:
    """One stream as clients check it: numbered from 0, one last event, its Response of this status."""
    decoded = [msgspec.json.decode(event.data) for event in events]
    assert [one["sequence_number"] for one in decoded] == list(range(len(events)))
    assert [one["type"] for one in decoded] == [event.type for event in events]
    assert [event.type in TERMINAL for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].type == f"response.{status}"
    response = decoded[-1]["response"]
    assert response["status"] == status
    assert response["id"] == decoded[0]["response"]["id"]
    return response


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
async def test_a_turn_is_stored_before_its_last_event_is_seen(store: ResponseStore, status: str) -> None:
    turn = new_turn("q")
    await store.begin(turn)
    seen = []
    async for event in stored(StoredRun(store, turn), ScriptedRun(turn, status=status)()):
        seen.append(event)
        found = await store.retrieve(turn.id)
        assert found.status in ([status] if event.type in TERMINAL else ["in_progress", status])
    response = check_stream(seen, status)
    assert response == msgspec.json.decode((await store.retrieve(turn.id)).body)


async def test_token_ids_are_kept_over_those_of_the_turn_before(store: ResponseStore) -> None:
    root = await complete(store, exact=ExactIds([1, 2], [3]))
    before = (await store.resolve(root, with_ids=True)).exact
    turn = new_turn(previous_id=root)
    await store.begin(turn)
    run = ScriptedRun(turn, exact=ExactIds([1, 2, 3, 4], [5]))
    await collect(stored(StoredRun(store, turn, before), run()))
    found = (await store.resolve(turn.id, with_ids=True)).exact
    assert found is not None
    assert (list(found.prompt), list(found.completion)) == ([1, 2, 3, 4], [5])


async def test_a_failing_engine_ends_the_stream_and_the_turn(store: ResponseStore, caplog: Any) -> None:
    for error, code, message in (
        (EngineFailure("The engine is gone."), "server_error", "The engine is gone."),
        (KeyError("secret detail"), "server_error", "The server failed while it generated this."),
    ):
        turn = new_turn()
        await store.begin(turn)
        events = await collect(stored(StoredRun(store, turn), ScriptedRun(turn, error=error)()))
        assert events[-2].type == "error"
        assert check_stream(events, "failed")["error"] == {"code": code, "message": message}
        reply = msgspec.json.decode((await store.retrieve(turn.id)).body)
        assert (reply["status"], reply["error"]["message"]) == ("failed", message)


async def test_a_source_that_stops_short_is_a_failure(store: ResponseStore) -> None:
    turn = new_turn()
    await store.begin(turn)
    events = await collect(stored(StoredRun(store, turn), ScriptedRun(turn, ends=False)()))
    check_stream(events, "failed")
    assert await store.status(turn.id) == "failed"


async def test_a_client_that_leaves_ends_generation_and_turn(store: ResponseStore) -> None:
    turn, gate = new_turn(), asyncio.Event()
    await store.begin(turn)
    run = ScriptedRun(turn, gate=gate)
    events = stored(StoredRun(store, turn), run())
    assert (await anext(events)).type == "response.created"
    assert (await anext(events)).type == "response.output_text.delta"
    await events.aclose()
    await asyncio.wait_for(run.closed.wait(), 5)
    await settle()
    assert await store.status(turn.id) == "cancelled"
    with pytest.raises(InvalidRequest, match="cancelled"):
        await store.resolve(turn.id)


async def test_what_cannot_be_stored_is_not_told_as_completed(database: Database, store: ResponseStore) -> None:
    """B70: a database that fails at the end must not look like success."""
    turn, gate = new_turn(), asyncio.Event()
    await store.begin(turn)

    events = stored(StoredRun(store, turn), ScriptedRun(turn, gate=gate)())
    seen = [await anext(events)]
    with full_disk():
        gate.set()
        seen += await collect(events)
    assert check_stream(seen, "failed")["error"]["code"] == "server_error"
    assert await store.status(turn.id) != "completed"


async def test_a_turn_that_was_given_up_is_not_told_as_completed(database: Database, store: ResponseStore) -> None:
    turn, gate = new_turn(owner="slow"), asyncio.Event()
    await store.begin(turn)
    events = stored(StoredRun(store, turn), ScriptedRun(turn, gate=gate)())
    seen = [await anext(events)]
    assert (await sweep(database)).given_up == 1
    gate.set()
    seen += await collect(events)
    check_stream(seen, "failed")


async def test_a_background_run_is_replayed_from_any_place(
    database: Database, store: ResponseStore, runs: BackgroundRuns
) -> None:
    turn = new_turn("q", background=True, status="queued", owner=runs.owner)
    await store.begin(turn)
    run = ScriptedRun(turn, deltas=5)
    runs.launch(StoredRun(store, turn), run)
    live = await collect(replay(database, store, turn.id, poll_s=0.01))
    response = check_stream(live, "completed")
    assert response == msgspec.json.decode((await store.retrieve(turn.id)).body)
    for after in range(-1, len(live)):
        again = await collect(replay(database, store, turn.id, after=after))
        assert [event.data for event in again] == [event.data for event in live[after + 1 :]]
    assert texts((await store.resolve(turn.id)).items())[0] == "q"


async def test_another_replica_replays_and_cancels(place: Place) -> None:
    async with place.open() as one, place.open() as two:
        runs, others = BackgroundRuns(one), BackgroundRuns(two)
        await runs.start()
        await others.start()
        here, there = ResponseStore(one, "a"), ResponseStore(two, "a")
        turn, gate = new_turn(background=True, status="queued", owner=runs.owner), asyncio.Event()
        await here.begin(turn)
        run = ScriptedRun(turn, gate=gate)
        runs.launch(StoredRun(here, turn), run)
        events = replay(two, there, turn.id, poll_s=0.01)
        seen = [await anext(events), await anext(events)]
        assert (await others.cancel(there, turn.id)).status == "cancelled"
        seen += await collect(events)
        check_stream(seen, "cancelled")
        await asyncio.wait_for(run.closed.wait(), 10)  # noticed without a word between the replicas
        assert (await runs.cancel(here, turn.id)).status == "cancelled"
        await others.stop()
        await runs.stop()
        assert await here.status(turn.id) == "cancelled"


async def test_cancelling_stops_the_generation_before_it_answers(store: ResponseStore, runs: BackgroundRuns) -> None:
    turn, gate = new_turn(background=True, status="queued", owner=runs.owner), asyncio.Event()
    await store.begin(turn)
    run = ScriptedRun(turn, gate=gate)
    runs.launch(StoredRun(store, turn), run)
    while await store.status(turn.id) == "queued":
        await asyncio.sleep(0.01)
    first = await runs.cancel(store, turn.id)
    assert first.status == "cancelled"
    assert await runs.cancel(store, turn.id) == first


async def test_a_run_cancelled_while_queued_never_starts(store: ResponseStore, runs: BackgroundRuns) -> None:
    turn = new_turn(background=True, status="queued", owner=runs.owner)
    await store.begin(turn)
    await store.cancel(turn.id)
    run = ScriptedRun(turn)
    runs.launch(StoredRun(store, turn), run)
    await runs.stop()
    assert not run.closed.is_set()
    assert await store.status(turn.id) == "cancelled"


async def test_failures_in_the_background_are_stored(
    database: Database, store: ResponseStore, runs: BackgroundRuns
) -> None:
    for script in ({"error": EngineFailure("gone")}, {"ends": False}):
        turn = new_turn(background=True, status="queued", owner=runs.owner)
        await store.begin(turn)
        runs.launch(StoredRun(store, turn), ScriptedRun(turn, **script))
        events = await collect(replay(database, store, turn.id, poll_s=0.01))
        assert check_stream(events, "failed")["error"]["code"] == "server_error"


async def test_a_run_whose_process_died_fails_and_its_replay_ends(database: Database, store: ResponseStore) -> None:
    dead = BackgroundRuns(database)
    await dead.start()
    turn, gate = new_turn(background=True, status="queued", owner=dead.owner), asyncio.Event()
    await store.begin(turn)
    dead.launch(StoredRun(store, turn), ScriptedRun(turn, gate=gate))
    events = replay(database, store, turn.id, poll_s=0.01)
    seen = [await anext(events), await anext(events)]
    assert not await sweep(database)
    await leases.hold_process(database, dead.owner, for_ms=0)
    assert (await sweep(database)).given_up == 1
    seen += await collect(events)
    assert check_stream(seen, "failed")["error"]["code"] == "server_error"
    await dead.stop()


@pytest.mark.parametrize("background", [False, True])
async def test_a_turn_whose_run_never_started_fails(database: Database, store: ResponseStore, background: bool) -> None:
    """Its client left, or its task broke, between the turn's beginning and its run; its process lives on."""
    runs = BackgroundRuns(database, heartbeat_s=0.01, starts_in_s=0)
    turn = new_turn(background=background, owner=runs.owner, status="queued" if background else "in_progress")
    gate, front, behind = asyncio.Event(), new_turn(owner=runs.owner), new_turn(background=True, owner=runs.owner)
    for one in (front, behind, turn):
        await store.begin(one)
    events = stored(StoredRun(store, front), ScriptedRun(front, gate=gate)())
    seen = [await anext(events)]
    runs.launch(StoredRun(store, behind), ScriptedRun(behind, gate=gate))
    await runs.start()
    async with asyncio.timeout(20):
        while await store.status(turn.id) != "failed":
            await asyncio.sleep(0.01)
    reply = msgspec.json.decode((await store.retrieve(turn.id)).body)
    assert (reply["status"], reply["error"]["code"]) == ("failed", "server_error")
    gate.set()
    check_stream([*seen, *await collect(events)], "completed")
    check_stream(await collect(replay(database, store, behind.id, poll_s=0.01)), "completed")
    await runs.stop()


async def test_a_turn_whose_end_could_not_be_stored_fails_later(database: Database, store: ResponseStore) -> None:
    """The database was away when its run ended."""
    runs = BackgroundRuns(database, heartbeat_s=0.01, starts_in_s=0)
    turn, gate = new_turn(owner=runs.owner), asyncio.Event()
    await store.begin(turn)

    events = stored(StoredRun(store, turn), ScriptedRun(turn, gate=gate)())
    seen = [await anext(events)]
    with full_disk():
        gate.set()
        seen += await collect(events)
    assert await store.status(turn.id) == "in_progress"
    await runs.start()
    async with asyncio.timeout(20):
        while await store.status(turn.id) != "failed":
            await asyncio.sleep(0.01)
    await runs.stop()


async def test_a_stopping_process_ends_its_runs(database: Database, store: ResponseStore) -> None:
    runs = BackgroundRuns(database)
    await runs.start()
    turn, gate = new_turn(background=True, status="queued", owner=runs.owner), asyncio.Event()
    await store.begin(turn)
    runs.launch(StoredRun(store, turn), ScriptedRun(turn, gate=gate))
    while await store.status(turn.id) == "queued":
        await asyncio.sleep(0.01)
    await runs.stop()
    assert await store.status(turn.id) == "failed"


async def test_only_background_responses_of_ones_own_are_replayed(database: Database, store: ResponseStore) -> None:
    foreground = await complete(store)
    with pytest.raises(InvalidRequest):
        await anext(replay(database, store, foreground))
    swept = await complete(ResponseStore(database, "a", Retention(events_s=0)), background=True)
    with pytest.raises(InvalidRequest, match="not kept"):
        await anext(replay(database, store, swept))
    with pytest.raises(NotFound):
        await anext(replay(database, ResponseStore(database, "b"), swept))
    with pytest.raises(NotFound):
        await anext(replay(database, store, "resp_none"))


async def test_deleting_a_running_response_ends_it(
    database: Database, store: ResponseStore, runs: BackgroundRuns
) -> None:
    turn, gate = new_turn(background=True, status="queued", owner=runs.owner), asyncio.Event()
    await store.begin(turn)
    run = ScriptedRun(turn, gate=gate)
    runs.launch(StoredRun(store, turn), run)
    events = replay(database, store, turn.id, poll_s=0.01)
    await anext(events)
    await store.delete(turn.id)
    with pytest.raises(NotFound):
        await collect(events)
    await asyncio.wait_for(run.closed.wait(), 10)
