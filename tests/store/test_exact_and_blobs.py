"""Large media leave their items and come back byte for byte; exact ids follow the chain."""

import base64
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from sqlalchemy import func, select

from app.errors import InvalidRequest, NotFound
from app.store import blobs
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.exact import ExactIds
from app.store.retention import Retention, sweep
from app.store.store import ResponseStore
from app.store.tables import blobs as blob_table
from app.store.tables import turns

from .turns import complete, new_turn, user, value

MARK = "isthmus:blob:"


def image(size: int = 100_000) -> str:
    return "data:image/png;base64," + base64.b64encode(os.urandom(size)).decode()


def picture(url: str) -> Raw:
    content = [{"type": "input_text", "text": f'see "{MARK}{"0" * 64}"'}, {"type": "input_image", "image_url": url}]
    return Raw(msgspec.json.encode({"type": "message", "role": "user", "content": content, "id": "msg_p"}))


words = st.one_of(
    st.text(max_size=30),
    st.sampled_from([MARK, MARK + "0" * 64, f'"{MARK}{"a" * 64}"', "\\" + MARK, "data:x", "\\\\"]),
    st.integers(blobs.LARGE - 5, blobs.LARGE + 200).map(lambda size: "data:" + "A" * size),
    st.integers(blobs.LARGE - 5, blobs.LARGE + 200).map(lambda size: "B/+=" * (size // 4 + 1)),
    st.integers(blobs.LARGE, blobs.LARGE + 50).map(lambda size: "plain text " * (size // 10)),
)
values = st.recursive(
    st.one_of(words, st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**60), 2**60)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


@given(st.lists(values, max_size=3), st.booleans())
def test_items_come_back_byte_for_byte(items: list[Any], spaced: bool) -> None:
    raws = [Raw(msgspec.json.format(msgspec.json.encode(item), indent=2 if spaced else 0)) for item in items]
    stored, taken = blobs.take_out(raws)
    for before, after in zip(raws, stored, strict=True):
        assert blobs.references(bytes(after)) <= set(taken)
        assert blobs.put_back(bytes(after), taken) == bytes(before)
        msgspec.json.decode(after)


@given(st.sampled_from(["data:", "", "data:image/png;base64,"]), st.sampled_from(["A", "/", "\\/"]))
def test_large_media_leave_and_small_ones_stay(head: str, letter: str) -> None:
    def item(size: int) -> Raw:
        return Raw(('{"image_url":"' + head + letter * size + '"}').encode())

    assert len(bytes(blobs.take_out([item(blobs.LARGE + 1)])[0][0])) < 200
    assert blobs.take_out([item(100)]) == ([item(100)], {})
    article = Raw(msgspec.json.encode({"text": "a long, plain text. " * 5000}))
    assert blobs.take_out([article]) == ([article], {})


@pytest.mark.anyio
async def test_media_are_stored_once_a_tenant_and_restored_in_every_reading(database: Database) -> None:
    url = image()
    stores = [ResponseStore(database, tenant) for tenant in ("a", "b")]
    heads = []
    for store in stores:
        first = await complete(store, input=[picture(url), picture(url)])
        heads.append(await complete(store, input=[picture(url)], previous_id=first, output=[picture(url)]))
    assert await value(database, select(func.count()).select_from(blob_table)) == 2
    largest = await value(database, select(func.max(func.length(turns.c.input))))
    assert largest is not None
    assert largest < 1000
    for store, head in zip(stores, heads, strict=True):
        history = (await store.resolve(head)).items()
        assert [url in bytes(item).decode() for item in history] == [True, True, False, True, True]
        assert url in (await store.retrieve(head)).body.decode()
        assert any(url in bytes(item).decode() for item in (await store.input_items(head)).data)
    found = await stores[0].find_item("msg_p")
    assert found is None  # an id that is not ours cannot be looked up


@pytest.mark.anyio
async def test_a_blob_goes_with_its_last_user(database: Database) -> None:
    store, conversations = ResponseStore(database, "a"), ConversationStore(database, "a")
    short = ResponseStore(database, "a", Retention(days=1e-9))
    url = image()

    async def count() -> int:
        return int(await value(database, select(func.count()).select_from(blob_table)))

    conversation = await conversations.create([picture(url)])
    first, second = [await complete(store, input=[picture(url)]) for _ in range(2)]
    await complete(short, input=[picture(url)])
    await store.delete(first)
    assert await count() == 1
    assert (await sweep(database)).blobs == 0
    await store.delete(second)
    assert url in bytes((await conversations.items(conversation.id))[0]).decode()
    await conversations.delete(conversation.id)
    assert await count() == 0


@pytest.mark.anyio
async def test_a_chain_whose_blob_is_gone_is_not_found(database: Database) -> None:
    store = ResponseStore(database, "a")
    head = await complete(store, input=[picture(image())])
    for table in (blobs.blob_uses, blob_table):
        await database.write(lambda connection, table=table: connection.execute(table.delete()))
    with pytest.raises(InvalidRequest):
        await store.resolve(head)
    with pytest.raises(NotFound):
        await store.input_items(head)


@pytest.mark.anyio
async def test_exact_ids_follow_the_chain_through_forks(database: Database) -> None:
    store = ResponseStore(database, "a")
    root = await complete(store, exact=ExactIds([1, 2, 3], [4, 5]))
    left = await complete(store, previous_id=root, exact=ExactIds([1, 2, 3, 4, 5, 6], [7]))
    right = await complete(store, previous_id=root, exact=ExactIds([1, 2, 9], [8]))
    bare = await complete(store, previous_id=left)
    after = await complete(store, previous_id=bare, exact=ExactIds([1, 2, 3, 4, 5, 6, 7], [1]))
    expected = {root: ([1, 2, 3], [4, 5]), left: ([1, 2, 3, 4, 5, 6], [7]), right: ([1, 2, 9], [8]), bare: None}
    expected[after] = ([1, 2, 3, 4, 5, 6, 7], [1])
    for name, ids in expected.items():
        found = (await store.resolve(name, with_ids=True)).exact
        assert (None if found is None else (list(found.prompt), list(found.completion))) == ids
        assert (await store.resolve(name)).exact is None


@pytest.mark.anyio
async def test_ids_of_a_user_are_no_ids_of_ours(database: Database) -> None:
    """Items keep a caller's id, and only what lacks one gets one."""
    turn = new_turn(input=[user("a", id="mine"), user("b")])
    store = ResponseStore(database, "a")
    await store.begin(turn)
    assert msgspec.json.decode(turn.input[0])["id"] == "mine"
    assert msgspec.json.decode(turn.input[1])["id"].startswith("msg_" + turn.id[5:37])
