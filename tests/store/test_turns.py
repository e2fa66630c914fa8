"""A turn from its beginning to its one end: compare-and-set, idempotency, tenancy, "not found"."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from app.errors import Conflict, InvalidRequest, NotFound
from app.protocol.ids import new_id
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.events import EventLog, LoggedEvent
from app.store.retention import Retention
from app.store.store import ResponseStore

from .turns import answer, complete, ids, new_turn, texts, user

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(database: Database) -> ResponseStore:
    return ResponseStore(database, "a")


async def test_a_turn_is_read_as_it_was_finished(store: ResponseStore) -> None:
    turn = new_turn("hello", extra={"tools": [{"type": "function", "name": "f"}], "temperature": 0.30000000000000004})
    await store.begin(turn)
    begun = msgspec.json.decode((await store.retrieve(turn.id)).body)
    assert (begun["status"], begun["output"]) == ("in_progress", [])
    body = turn.body.replace(b"in_progress", b"completed")
    assert await store.finish(turn.id, status="completed", body=body, output=[answer(turn.id, "hi")])
    found = await store.retrieve(turn.id)
    reply = msgspec.json.decode(found.body)
    assert found.status == reply["status"] == "completed"
    assert reply["output"][0]["content"][0]["text"] == "hi"
    assert reply["tools"] == [{"type": "function", "name": "f"}]  # B68: the effective request is kept
    assert b"0.30000000000000004" in found.body


async def test_a_chain_has_every_turn_once_and_in_order(store: ResponseStore) -> None:
    previous = None
    for number in range(5):
        previous = await complete(store, f"q{number}", previous_id=previous)
    history = await store.resolve(previous)
    assert texts(history.items()) == [word for n in range(5) for word in (f"q{n}", f"re: q{n}")]
    assert texts(history.input_items()) == texts(history.items())[:-1]
    assert len(set(ids(history.items()))) == 10


async def test_calls_their_outputs_and_reasoning_stay_in_the_history(store: ResponseStore) -> None:
    first = new_turn("weather?")
    await store.begin(first)
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "w", "arguments": '{"c": "é"}'}
    output = [Raw(msgspec.json.encode(item)) for item in (thought, call)]
    await store.finish(first.id, status="completed", body=first.body, output=output)
    result = Raw(msgspec.json.encode({"type": "function_call_output", "call_id": "call_1", "output": "sun"}))
    second = await complete(store, input=[result], previous_id=first.id)
    system = user("be brief", role="system")
    third = await complete(store, input=[system, user("and?")], previous_id=second)
    kinds = [msgspec.json.decode(item)["type"] for item in (await store.resolve(third)).items()]
    assert kinds == [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "message",
        "message",
        "message",
        "message",
    ]
    assert bytes((await store.resolve(third)).items()[2]) == bytes(output[1])


async def test_the_same_not_found_for_absent_foreign_deleted_and_expired(database: Database) -> None:
    mine, other = ResponseStore(database, "a"), ResponseStore(database, "b")
    short = ResponseStore(database, "a", Retention(days=1e-9))
    foreign = await complete(other)
    deleted = await complete(mine)
    await mine.delete(deleted)
    expired = await complete(short)
    await asyncio.sleep(0.01)
    cases = [new_id("resp"), foreign, deleted, expired, "", "x" * 300, "resp_\x00", "resp_ä", "resp_\ud800"]
    for name in cases:
        for call in (mine.retrieve, mine.delete, mine.cancel, mine.input_items):
            with pytest.raises(NotFound) as refused:
                await call(name)
            assert refused.value.message == f"Response with id '{name}' not found."
        for attempt in (mine.resolve(name), mine.begin(new_turn(previous_id=name))):
            with pytest.raises(InvalidRequest) as bad:
                await attempt
            assert (bad.value.param, bad.value.code) == ("previous_response_id", "previous_response_not_found")
            assert bad.value.message == f"Previous response with id '{name}' not found."
        assert await mine.status(name) is None
        assert (
            await EventLog(database, "a").read(name[:200].encode("ascii", "ignore").decode().replace("\x00", ""))
            is None
        )
    assert await mine.finish(foreign, status="failed", body=b"{}", output=[]) is False
    assert (await other.retrieve(foreign)).status == "completed"


async def test_no_call_crosses_tenants(database: Database) -> None:
    mine, other = ResponseStore(database, "a"), ResponseStore(database, "b")
    running = new_turn(background=True, status="queued")
    await mine.begin(running)
    done = await complete(mine, "secret", idempotency_key="k", request_hash=b"h")
    item = ids((await mine.resolve(done)).items())[0]
    assert await other.find_item(item) is None
    assert await mine.find_item(item) is not None
    assert not await other.start(running.id, running.body)
    assert not await other.finish(running.id, status="completed", body=running.body, output=[])
    assert not await other.fail(running.id, code="server_error", message="x")
    assert not await other.abandon(running.id)
    assert not await EventLog(database, "b").append(running.id, [LoggedEvent(0, b"{}")])
    assert await EventLog(database, "b").read(running.id) is None
    assert await EventLog(database, "b").last(running.id) == -1
    assert await mine.status(running.id) == "queued"
    # The same idempotency key is another tenant's own.
    theirs = new_turn("theirs", idempotency_key="k", request_hash=b"other")
    assert (await other.begin(theirs)).repeated is None
    conversation = await ConversationStore(database, "a").create([user("hi")])
    foreign = ConversationStore(database, "b")
    (item,) = ids(await ConversationStore(database, "a").items(conversation.id))
    for attempt in (
        foreign.retrieve(conversation.id),
        foreign.update(conversation.id, {}),
        foreign.delete(conversation.id),
        foreign.add(conversation.id, [user("x")]),
        foreign.items(conversation.id),
        foreign.page(conversation.id),
        foreign.item(conversation.id, item),
        foreign.delete_item(conversation.id, item),
    ):
        with pytest.raises(NotFound):
            await attempt


@pytest.mark.parametrize("status", ["queued", "in_progress", "failed", "cancelled"])
async def test_only_a_response_with_an_end_is_continued(store: ResponseStore, status: Any) -> None:
    turn = new_turn(background=True, status="queued" if status == "queued" else "in_progress")
    await store.begin(turn)
    if status in ("failed", "cancelled"):
        await store.finish(turn.id, status=status, body=turn.body, output=[])
    for attempt in (store.resolve(turn.id), store.begin(new_turn(previous_id=turn.id))):
        with pytest.raises(InvalidRequest, match=status):
            await attempt


async def test_a_turn_ends_once(store: ResponseStore) -> None:
    turn = new_turn()
    await store.begin(turn)
    first, second = await asyncio.gather(
        store.finish(turn.id, status="completed", body=turn.body, output=[answer(turn.id, "one")]),
        store.fail(turn.id, code="server_error", message="two"),
    )
    assert [first, second].count(True) == 1
    reply = msgspec.json.decode((await store.retrieve(turn.id)).body)
    assert bool(reply["output"]) == first
    assert bool(reply.get("error")) == second


async def test_cancelled_stays_cancelled(store: ResponseStore) -> None:
    turn = new_turn(background=True)
    await store.begin(turn)
    cancelled = await store.cancel(turn.id)
    assert cancelled.status == msgspec.json.decode(cancelled.body)["status"] == "cancelled"
    assert not await store.finish(turn.id, status="completed", body=turn.body, output=[answer(turn.id, "late")])
    assert await store.cancel(turn.id) == await store.retrieve(turn.id) == cancelled


async def test_cancel_answers_an_ended_background_response_and_refuses_a_foreground_one(store: ResponseStore) -> None:
    done = await complete(store, background=True)
    assert (await store.cancel(done)).status == "completed"
    for name in (await complete(store), new_turn().id):
        with pytest.raises((InvalidRequest, NotFound)):
            await store.cancel(name)
    running = new_turn()
    await store.begin(running)
    with pytest.raises(InvalidRequest, match="Cannot cancel a synchronous response"):
        await store.cancel(running.id)


async def test_queued_starts_once_and_not_after_cancelling(store: ResponseStore) -> None:
    turn = new_turn(background=True, status="queued")
    await store.begin(turn)
    starts = await asyncio.gather(*[store.start(turn.id, turn.body) for _ in range(4)])
    assert starts.count(True) == 1
    other = new_turn(background=True, status="queued")
    await store.begin(other)
    await store.cancel(other.id)
    assert not await store.start(other.id, other.body)


async def test_a_key_used_again_gives_the_stored_answer_or_a_conflict(store: ResponseStore) -> None:
    done = await complete(store, "once", idempotency_key="k", request_hash=b"1")
    begun = await store.begin(new_turn("once", idempotency_key="k", request_hash=b"1"))
    assert begun.repeated == await store.retrieve(done)
    with pytest.raises(Conflict):
        await store.begin(new_turn("other", idempotency_key="k", request_hash=b"2"))


async def test_one_of_many_requests_with_a_key_begins(store: ResponseStore) -> None:
    turns = [new_turn(idempotency_key="k", request_hash=b"1") for _ in range(8)]
    begun = await asyncio.gather(*[store.begin(turn) for turn in turns])
    assert [one.repeated is None for one in begun].count(True) == 1
    (first,) = {one.repeated.id for one in begun if one.repeated is not None}
    assert first == next(turn.id for turn, one in zip(turns, begun, strict=True) if one.repeated is None)


async def test_a_key_is_free_again_after_a_failure_and_after_its_answer_expired(database: Database) -> None:
    store = ResponseStore(database, "a", Retention(days=1e-9))
    for status in ("failed", "cancelled", "completed"):
        turn = new_turn(idempotency_key="k", request_hash=b"1")
        assert (await store.begin(turn)).repeated is None
        await store.finish(turn.id, status=status, body=turn.body, output=[])
        await asyncio.sleep(0.01)
    keep = ResponseStore(database, "a")
    assert (await keep.begin(new_turn(idempotency_key="k", request_hash=b"2"))).repeated is None


async def test_two_continuations_of_one_head_are_two_branches(database: Database) -> None:
    store = ResponseStore(database, "a")
    root = await complete(store, "root")
    names = [f"branch {number}" for number in range(6)]
    heads = await asyncio.gather(*[complete(store, name, previous_id=root) for name in names])
    for name, head in zip(names, heads, strict=True):
        assert texts((await store.resolve(head)).items()) == ["root", "re: root", name, f"re: {name}"]


async def test_a_deleted_middle_turn_is_not_found_and_never_left_out(store: ResponseStore) -> None:
    first = await complete(store, "1")
    second = await complete(store, "2", previous_id=first)
    third = await complete(store, "3", previous_id=second)
    await store.delete(second)
    with pytest.raises(InvalidRequest):
        await store.resolve(third)
    with pytest.raises(NotFound):
        await store.input_items(third)
    assert texts((await store.resolve(first)).items()) == ["1", "re: 1"]
    assert (await store.retrieve(third)).status == "completed"
    with pytest.raises(NotFound):
        await store.delete(second)


async def test_a_run_whose_response_was_deleted_ends_without_a_trace(store: ResponseStore) -> None:
    turn = new_turn()
    await store.begin(turn)
    await store.delete(turn.id)
    assert not await store.finish(turn.id, status="completed", body=turn.body, output=[])
    with pytest.raises(NotFound):
        await store.retrieve(turn.id)


async def test_input_items_come_in_pages_of_unique_ids(store: ResponseStore) -> None:
    repeated = user("again", id="msg_same")
    first = await complete(store, input=[repeated, user("plain"), repeated])
    head = await complete(store, input=[repeated, user("last")], previous_id=first)
    whole = await store.input_items(head, limit=100, order="asc")
    names = ids(whole.data)
    assert texts(whole.data) == ["again", "plain", "again", "re: hello", "again", "last"]
    assert len(set(names)) == len(names) == 6
    assert all(msgspec.json.decode(item)["content"][0]["type"] in ("input_text", "output_text") for item in whole.data)
    walked: list[str] = []
    after = None
    while True:
        page = await store.input_items(head, after=after, limit=2)
        walked += ids(page.data)
        assert page.first_id == walked[-len(page.data)]
        assert page.last_id == walked[-1]
        if not page.has_more:
            break
        after = page.last_id
    assert walked == names[::-1]
    for wrong in ({"after": "msg_none"}, {"limit": 0}, {"limit": 101}):
        with pytest.raises(InvalidRequest):
            await store.input_items(head, **wrong)


async def test_items_are_found_by_their_own_ids(store: ResponseStore) -> None:
    first = await complete(store, "one")
    second = await complete(store, "two", previous_id=first)
    for item in (await store.resolve(second)).items():
        found = await store.find_item(msgspec.json.decode(item)["id"])
        assert found is not None
        assert bytes(found) == bytes(item)
    assert await store.find_item("msg_" + "0" * 48) is None
    assert await store.find_item("rs_123") is None
    await store.delete(second)
    assert await store.find_item(ids([answer(second, "x")])[0]) is None


async def test_ends_without_a_result_say_why(store: ResponseStore) -> None:
    turn = new_turn()
    await store.begin(turn)
    assert await store.fail(turn.id, code="server_error", message="the engine broke")
    reply = msgspec.json.decode((await store.retrieve(turn.id)).body)
    assert reply["status"] == "failed"
    assert reply["error"] == {"code": "server_error", "message": "the engine broke"}
    other = new_turn()
    await store.begin(other)
    assert await store.abandon(other.id)
    assert (await store.retrieve(other.id)).status == "cancelled"
