"""What open servers get wrong with state (the reference's list, its rows that are the store's), each as a test."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from sqlalchemy import text

from app.errors import InvalidRequest, NotFound
from app.protocol.ids import new_id
from app.runs.history import resolve_input
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.retention import Retention, sweep
from app.store.store import ResponseStore

from .conftest import Place
from .turns import complete, ids, new_turn, texts, user, value

pytestmark = pytest.mark.anyio


def raw(**fields: Any) -> Raw:
    return Raw(msgspec.json.encode(fields))


async def test_stores_do_not_grow_without_bound(database: Database) -> None:
    """vllm#48275."""
    for tenant in ("a", "b"):
        await complete(ResponseStore(database, tenant, Retention(days=1e-9)))
    await sweep(database)
    assert await database.size_bytes() > 0
    assert await value(database, text("SELECT count(*) FROM turns")) == 0


async def test_instructions_do_not_leak_and_system_items_stay(database: Database) -> None:
    """vllm#37697 and its fix."""
    store = ResponseStore(database, "a")
    head = await complete(
        store, input=[user("keep me", role="system"), user("q")], extra={"instructions": "of this request only"}
    )
    history = (await store.resolve(head)).items()
    assert texts(history)[:2] == ["keep me", "q"]
    assert not any("of this request only" in bytes(item).decode() for item in history)
    assert msgspec.json.decode((await store.retrieve(head)).body)["instructions"] == "of this request only"


async def test_calls_and_outputs_are_in_the_stored_context(database: Database) -> None:
    """vllm#43244, ogx#2074: the third turn knows all that the first two said."""
    store = ResponseStore(database, "a")
    call = raw(type="function_call", id="fc_1", call_id="call_1", name="f", arguments="{}")
    first = await complete(store, "one", output=[call])
    second = await complete(
        store, input=[raw(type="function_call_output", call_id="call_1", output="42")], previous_id=first
    )
    found = await resolve_input(
        b'"three"',
        response_id=new_id("resp"),
        store=store,
        conversations=ConversationStore(database, "a"),
        previous_response_id=second,
    )
    kinds = [msgspec.json.decode(item)["type"] for item in [*found.history, *found.input]]
    assert kinds == ["message", "function_call", "function_call_output", "message", "message"]


async def test_context_grows_by_what_is_said_and_is_not_stored_resolved(database: Database) -> None:
    """lmstudio#2074: it doubled with each turn."""
    store = ResponseStore(database, "a")
    head, sizes = None, []
    for number in range(6):
        head = await complete(store, f"turn {number}", previous_id=head)
        sizes.append(len((await store.resolve(head)).items()))
    assert sizes == [2, 4, 6, 8, 10, 12]


async def test_a_chained_call_right_after_completed_finds_its_response(place: Place) -> None:
    """litellm#37956, and state per worker (sglang#10387): the next turn goes to another replica at once."""
    async with place.open() as one, place.open() as two:
        stores = [ResponseStore(one, "a"), ResponseStore(two, "a")]
        head = None
        for number in range(10):
            head = await complete(stores[number % 2], str(number), previous_id=head)
        assert texts((await stores[1].resolve(head)).items())[0::2] == [str(number) for number in range(10)]
        background = new_turn(background=True)
        await stores[0].begin(background)
        assert (await stores[1].cancel(background.id)).status == "cancelled"


async def test_what_was_stored_is_there_after_a_restart(place: Place) -> None:
    """ogx#4115, B70."""
    async with place.open() as database:
        head = await complete(ResponseStore(database, "a"), "kept")
    async with place.open() as database:
        store = ResponseStore(database, "a")
        assert texts((await store.resolve(head)).items()) == ["kept", "re: kept"]
        await complete(store, "more", previous_id=head)


async def test_cancelling(database: Database) -> None:
    """sglang#38002, ogx#5268, Azure 2339607: refused in the foreground, idempotent after the end, final."""
    store = ResponseStore(database, "a")
    running = new_turn(background=True)
    await store.begin(running)
    await store.cancel(running.id)
    await store.finish(running.id, status="completed", body=running.body, output=[])
    assert (await store.cancel(running.id)).status == "cancelled"
    assert (await store.cancel(await complete(store, background=True))).status == "completed"
    with pytest.raises(InvalidRequest, match="synchronous"):
        await store.cancel(await complete(store))


async def test_input_items_of_an_unknown_response_are_not_an_empty_list(database: Database) -> None:
    """TensorRT-LLM#10107."""
    with pytest.raises(NotFound):
        await ResponseStore(database, "a").input_items("resp_" + "0" * 48)


async def test_a_long_conversation_keeps_its_newest_items(database: Database) -> None:
    """smg: history was the first 100 items."""
    store, conversations = ResponseStore(database, "a"), ConversationStore(database, "a")
    made = await conversations.create()
    for start in range(0, 120, 20):
        await conversations.add(made.id, [user(str(number)) for number in range(start, start + 20)])
    await complete(store, "newest", conversation_id=made.id)
    found = await resolve_input(
        b'"next"', response_id=new_id("resp"), store=store, conversations=conversations, conversation=made.id
    )
    assert texts(found.history)[-2:] == ["newest", "re: newest"]
    assert len(found.history) == 122


async def test_ids_are_minted_once(database: Database) -> None:
    """vllm#38227: the id in the stream, in the reply and in every listing is one."""
    store = ResponseStore(database, "a")
    turn = new_turn("q")
    await store.begin(turn)
    head = await complete(store, "next", previous_id=await complete(store, "q"))
    for _ in range(2):
        listed = ids((await store.input_items(head, order="asc")).data)
        assert listed == ids((await store.resolve(head)).items())[:-1]
    assert all(name.startswith("msg_") and len(name) == 52 for name in listed)


async def test_readers_and_writers_do_not_lock_each_other_out(place: Place) -> None:
    """16 readers beside 8 writers, without "database is locked"."""
    async with place.open() as one, place.open() as two:
        root = await complete(ResponseStore(one, "a"), "root")

        async def write(number: int) -> None:
            store = ResponseStore((one, two)[number % 2], "a")
            head = root
            for turn in range(4):
                head = await complete(store, f"{number}.{turn}", previous_id=head)
            assert len((await store.resolve(head)).items()) == 10

        async def read(number: int) -> None:
            store = ResponseStore((one, two)[number % 2], "a")
            for _ in range(8):
                assert len((await store.resolve(root)).items()) == 2

        await asyncio.gather(*[write(number) for number in range(8)], *[read(number) for number in range(16)])
