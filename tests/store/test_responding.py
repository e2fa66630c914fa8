"""A Responses request from its body to its stored turn, on a real tokenizer and template and a scripted engine."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from msgspec import structs
from sqlalchemy import func, select

from app.errors import EngineFailure, InvalidRequest, NotFound, Unsupported
from app.models import ServedModel
from app.protocol.responses import ResponsesRequest
from app.runs.background import replay
from app.runs.compact import PROMPT, compacted
from app.runs.respond import Prepared, prepare, render, stream
from app.runs.sealed import Seal
from app.runs.state import State
from app.runs.stored import settle
from app.runs.summarise import compact
from app.store.database import Database
from app.store.items import as_list
from app.store.retention import Retention
from app.store.tables import metadata, turns
from app.store.turn import StoredResponse
from tests.engines.scripted import Script, ScriptedEngine

from .test_runs import check_stream, collect
from .turns import texts, user, value

pytestmark = pytest.mark.anyio

END = "<|im_end|>"


class Server:
    """One model with an engine that says what it is told to, before one store."""

    def __init__(self, model: ServedModel, state: State | None) -> None:
        self.model = model
        self.state = state

    def says(self, *answers: str | list[int], **fields: Any) -> ScriptedEngine:
        scripts = [
            Script(self.spoken(answer) if isinstance(answer, str) else answer, per_chunk=2, **fields)
            for answer in answers
        ]
        engine = ScriptedEngine(*scripts)
        self.model = structs.replace(self.model, engine=engine)
        return engine

    def spoken(self, text: str) -> list[int]:
        """An answer; one that does not say what was thought before it was not thought about."""
        return self.ids(text if text.startswith("<think>") else f"<think>\n\n</think>\n\n{text}")

    def ids(self, text: str) -> list[int]:
        return self.model.tokenizer.encode(text).ids

    async def prepare(self, *, tenant: str = "a", key: str | None = None, **fields: Any) -> Prepared | StoredResponse:
        request = msgspec.convert({"model": "qwen3", **fields}, ResponsesRequest)
        return await prepare(
            request, model=self.model, state=self.state, tenant=tenant, idempotency_key=key, request_hash=b"1"
        )

    async def answer(self, **fields: Any) -> dict[str, Any]:
        prepared = await self.prepare(**fields)
        assert isinstance(prepared, Prepared)
        events = await collect(stream(prepared))
        return check_stream(events, events[-1].type.removeprefix("response."))


@pytest.fixture
async def server(database: Database, served_model: Callable[..., ServedModel]) -> AsyncIterator[Server]:
    state = State(database, "0002", Retention(), Seal(["key"]))
    await state.background.start()
    yield Server(served_model("qwen3"), state)
    await state.background.stop()


async def test_turns_are_rendered_as_one_conversation(server: Server) -> None:
    engine = server.says(f"One.{END}", f"Two.{END}", f"Three.{END}")
    reply = await server.answer(input="1?", instructions="Count.")
    reply = await server.answer(input="2?", previous_response_id=reply["id"])
    reply = await server.answer(input="3?", previous_response_id=reply["id"])
    prompt = server.model.tokenizer.decode(engine.requests[-1].token_ids)
    expected = [
        *(f"<|im_start|>user\n{n}?{END}\n<|im_start|>assistant" for n in (1, 2, 3)),
    ]
    places = [prompt.index(part) for part in expected]
    assert places == sorted(places)
    assert prompt.index("One.") < prompt.index("2?") < prompt.index("Two.") < prompt.index("3?")
    assert "Count." not in prompt
    assert server.state is not None
    stored = await server.state.responses("a").retrieve(reply["id"])
    assert msgspec.json.decode(stored.body) == reply


async def test_the_models_own_ids_are_kept_where_its_words_come_again(server: Server) -> None:
    """The model spelled "Hello" letter by letter; tokenised anew it would be one token."""
    spelled = [token for letter in "Hello" for token in server.ids(letter)] + server.ids(END)
    engine = server.says(spelled, f"Yes.{END}")
    server.model = structs.replace(server.model, reasoning_format=None)
    first = await server.answer(input="Say hello.", chat_template_kwargs={"enable_thinking": True})
    second = await server.answer(input="Again?", previous_response_id=first["id"])
    one, two = (request.token_ids for request in engine.requests)
    assert two[: len(one) + len(spelled)] == [*one, *spelled]
    assert second["usage"]["input_tokens_details"]["reused_tokens"] == len(one) + len(spelled)
    assert len(server.ids("Hello")) < 5
    assert "reused_tokens" not in first["usage"]["input_tokens_details"]
    request = msgspec.convert(
        {"model": "qwen3", "input": "Again?", "previous_response_id": first["id"]}, ResponsesRequest
    )
    plain = await render(
        request, model=server.model, state=server.state, tenant="a", response_id="resp_x", token_exact=False
    )
    decode = server.model.tokenizer.decode
    assert plain.reused == 0
    assert decode(plain.prompt.token_ids) == decode(two)
    assert plain.prompt.token_ids != two


async def test_a_conversation_goes_on_from_the_models_own_ids_and_keeps_them_once(server: Server) -> None:
    spelled = [token for letter in "Hello" for token in server.ids(letter)] + server.ids(END)
    engine = server.says(spelled)
    server.model = structs.replace(server.model, reasoning_format=None)
    assert server.state is not None
    talk = (await server.state.conversations("a").create()).id
    kwargs = {"enable_thinking": True}
    first = await server.answer(input="Say hello.", conversation=talk, chat_template_kwargs=kwargs)
    second = await server.answer(input="Again?", conversation=talk)
    one, two = (request.token_ids for request in engine.requests)
    assert two[: len(one) + len(spelled)] == [*one, *spelled]
    assert second["usage"]["input_tokens_details"]["reused_tokens"] == len(one) + len(spelled)
    await server.state.conversations("a").add(talk, as_list(b'[{"role":"user","content":"by hand"}]'))
    await server.answer(input="And?", conversation=talk)
    assert engine.requests[-1].token_ids[: len(two)] == two
    kept = await value(
        server.state.database, select(func.count()).select_from(turns).where(turns.c.prompt_ids.is_not(None))
    )
    assert kept == 1
    # Who goes on from an older turn of it is served too, from a plain render.
    after = await server.answer(input="Then?", previous_response_id=first["id"])
    assert "reused_tokens" not in after["usage"]["input_tokens_details"]


async def test_a_template_that_drops_thinking_is_rendered_plainly(server: Server) -> None:
    engine = server.says(f"<think>\nhm\n</think>\n\nYes.{END}", f"No.{END}")
    first = await server.answer(input="a")
    second = await server.answer(input="b", previous_response_id=first["id"])
    assert "hm" not in server.model.tokenizer.decode(engine.requests[-1].token_ids)
    assert "reused_tokens" not in second["usage"]["input_tokens_details"]


async def test_store_false_writes_nothing_and_cannot_be_used(server: Server) -> None:
    """B69."""
    assert server.state is not None

    async def rows() -> dict[str, int]:
        return {
            name: await value(server.state.database, select(func.count()).select_from(table))
            for name, table in metadata.tables.items()
            if name != "leases"
        }

    server.says(f"Hi.{END}")
    reply = await server.answer(input="secret", store=False)
    assert reply["store"] is False
    assert set((await rows()).values()) == {0}
    with pytest.raises(NotFound):
        await server.state.responses("a").retrieve(reply["id"])
    with pytest.raises(InvalidRequest):
        await server.answer(input="x", previous_response_id=reply["id"])
    with pytest.raises(NotFound):
        await server.answer(input=[{"type": "item_reference", "id": reply["output"][0]["id"]}])
    kept = await server.answer(input="kept")
    before = await rows()
    await server.answer(input="not kept", store=False, previous_response_id=kept["id"])
    assert await rows() == before


async def test_without_a_store_what_needs_one_is_refused(server: Server) -> None:
    server.says(f"Hi.{END}")
    server.state = None
    assert (await server.answer(input="hi"))["status"] == "completed"
    for fields in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"background": True}):
        with pytest.raises(Unsupported) as refused:
            await server.prepare(input="hi", **fields)
        assert refused.value.param in fields


async def test_every_tenant_has_its_own_cache_salt(server: Server) -> None:
    engine = server.says(f"Hi.{END}")
    for fields in ({}, {}, {"cache_salt": "x"}, {"tenant": "b"}, {"tenant": "b", "cache_salt": "x"}, {"tenant": ""}):
        await server.answer(input="hi", **fields)
    salts = [request.cache_salt for request in engine.requests]
    assert salts[0] == salts[1]
    assert len(set(salts[1:])) == 5
    assert salts[-1] is None


async def test_tools_reasoning_and_items_come_back_by_reference(server: Server) -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    engine = server.says(f"<think>\nhm\n</think>\n\n{call}{END}", f"Done.{END}", f"Done.{END}")
    first = await server.answer(input="go", tools=tools)
    reasoning, called = first["output"]
    assert (reasoning["type"], called["type"]) == ("reasoning", "function_call")
    output = {"type": "function_call_output", "call_id": called["call_id"], "output": "42"}
    await server.answer(input=[output], tools=tools, previous_response_id=first["id"])
    chained = engine.requests[-1].token_ids
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    await server.answer(input=[{"role": "user", "content": "go"}, *references, output], tools=tools)
    assert server.model.tokenizer.decode(engine.requests[-1].token_ids) == server.model.tokenizer.decode(chained)


async def test_conversations_grow_by_their_turns(server: Server) -> None:
    assert server.state is not None
    server.says(f"One.{END}", f"Two.{END}")
    conversations = server.state.conversations("a")
    made = await conversations.create([user("before")])
    for text in ("1?", "2?"):
        reply = await server.answer(input=text, conversation={"id": made.id})
        assert reply["conversation"] == {"id": made.id}
    assert texts(await conversations.items(made.id)) == ["before", "1?", "One.", "2?", "Two."]


async def test_a_background_run_is_answered_later(server: Server) -> None:
    assert server.state is not None
    engine = server.says(f"Hi.{END}")
    prepared = await server.prepare(input="hi", background=True)
    assert isinstance(prepared, Prepared)
    assert (prepared.opening.status, prepared.opening.background) == ("queued", True)
    store = server.state.responses("a")
    events = await collect(replay(server.state.database, store, prepared.opening.id, poll_s=0.01))
    assert check_stream(events, "completed")["output"][0]["content"][0]["text"] == "Hi."
    follow = await server.answer(input="and?", previous_response_id=prepared.opening.id)
    assert follow["status"] == "completed"
    assert engine.running == 0


async def test_an_engine_that_fails_or_is_left_ends_the_turn(server: Server) -> None:
    assert server.state is not None
    server.says(f"Hello there, friend.{END}", fail_after=2, error=EngineFailure("gone"))
    reply = await server.answer(input="hi")
    assert (reply["status"], reply["error"]["message"]) == ("failed", "gone")
    assert (await server.answer(input="hi", store=False))["status"] == "failed"
    engine = server.says(f"Hello there, friend.{END}", delay_s=0.05)
    prepared = await server.prepare(input="hi")
    assert isinstance(prepared, Prepared)
    events = stream(prepared)
    await anext(events)
    await events.aclose()  # type: ignore[attr-defined]
    await settle()
    assert engine.running == 0
    assert await server.state.responses("a").status(prepared.opening.id) == "cancelled"


async def test_a_repeated_key_gives_the_first_answer(server: Server) -> None:
    engine = server.says(f"Once.{END}")
    reply = await server.answer(input="hi", key="k")
    repeated = await server.prepare(input="hi", key="k")
    assert isinstance(repeated, StoredResponse)
    assert msgspec.json.decode(repeated.body) == reply
    assert len(engine.requests) == 1


async def test_a_compacted_history_is_opened_for_the_model_alone(server: Server) -> None:
    assert server.state is not None
    engine = server.says(f"Fine.{END}")
    short = compacted(
        as_list(b'"What I said"'), "We spoke of Rome.", compaction_id="resp_1", tenant="a", seal=server.state.seal
    )
    items = [msgspec.json.decode(item) for item in short]
    reply = await server.answer(input=[*items, {"role": "user", "content": "And?"}])
    assert "We spoke of Rome." in server.model.tokenizer.decode(engine.requests[-1].token_ids)
    listed = await server.state.responses("a").input_items(reply["id"], order="asc")
    assert [msgspec.json.decode(item)["type"] for item in listed.data] == ["message", "compaction", "message"]
    assert not any(b"Rome" in bytes(item) for item in listed.data)


async def test_a_conversation_is_compacted_by_the_model_and_goes_on(server: Server) -> None:
    assert server.state is not None
    engine = server.says(f"First.{END}", f"<think>\nso\n</think>\n\nWe spoke of Rome.{END}", f"Fine.{END}")
    first = await server.answer(input="Tell me of Rome.")
    request = msgspec.convert(
        {"model": "qwen3", "input": "And of Carthage.", "previous_response_id": first["id"]}, ResponsesRequest
    )
    short = await compact(request, model=server.model, state=server.state, tenant="a", seal=server.state.seal)
    asked = server.model.tokenizer.decode(engine.requests[-1].token_ids)
    assert asked.index("First.") < asked.index("Carthage") < asked.index(PROMPT)
    assert texts(short.output[:-1]) == ["Tell me of Rome.", "And of Carthage."]
    assert (short.object, short.usage.output_tokens > 0) == ("response.compaction", True)
    items = [msgspec.json.decode(item) for item in short.output]
    await server.answer(input=[*items, {"role": "user", "content": "Go on."}])
    prompt = server.model.tokenizer.decode(engine.requests[-1].token_ids)
    assert "We spoke of Rome." in prompt
    assert "First." not in prompt
    server.says(END)
    with pytest.raises(EngineFailure):
        await compact(request, model=server.model, state=server.state, tenant="a", seal=server.state.seal)
    with pytest.raises(InvalidRequest):
        await server.answer(input=items, tenant="b")


async def test_a_compaction_needs_no_store(server: Server) -> None:
    seal = Seal(["other"])
    engine = server.says(f"Short.{END}", f"Fine.{END}")
    request = msgspec.convert({"model": "qwen3", "input": "long"}, ResponsesRequest)
    short = await compact(request, model=server.model, state=None, tenant="", seal=seal)
    items = [msgspec.json.decode(item) for item in short.output]
    given = msgspec.convert({"model": "qwen3", "input": items}, ResponsesRequest)
    prepared = await prepare(given, model=server.model, state=None, tenant="", seal=seal)
    assert isinstance(prepared, Prepared)
    await collect(stream(prepared))
    assert "Short." in server.model.tokenizer.decode(engine.requests[-1].token_ids)
