"""Conversations: items in order, appended with the turn that wrote them, paged, deleted."""

import asyncio

import msgspec
import pytest

from app.errors import InvalidRequest, NotFound
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.retention import Retention, sweep
from app.store.store import ResponseStore

from .turns import complete, ids, new_turn, texts, user

pytestmark = pytest.mark.anyio


@pytest.fixture
def conversations(database: Database) -> ConversationStore:
    return ConversationStore(database, "a")


async def test_a_conversation_is_what_was_put_in(conversations: ConversationStore) -> None:
    made = await conversations.create([user("one")], {"topic": "x"})
    assert made == await conversations.retrieve(made.id)
    assert (made.object, made.metadata) == ("conversation", {"topic": "x"})
    added = await conversations.add(made.id, [user("two"), user("three")])
    assert texts(added.data) == ["two", "three"]
    assert (added.first_id, added.last_id, added.has_more) == (*ids(added.data), False)
    assert texts(await conversations.items(made.id)) == ["one", "two", "three"]
    assert (await conversations.update(made.id, {"topic": "y"})).metadata == {"topic": "y"}
    item = await conversations.item(made.id, ids(added.data)[0])
    assert msgspec.json.decode(item)["content"] == [{"type": "input_text", "text": "two"}]
    assert await conversations.delete_item(made.id, ids(added.data)[0]) == await conversations.retrieve(made.id)
    assert texts(await conversations.items(made.id)) == ["one", "three"]
    await conversations.add(made.id, [user("four")])
    assert texts(await conversations.items(made.id)) == ["one", "three", "four"]
    await conversations.delete(made.id)
    for attempt in (
        conversations.retrieve(made.id),
        conversations.items(made.id),
        conversations.delete(made.id),
        conversations.item(made.id, ids(added.data)[1]),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_pages_end_and_meet(conversations: ConversationStore) -> None:
    made = await conversations.create([user(str(number)) for number in range(20)])
    for start in (20, 30):
        await conversations.add(made.id, [user(str(number)) for number in range(start, start + 10)])
    for order in ("asc", "desc"):
        seen: list[str] = []
        after = None
        while True:
            page = await conversations.page(made.id, after=after, limit=7, order=order)
            seen += texts(page.data)
            if not page.has_more:
                break
            after = page.last_id
        expected = [str(number) for number in range(40)]
        assert seen == (expected if order == "asc" else expected[::-1])


async def test_what_is_too_much_or_malformed_is_refused(conversations: ConversationStore) -> None:
    made = await conversations.create()
    named = await conversations.add(made.id, [user("x", id="msg_1")])
    assert ids(named.data) == ["msg_1"]
    for attempt in (
        conversations.create([user("x")] * 21),
        conversations.add(made.id, [user("x")] * 21),
        conversations.add(made.id, [user("again", id="msg_1")]),
        conversations.add(made.id, [msgspec.Raw(b'"text"')]),
        conversations.add(made.id, [msgspec.Raw(b'{"type": 3}')]),
        conversations.create([], {str(number): "" for number in range(17)}),
        conversations.create([], {"k" * 65: ""}),
        conversations.create([], {"k": "v" * 513}),
        conversations.page(made.id, limit=0),
        conversations.page(made.id, after="msg_none"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await attempt
        assert refused.value.param
    assert texts(await conversations.items(made.id)) == ["x"]


async def test_a_turn_is_appended_when_it_completes_and_not_before(database: Database) -> None:
    store, conversations = ResponseStore(database, "a"), ConversationStore(database, "a")
    made = await conversations.create([user("hi")])
    turn = new_turn("question", conversation_id=made.id)
    await store.begin(turn)
    assert texts(await conversations.items(made.id)) == ["hi"]
    await store.finish(turn.id, status="failed", body=turn.body, output=[])
    assert texts(await conversations.items(made.id)) == ["hi"]
    await complete(store, "question", conversation_id=made.id)
    await complete(store, "cut", conversation_id=made.id, status="incomplete")
    assert texts(await conversations.items(made.id)) == ["hi", "question", "re: question", "cut", "re: cut"]
    # An item that comes again keeps the conversation's ids unique.
    again = (await conversations.items(made.id))[1]
    await complete(store, input=[again], conversation_id=made.id)
    names = ids(await conversations.items(made.id))
    assert len(names) == len(set(names)) == 7
    await conversations.delete(made.id)
    late = await complete(store, "late", conversation_id=made.id)
    assert (await store.retrieve(late)).status == "completed"


async def test_turns_at_one_time_are_appended_whole_one_after_the_other(database: Database) -> None:
    store, conversations = ResponseStore(database, "a"), ConversationStore(database, "a")
    made = await conversations.create()
    await asyncio.gather(*[complete(store, str(number), conversation_id=made.id) for number in range(6)])
    words = texts(await conversations.items(made.id))
    assert sorted(words[0::2]) == [str(number) for number in range(6)]
    assert words[1::2] == [f"re: {word}" for word in words[0::2]]


async def test_a_conversation_outlives_the_responses_that_wrote_it(database: Database) -> None:
    short, conversations = ResponseStore(database, "a", Retention(days=1e-9)), ConversationStore(database, "a")
    made = await conversations.create()
    await complete(short, "kept", conversation_id=made.id)
    await asyncio.sleep(0.01)
    assert (await sweep(database)).threads == 1
    assert texts(await conversations.items(made.id)) == ["kept", "re: kept"]
