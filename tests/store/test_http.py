"""The official openai SDK against a server with a store: sessions, streams, background runs, conversations, tenants."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.models import BUILT

from .served import END, THOUGHT, Served, serve

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")


@pytest.fixture(scope="module")
def served(store_url: str) -> Iterator[Served]:
    with serve(store_url) as running:
        yield running


def test_a_session_of_several_turns_with_tools_and_streams(served: Served) -> None:
    tools: list[Any] = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
    call = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    engine = served.says(f"{THOUGHT}{call}{END}", f"{THOUGHT}Done.{END}", f"{THOUGHT}Bye.{END}")
    first = served.a.responses.create(model="m", input="go", tools=tools, instructions="Be brief.")
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    output: Any = [{"type": "function_call_output", "call_id": first.output[1].call_id, "output": "42"}]
    with served.a.responses.stream(model="m", input=output, tools=tools, previous_response_id=first.id) as events:
        for _ in events:
            pass
        second = events.get_final_response()
    assert second.output_text == "Done."
    third = served.a2.responses.create(model="m", input="bye", previous_response_id=second.id)
    prompt = served.service.models.get("m").tokenizer.decode(engine.requests[-1].token_ids)
    assert [prompt.index(word) for word in ("go", "<tool_call>", "42", "Done.", "bye")] == sorted(
        prompt.index(word) for word in ("go", "<tool_call>", "42", "Done.", "bye")
    )
    assert "Be brief." not in prompt
    assert served.a.responses.retrieve(third.id) == third
    items = list(served.a.responses.input_items.list(third.id, limit=2))
    assert len({item.id for item in items}) == len(items) == 7
    count = served.a.responses.input_tokens.count(model="m", input="bye", previous_response_id=second.id)
    assert count.input_tokens == third.usage.input_tokens
    served.a.responses.delete(second.id)
    with pytest.raises(openai.BadRequestError) as refused:
        served.a.responses.create(model="m", input="x", previous_response_id=third.id)
    assert refused.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        served.a.responses.retrieve(second.id)


def test_another_tenant_finds_nothing(served: Served) -> None:
    served.says(f"{THOUGHT}Hi.{END}")
    mine = served.a.responses.create(model="m", input="hi")
    talk = served.a.conversations.create(items=[{"type": "message", "role": "user", "content": "x"}])
    for attempt in (
        lambda: served.b.responses.retrieve(mine.id),
        lambda: served.b.responses.delete(mine.id),
        lambda: served.b.responses.cancel(mine.id),
        lambda: served.b.responses.input_items.list(mine.id),
        lambda: served.b.conversations.retrieve(talk.id),
        lambda: served.b.conversations.items.list(talk.id),
        lambda: served.b.responses.create(model="m", input="x", conversation=talk.id),
    ):
        with pytest.raises(openai.NotFoundError):
            attempt()
    with pytest.raises(openai.BadRequestError) as refused:
        served.b.responses.create(model="m", input="x", previous_response_id=mine.id)
    assert mine.id in refused.value.message
    assert served.a2.responses.retrieve(mine.id).id == mine.id


def test_background_runs_are_polled_replayed_and_cancelled(served: Served) -> None:
    served.says(f"{THOUGHT}One two three.{END}")
    queued = served.a.responses.create(model="m", input="count", background=True)
    assert queued.status == "queued"
    while (found := served.a.responses.retrieve(queued.id)).status in ("queued", "in_progress"):
        time.sleep(0.02)
    assert found.output_text == "One two three."
    with served.a.responses.retrieve(queued.id, stream=True) as events:
        seen = list(events)
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    with served.a.responses.retrieve(queued.id, stream=True, starting_after=4) as events:
        assert [event.sequence_number for event in events] == list(range(5, len(seen)))
    live = list(served.a.responses.create(model="m", input="count", background=True, stream=True))
    assert live[-1].type == "response.completed"
    assert served.a.responses.cancel(queued.id).status == "completed"
    engine = served.says(f"{THOUGHT}One two three.{END}", delay_s=0.2)
    running = served.a.responses.create(model="m", input="count", background=True)
    assert served.a.responses.cancel(running.id).status == "cancelled"
    assert served.a.responses.cancel(running.id).status == "cancelled"
    assert engine.running == 0
    foreground = served.says(f"{THOUGHT}Hi.{END}")
    done = served.a.responses.create(model="m", input="hi")
    with pytest.raises(openai.BadRequestError, match="synchronous"):
        served.a.responses.cancel(done.id)
    assert foreground.running == 0


def test_conversations_through_the_sdk(served: Served) -> None:
    served.says(f"{THOUGHT}Hello.{END}")
    talk = served.a.conversations.create(metadata={"k": "v"})
    reply = served.a.responses.create(model="m", input="hi", conversation=talk.id)
    assert reply.conversation is not None
    assert reply.conversation.id == talk.id
    items = list(served.a.conversations.items.list(talk.id, order="asc", limit=1))
    assert [item.type for item in items] == ["message", "reasoning", "message"]
    served.a.conversations.items.create(talk.id, items=[{"type": "message", "role": "user", "content": "more"}])
    assert served.a.conversations.update(talk.id, metadata={"k": "w"}).metadata == {"k": "w"}
    one = served.a.conversations.items.retrieve(items[0].id, conversation_id=talk.id)
    assert one.id == items[0].id
    assert served.a.conversations.items.delete(items[0].id, conversation_id=talk.id).id == talk.id
    assert served.a.conversations.delete(talk.id).deleted
    with pytest.raises(openai.NotFoundError):
        served.a.conversations.retrieve(talk.id)


def test_compaction_and_unstored_turns(served: Served) -> None:
    engine = served.says(f"{THOUGHT}Hello.{END}", f"{THOUGHT}We greeted.{END}", f"{THOUGHT}Yes.{END}")
    first = served.a.responses.create(model="m", input="hi")
    short = served.a.responses.compact(model="m", previous_response_id=first.id, input="and?")
    assert [item.type for item in short.output] == ["message", "message", "compaction"]
    again: Any = [item.model_dump(exclude_none=True, warnings=False) for item in short.output]
    unstored = served.a.responses.create(model="m", input=[*again, {"role": "user", "content": "ok?"}], store=False)
    assert "We greeted." in served.service.models.get("m").tokenizer.decode(engine.requests[-1].token_ids)
    with pytest.raises(openai.NotFoundError):
        served.a.responses.retrieve(unstored.id)
    with pytest.raises(openai.BadRequestError):
        served.a.responses.create(model="m", input="x", previous_response_id=unstored.id)


def test_keys_errors_and_renders(served: Served) -> None:
    engine = served.says(f"{THOUGHT}Once.{END}")
    header = {"Idempotency-Key": "k"}
    first, second = (served.a.responses.create(model="m", input="hi", extra_headers=header) for _ in range(2))
    assert first == second
    assert len(engine.requests) == 1
    with pytest.raises(openai.ConflictError):
        served.a.responses.create(model="m", input="other", extra_headers=header)
    rendered: Any = served.a.post(
        "/responses/render", body={"model": "m", "input": "x", "previous_response_id": first.id}, cast_to=object
    )
    text = served.service.models.get("m").tokenizer.decode(rendered["token_ids"])
    assert text.index("hi") < text.index("Once.") < text.index("x")
    with contextlib.suppress(openai.BadRequestError):
        served.a.responses.create(model="m", input="x", previous_response_id="resp_\x00")
        raise AssertionError("found")


@pytest.mark.parametrize("name", ["limit", "order"])
def test_a_query_parameter_that_cannot_be_read_is_named(served: Served, name: str) -> None:
    talk = served.a.conversations.create()
    with pytest.raises(openai.BadRequestError) as refused:
        served.a.get(f"/conversations/{talk.id}/items?{name}=x", cast_to=object)
    assert refused.value.param == name and name in refused.value.message


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({}, "items[1].type"),
        ({"type": "nothing"}, "items[1].type"),
        ({"type": "message"}, "items[1].role"),
        ({"role": "user", "content": 5}, "items[1].content"),
    ],
)
def test_an_item_that_no_turn_could_read_enters_no_conversation(served: Served, item: Any, param: str) -> None:
    good: Any = {"role": "user", "content": "hi"}
    talk = served.a.conversations.create(items=[good])
    for add in (
        lambda: served.a.conversations.items.create(talk.id, items=[good, item]),
        lambda: served.a.conversations.create(items=[good, item]),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            add()
        assert refused.value.param == param
    assert served.a.responses.input_tokens.count(model="m", input="x", conversation=talk.id).input_tokens
