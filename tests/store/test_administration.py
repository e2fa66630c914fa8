"""Export and import, doctor, statistics, the end of a tenant."""

import msgspec
import pytest
from sqlalchemy import Connection, text

from app.errors import InvalidRequest, NotFound
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.doctor import examine
from app.store.exact import ExactIds
from app.store.retention import sweep
from app.store.store import ResponseStore
from app.store.tenants import delete_tenant, stats
from app.store.transfer import export_lines, import_lines

from .conftest import Place, _empty
from .test_exact_and_blobs import image, picture
from .turns import complete, new_turn, texts, user

pytestmark = pytest.mark.anyio


async def fill(database: Database, tenant: str) -> str:
    store, conversations = ResponseStore(database, tenant), ConversationStore(database, tenant)
    made = await conversations.create([user("hi"), picture(image())], {"k": "v"})
    root = await complete(store, input=[picture(image())], exact=ExactIds([1, 2], [3]), conversation_id=made.id)
    await complete(store, "left", previous_id=root, idempotency_key="k", request_hash=b"\x00\xff")
    return await complete(store, "right", previous_id=root, background=True, exact=ExactIds([1, 2, 3, 4], [5]))


async def lines(database: Database, tenant: str | None = None) -> list[bytes]:
    return [line async for line in export_lines(database, tenant=tenant)]


async def test_what_is_exported_is_imported_and_exported_the_same(place: Place) -> None:
    async with place.open() as database:
        heads = {tenant: await fill(database, tenant) for tenant in ("a", "b")}
        await ResponseStore(database, "a").begin(new_turn("runs"))
        everything = await lines(database)
        before = {
            tenant: (await ResponseStore(database, tenant).resolve(head, with_ids=True))
            for tenant, head in heads.items()
        }
        only_a = await lines(database, "a")
    assert len(only_a) == (len(everything) - 1) / 2 + 1
    assert not any(b'"runs"' in line for line in everything)
    await _empty(place)
    async with place.open() as database:
        done = await import_lines(database, everything)
        assert (done.threads, done.responses, done.conversations, done.blobs) == (2, 6, 2, 4)
        assert sorted(await lines(database)) == sorted(everything)
        for tenant, head in heads.items():
            after = await ResponseStore(database, tenant).resolve(head, with_ids=True)
            assert after.exact is not None
            assert list(after.exact.prompt) == [1, 2, 3, 4]
            assert [bytes(item) for item in after.items()] == [bytes(item) for item in before[tenant].items()]
        again = await import_lines(database, everything)
        assert (again.threads, again.responses, again.conversations, again.blobs) == (0, 0, 0, 0)
        assert not [finding async for finding in examine(database, deep=True)]


async def test_a_thread_may_have_more_turns_than_a_statement_takes_values(place: Place) -> None:
    count = 33_000
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"

    def fill(connection: Connection) -> None:
        connection.execute(text("INSERT INTO threads VALUES ('thr_1', 'a', 0, NULL)"))
        for columns, values in (
            ("responses (id, tenant_id, thread_id, depth, model, status, background, created_at, body)",
             "'resp_' || i, 'a', 'thr_1', i, 'm', 'completed', false, 0, CAST('{}' AS BYTEA)"),
            ("turns (response_id, input, output)", "'resp_' || i, CAST('[]' AS BYTEA), CAST('[]' AS BYTEA)"),
        ):  # fmt: skip
            if place.is_sqlite:
                values = values.replace("BYTEA", "BLOB")
                connection.execute(text(f"INSERT INTO {columns} {numbers} SELECT {values} FROM n"))
            else:
                connection.execute(text(f"{numbers} INSERT INTO {columns} SELECT {values} FROM n"))

    async with place.open() as database:
        await database.write(fill)
        assert len(await lines(database)) == 2
        await database.write(lambda connection: connection.execute(text("UPDATE threads SET expires_at = 1")))
        assert (await sweep(database)).responses == count
        assert len(await lines(database)) == 1


@pytest.mark.parametrize("line", [b"{}", b"nonsense", b'{"type":"thread"}', b'{"type":"isthmus-store","revision":"9"}'])
async def test_other_lines_are_refused_by_their_number(database: Database, line: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await import_lines(database, [line])


async def test_the_doctor_finds_what_is_wrong(database: Database) -> None:
    store = ResponseStore(database, "a")
    root = await complete(store, "root")
    middle = await complete(store, "middle", previous_id=root)
    head = await complete(store, "head", previous_id=middle)
    lone, torn, alien = [await complete(store, word) for word in ("lone", "torn", "alien")]
    below = await complete(store, "below", previous_id=lone)
    stuck = new_turn(owner="nobody")
    await store.begin(stuck)
    assert {finding.kind async for finding in examine(database, deep=True)} == {"stuck"}

    def damage(connection: Connection) -> None:
        for statement, values in (
            ("DELETE FROM responses WHERE id = :id", {"id": middle}),
            ("UPDATE responses SET depth = 3 WHERE id = :id", {"id": lone}),
            ("UPDATE turns SET input = :broken WHERE response_id = :id", {"id": torn, "broken": b'[{"a":'}),
            ("UPDATE responses SET tenant_id = 'z' WHERE id = :id", {"id": alien}),
            ("DELETE FROM turns WHERE response_id = :id", {"id": root}),
            ("INSERT INTO blobs VALUES ('a', :key, :key)", {"key": b"\x01" * 32}),
            ("INSERT INTO threads VALUES ('thr_1', 'a', 0, NULL)", {}),
        ):
            connection.execute(text(statement), values)

    await database.write(damage)
    found = {(finding.kind, finding.id) async for finding in examine(database, deep=True)}
    assert found == {
        ("gap", head),
        ("broken_chain", below),
        ("no_root", lone),
        ("unreadable", torn),
        ("foreign_thread", alien),
        ("no_turn", root),
        ("unused_blob", "01" * 32),
        ("empty_thread", "thr_1"),
        ("stuck", stuck.id),
    }


async def test_a_tenant_is_counted_and_goes_without_a_trace(database: Database) -> None:
    heads = {tenant: await fill(database, tenant) for tenant in ("a", "b")}
    found = await stats(database)
    assert {one.tenant for one in found.tenants} == {"a", "b"}
    one = found.tenants[0]
    assert (one.threads, one.responses, one.conversations, one.conversation_items, one.blobs) == (1, 3, 1, 4, 2)
    assert found.statuses == {"completed": 6}
    assert found.revision == "0002"
    assert found.disk_bytes > 0
    done = await delete_tenant(database, "a")
    assert (done.threads, done.conversations, done.blobs) == (1, 1, 2)
    left = await stats(database)
    assert [one.tenant for one in left.tenants] == ["b"]
    with pytest.raises(NotFound):
        await ResponseStore(database, "a").retrieve(heads["a"])
    assert "right" in texts((await ResponseStore(database, "b").resolve(heads["b"])).items()[-2:-1])
    assert not any(b'"tenant":"a"' in line for line in await lines(database))
    assert msgspec.json.encode(left)
