"""previous_response_id, conversation and item_reference become items; compaction shortens and opens again."""

from base64 import urlsafe_b64decode
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from app.errors import InvalidRequest, NotFound
from app.protocol.ids import new_id
from app.runs.compact import compacted, opened, to_summarise
from app.runs.history import ResolvedInput, as_dicts, check_outputs, conversation_id_of, resolve_input
from app.runs.sealed import Seal
from app.store.conversations import ConversationStore
from app.store.database import Database
from app.store.store import ResponseStore

from .turns import complete, ids, texts, user


class Caller:
    def __init__(self, database: Database, tenant: str = "a") -> None:
        self.store = ResponseStore(database, tenant)
        self.conversations = ConversationStore(database, tenant)

    async def resolve(self, given: Any, **fields: Any) -> ResolvedInput:
        return await resolve_input(
            msgspec.json.encode(given),
            response_id=new_id("resp"),
            store=self.store,
            conversations=self.conversations,
            **fields,
        )


@pytest.fixture
def caller(database: Database) -> Caller:
    return Caller(database)


pytestmark = pytest.mark.anyio


async def test_history_and_input_stay_apart(caller: Caller) -> None:
    head = await complete(caller.store, "two", previous_id=await complete(caller.store, "one"))
    found = await caller.resolve("three", previous_response_id=head)
    assert texts(found.history) == ["one", "re: one", "two", "re: two"]
    assert texts(found.input) == ["three"]
    assert (found.model, found.exact) == ("demo", None)
    assert as_dicts(found.history)[0]["role"] == "user"
    made = await caller.conversations.create([user("hi")])
    found = await caller.resolve([{"role": "user", "content": "x"}], conversation=made.id)
    assert (texts(found.history), texts(found.input)) == (["hi"], ["x"])
    assert (await caller.resolve("x")).history == []


async def test_the_store_decides_what_is_found(database: Database, caller: Caller) -> None:
    other = Caller(database, "b")
    head = await complete(other.store)
    made = await other.conversations.create()
    with pytest.raises(InvalidRequest) as refused:
        await caller.resolve("x", previous_response_id=head)
    assert refused.value.code == "previous_response_not_found"
    with pytest.raises(NotFound):
        await caller.resolve("x", conversation=made.id)
    with pytest.raises(InvalidRequest, match="exclude"):
        await other.resolve("x", previous_response_id=head, conversation=made.id)
    assert conversation_id_of({"id": made.id}) == conversation_id_of(made.id) == made.id
    assert conversation_id_of(None) is None
    with pytest.raises(InvalidRequest):
        conversation_id_of({})


@pytest.mark.parametrize("given", [3, {}, ["text"], [{"type": 7}], None])
async def test_malformed_input_is_refused_by_its_place(caller: Caller, given: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await caller.resolve(given)
    assert (refused.value.param or "").startswith("input")


async def test_references_stand_for_stored_items(database: Database, caller: Caller) -> None:
    head = await complete(caller.store, "one")
    (asked, answered) = ids((await caller.store.resolve(head)).items())
    for reference in ({"type": "item_reference", "id": answered}, {"id": answered}):
        found = await caller.resolve([reference, {"role": "user", "content": "and?"}])
        assert texts(found.input) == ["re: one", "and?"]
        assert ids(found.input)[0] == answered
    again = await caller.resolve(
        [{"id": asked}, {"id": answered}, {"role": "user", "content": "and?"}], previous_response_id=head
    )
    assert texts(again.input) == ["and?"]
    for unknown in (Caller(database, "b"), caller):
        with pytest.raises(NotFound, match="not found"):
            await unknown.resolve([{"type": "item_reference", "id": answered if unknown is not caller else "rs_1"}])


async def test_a_client_that_sends_its_copy_along_does_not_double_the_context(caller: Caller) -> None:
    """lmstudio#2074: history that comes twice."""
    head = await complete(caller.store, "one")
    copy = as_dicts((await caller.store.resolve(head)).items())
    found = await caller.resolve([*copy, {"role": "user", "content": "two"}], previous_response_id=head)
    assert texts(found.input) == ["two"]
    mine = {"role": "user", "content": "same", "id": "mine"}
    second = await complete(caller.store, input=[Raw(msgspec.json.encode(mine))])
    assert texts((await caller.resolve([mine], previous_response_id=second)).input) == ["same"]


def call(kind: str, **fields: Any) -> Raw:
    return Raw(msgspec.json.encode({"type": kind, "call_id": "call_1", **fields}))


async def test_an_output_needs_its_call_before_it() -> None:
    asked, answered = call("function_call", name="f", arguments="{}"), call("function_call_output", output="1")
    check_outputs([user("x"), asked, answered, user("y")], [])
    check_outputs([answered], [user("x"), asked])
    check_outputs([call("custom_tool_call", name="f", input=""), call("custom_tool_call_output", output="")], [])
    check_outputs([asked, user("never mind")], [])
    check_outputs([user("x")], [answered])  # what was taken once stays
    check_outputs([answered], [Raw(b'{"type":"compaction","encrypted_content":"x"}')])
    for broken, history, place in (([answered], [user("x")], 0), ([user("x"), answered, asked], [], 1)):
        with pytest.raises(InvalidRequest, match="No tool call") as refused:
            check_outputs(broken, history)
        assert refused.value.param == f"input[{place}]"


@pytest.mark.parametrize("encrypts", [True, False])
async def test_a_compaction_opens_for_its_tenant_only(encrypts: bool) -> None:
    seal, other, rotated = Seal(["new"]), Seal(["other"]), Seal(["newer", "new"])
    if encrypts and not seal.encrypts:
        pytest.skip("needs the package cryptography")
    for one in (seal, other):
        one.encrypts = encrypts
    items = [user("one"), user("sys", role="system"), call("function_call", name="f"), user("two")]
    short = compacted(items, "Sümmary.", compaction_id="resp_1", tenant="a", seal=seal)
    assert texts(short[:-1]) == ["one", "two"]
    last = msgspec.json.decode(short[-1])
    assert last["type"] == "compaction"
    assert last["id"].startswith("cmp_")
    assert ("mary." in urlsafe_b64decode(last["encrypted_content"]).decode("latin1")) != encrypts
    for opener in (seal, rotated):
        assert texts(opened([*short, user("three")], tenant="a", seal=opener))[2].endswith("Sümmary.")
    token = last["encrypted_content"]
    changed = token[:-6] + ("A" if token[-6] != "A" else "B") + token[-5:]
    for tenant, opener, content in (
        ("b", seal, token),
        ("a", other, token),
        ("a", seal, changed),
        ("a", seal, "x"),
        ("a", seal, 3),
    ):
        item = Raw(msgspec.json.encode({**last, "encrypted_content": content}))
        with pytest.raises(InvalidRequest) as refused:
            opened([item], tenant=tenant, seal=opener)
        assert refused.value.param == "input[0].encrypted_content"
    again = compacted([*short, user("three")], "All.", compaction_id="resp_2", tenant="a", seal=seal)
    assert texts(again[:-1]) == ["one", "two", "three"]
    assert len(to_summarise(items)) == len(items) + 1
    with pytest.raises(InvalidRequest):
        to_summarise([])
