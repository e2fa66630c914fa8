"""What open servers get wrong with the Responses API (the reference's section 10), over HTTP, on both databases."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import func, select, text

from app.store.database import Database
from app.store.retention import sweep
from app.store.tables import metadata
from tests.models import BUILT

from .served import CALL, END, THOUGHT, TOOLS, Served, serve, until

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")


@pytest.fixture(scope="module")
def served(store_url: str) -> Iterator[Served]:
    with serve(store_url) as running:
        yield running


def texts(reply: dict[str, Any]) -> list[str]:
    return [part["text"] for item in reply["output"] if item["type"] == "message" for part in item["content"]]


def in_order(prompt: str, *words: str) -> None:
    """Each word is there once, and each after the one before it."""
    assert [prompt.count(word) for word in words] == [1] * len(words), prompt
    assert sorted(words, key=prompt.index) == list(words), prompt


def rows_after_a_sweep(url: str) -> dict[str, int]:
    async def look() -> dict[str, int]:
        database = Database(url, pool_size=1)
        try:
            await database.write(lambda connection: connection.execute(text("UPDATE threads SET expires_at = 1")))
            await sweep(database)
            counts = {}
            for name in ("threads", "responses", "turns", "events", "blobs"):
                query = select(func.count()).select_from(metadata.tables[name])
                counts[name] = await database.read(lambda c, query=query: c.execute(query).scalar_one())
            return counts
        finally:
            await database.close()

    return asyncio.run(look())


def the_store_is_on_and_bounded(served: Served, url: str) -> None:
    """vllm#48275, #34738, #22137, #37938: off by default, refused or ignored; or growing without bound."""
    served.says(f"{THOUGHT}Hi.{END}")
    for fields in ({}, {"store": True}, {"store": None}):
        made = served.post(input="hi", **fields)
        assert made["store"] is True
        assert served.call("GET", f"/responses/{made['id']}").json() == made
    assert set(rows_after_a_sweep(url).values()) == {0}
    assert served.call("GET", f"/responses/{made['id']}").status_code == 404


def instructions_stay_behind_and_system_items_stay(served: Served, url: str) -> None:
    """vllm#37697, and its fix that drops the caller's own system items."""
    served.says(f"{THOUGHT}Hi.{END}")
    given = [{"role": "developer", "content": "own-rule"}, {"role": "user", "content": "q1"}]
    first = served.post(input=given, instructions="only-now")
    in_order(served.prompt(), "only-now", "own-rule", "q1")
    served.post(input="q2", previous_response_id=first["id"])
    assert "only-now" not in served.prompt()
    in_order(served.prompt(), "own-rule", "q1", "Hi.", "q2")


def calls_and_their_outputs_stay(served: Served, url: str) -> None:
    """vllm#43244."""
    served.says(f"{THOUGHT}{CALL}{END}", f"{THOUGHT}Done.{END}", f"{THOUGHT}Bye.{END}")
    first = served.post(input="q1", tools=TOOLS)
    call = next(item for item in first["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "answer-42"}
    second = served.post(input=[result], tools=TOOLS, previous_response_id=first["id"])
    served.post(input="q3", tools=TOOLS, previous_response_id=second["id"])
    in_order(served.prompt(), "q1", '{"name": "f", "arguments": {"x": 1}}', "answer-42", "Done.", "q3")


def inputs_of_all_turns_stay_and_are_said_once(served: Served, url: str) -> None:
    """ogx#2074, #2299: only outputs stored, or the third turn forgets the first; lmstudio#2074: context doubles."""
    served.says(*(f"{THOUGHT}answer-{number}.{END}" for number in range(6)))
    previous, said = None, []
    for number in range(6):
        said.append(f"question-{number}.")
        previous = served.post(input=said[-1], previous_response_id=previous)["id"]
        in_order(served.prompt(), *said)
        said.append(f"answer-{number}.")
    listed = served.a.responses.input_items.list(previous, order="asc", limit=100).data
    assert sum(item.type == "message" for item in listed) == 11


def a_previous_response_is_never_ignored(served: Served, url: str) -> None:
    """mlx-vlm#1046, gradient-python#96."""
    served.says(f"{THOUGHT}Hi.{END}")
    unknown = "resp_" + "0" * 48
    refused = served.call("POST", "/responses", json={"model": "m", "input": "q", "previous_response_id": unknown})
    assert refused.status_code == 400
    assert refused.json()["error"] == {
        "message": f"Previous response with id '{unknown}' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }
    assert not served.engine.requests


def streamed_ids_are_the_final_ones(served: Served, url: str) -> None:
    """vllm#38227, #47916, #56285; vllm#24788 (reasoning with an output_text part and a msg_ id)."""
    served.says(f"{THOUGHT}Well.\n{CALL}{END}")
    events = served.stream(input="q", tools=TOOLS)
    final = events[-1]["response"]["output"]
    assert [item["type"] for item in final] == ["reasoning", "message", "function_call"]
    for item, prefix in zip(final, ("rs_", "msg_", "fc_"), strict=True):
        assert item["id"].startswith(prefix)
        of_it = [event for event in events if event.get("item_id") == item["id"]]
        assert of_it
        assert {event["output_index"] for event in of_it} == {final.index(item)}
    added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert added == [item["id"] for item in final]
    assert done == final
    parts = [event["part"]["type"] for event in events if event["type"] == "response.content_part.added"]
    assert parts == ["reasoning_text", "output_text"]
    (ended,) = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert ended["arguments"] == final[2]["arguments"] == '{"x": 1}'
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert "".join(deltas) == '{"x": 1}'


def markers_never_leak_and_no_item_is_empty(served: Served, url: str) -> None:
    r"""vllm#36445, #38227: <tool_call> in output_text, stray "\n\n" messages."""
    served.says(f"{THOUGHT}\n\n{CALL}\n{CALL.replace('1', '2')}{END}")
    events = served.stream(input="q", tools=TOOLS)
    final = events[-1]["response"]["output"]
    assert [item["type"] for item in final] == ["reasoning", "function_call", "function_call"]
    assert not any("tool_call>" in str(event.get("delta", "")) for event in events)


def events_come_in_the_order_that_clients_check(served: Served, url: str) -> None:
    """litellm#36375, #36356: content before its item, one index for several items, new ids per delta."""
    served.says(f"{THOUGHT}Well.\n{CALL}{END}")
    events = served.stream(input="q", tools=TOOLS)
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    open_item: str | None = None
    open_part = False
    indexes = []
    for event in events[2:-1]:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert open_item is None
            open_item = event["item"]["id"]
            indexes.append(event["output_index"])
        elif kind == "output_item.done":
            assert event["item"]["id"] == open_item
            assert not open_part
            open_item = None
        else:
            assert event["item_id"] == open_item
            if kind.startswith("content_part"):
                assert open_part is (kind == "content_part.done")
                open_part = not open_part
            elif not kind.startswith("function_call"):
                assert open_part
    assert indexes == [0, 1, 2]


def the_first_id_is_the_last_and_can_be_continued_at_once(served: Served, url: str) -> None:
    """litellm#37956, #26167, lmstudio#1188."""
    served.says(f"{THOUGHT}Hi.{END}")
    previous = None
    for number in range(10):
        events = served.stream(input=f"q{number}", previous_response_id=previous)
        assert events[-1]["type"] == "response.completed"
        (name,) = {event["response"]["id"] for event in events if "response" in event}
        previous = name
        assert served.call("GET", f"/responses/{name}").json() == events[-1]["response"]


def reasoning_is_rendered_back_while_its_call_is_open(served: Served, url: str) -> None:
    """litellm#36197, #40654: reasoning silently dropped on the way."""
    served.says(f"<think>\nwhy-so\n</think>\n\n{CALL}{END}", f"{THOUGHT}Done.{END}")
    first = served.post(input="q1", tools=TOOLS)
    call_id = first["output"][-1]["call_id"]
    result = {"type": "function_call_output", "call_id": call_id, "output": "42"}
    served.post(input=[result], tools=TOOLS, previous_response_id=first["id"])
    in_order(served.prompt(), "q1", "why-so", '"arguments": {"x": 1}', "42")


def a_stream_ends_with_a_terminal_event_whatever_happens(served: Served, url: str) -> None:
    """ollama#14600, codex#41340."""
    served.says(f"{THOUGHT}Hello there.{END}", fail_after=6)
    events = served.stream(input="q")
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    failed = events[-1]["response"]
    assert failed["status"] == "failed"
    assert failed["error"]["code"] == "server_error"
    assert served.call("GET", f"/responses/{failed['id']}").json()["status"] == "failed"
    served.says(f"{THOUGHT}Hello there.{END}")
    events = served.stream(input="q", max_output_tokens=16)
    assert events[-1]["type"] in ("response.incomplete", "response.completed")
    refused = served.call("POST", "/responses", json={"model": "m", "input": "q", "previous_response_id": failed["id"]})
    assert refused.status_code == 400
    assert "failed" in refused.json()["error"]["message"]


def cancel_is_for_background_and_idempotent(served: Served, url: str) -> None:
    """sglang#38002, vllm#57999, ogx PR#5268."""
    served.says(f"{THOUGHT}Hi.{END}")
    foreground = served.post(input="q")["id"]
    refused = served.call("POST", f"/responses/{foreground}/cancel")
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "Cannot cancel a synchronous response."
    background = served.post(input="q", background=True)["id"]
    done = until(lambda: ended(served, background))
    assert done["status"] == "completed"
    for _ in range(2):
        again = served.call("POST", f"/responses/{background}/cancel")
        assert again.status_code == 200
        assert again.json() == done


def ended(served: Served, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] = served.call("GET", f"/responses/{name}").json()
    return None if found["status"] in ("queued", "in_progress") else found


def cancelled_stays_cancelled(served: Served, url: str) -> None:
    """Azure Q&A 2339607."""
    engine = served.says(f"{THOUGHT}One two three four five.{END}", delay_s=0.05)
    name = served.post(input="q", background=True)["id"]
    until(lambda: engine.running)
    cancelled = served.call("POST", f"/responses/{name}/cancel").json()
    assert cancelled["status"] == "cancelled"
    until(lambda: not engine.running)
    assert served.call("GET", f"/responses/{name}").json() == cancelled
    assert served.call("POST", f"/responses/{name}/cancel").json() == cancelled


def any_worker_answers_for_any_response(served: Served, url: str) -> None:
    """sglang#10387: state in one worker's memory."""
    with serve(url) as other:
        served.says(f"{THOUGHT}Hi.{END}")
        made = served.post(input="q1")
        assert other.call("GET", f"/responses/{made['id']}").json() == made
        other.says(f"{THOUGHT}Again.{END}")
        other.post(input="q2", previous_response_id=made["id"])
        in_order(other.prompt(), "q1", "Hi.", "q2")
        engine = served.says(f"{THOUGHT}{'slow ' * 200}{END}", delay_s=0.05)
        name = served.post(input="q", background=True)["id"]
        until(lambda: engine.running)
        assert other.call("POST", f"/responses/{name}/cancel").json()["status"] == "cancelled"
        until(lambda: not engine.running)
        assert served.call("GET", f"/responses/{name}").json()["status"] == "cancelled"


def what_is_asked_for_is_given_and_unknown_is_unknown(served: Served, url: str) -> None:
    """ogx#5345, TensorRT-LLM#10107: include ends in 500; the items of an unknown id are an empty list."""
    served.says(f"{THOUGHT}Hi.{END}")
    made = served.post(input="q", include=["message.output_text.logprobs"])
    assert made["output"][-1]["content"][0]["logprobs"]
    for path in ("", "/input_items"):
        found = served.call("GET", f"/responses/{made['id']}{path}?include[]=message.output_text.logprobs")
        assert found.status_code == 200
        unknown = served.call("GET", f"/responses/resp_{'0' * 48}{path}")
        assert unknown.status_code == 404
        assert unknown.json()["error"]["message"] == f"Response with id 'resp_{'0' * 48}' not found."


def what_is_told_is_there_after_a_restart(served: Served, url: str) -> None:
    """ogx#4115: nothing persisted, and no error."""
    with serve(url) as first:
        first.says(f"{THOUGHT}Hi.{END}")
        made = first.post(input="q1")
    with serve(url) as second:
        assert second.call("GET", f"/responses/{made['id']}").json() == made
        second.says(f"{THOUGHT}Again.{END}")
        second.post(input="q2", previous_response_id=made["id"])
        in_order(second.prompt(), "q1", "Hi.", "q2")


def a_conversation_keeps_its_newest_items(served: Served, url: str) -> None:
    """smg: the first 100 items ascending are the history; the walk knows no tenant."""
    served.says(f"{THOUGHT}Hi.{END}")
    talk = served.call("POST", "/conversations", json={}).json()["id"]
    for start in range(0, 140, 20):
        items = [{"role": "user", "content": f"note-{number}."} for number in range(start, start + 20)]
        assert served.call("POST", f"/conversations/{talk}/items", json={"items": items}).status_code == 200
    served.post(input="and now", conversation=talk)
    in_order(served.prompt(), *(f"note-{number}." for number in range(140)), "and now")
    listed = served.call("GET", f"/conversations/{talk}/items?limit=100").json()
    assert len(listed["data"]) == 100
    assert listed["has_more"]
    foreign = served.call("POST", "/responses", "key-b", json={"model": "m", "input": "q", "conversation": talk})
    assert foreign.status_code == 404
    mine = served.post(input="q")["id"]
    body = {"model": "m", "input": "q", "previous_response_id": mine}
    assert (
        served.call("POST", "/responses", "key-b", json=body).json()["error"]["code"] == "previous_response_not_found"
    )


FAULTS: list[Callable[[Served, str], None]] = [
    instructions_stay_behind_and_system_items_stay,
    calls_and_their_outputs_stay,
    inputs_of_all_turns_stay_and_are_said_once,
    a_previous_response_is_never_ignored,
    streamed_ids_are_the_final_ones,
    markers_never_leak_and_no_item_is_empty,
    events_come_in_the_order_that_clients_check,
    the_first_id_is_the_last_and_can_be_continued_at_once,
    reasoning_is_rendered_back_while_its_call_is_open,
    a_stream_ends_with_a_terminal_event_whatever_happens,
    cancel_is_for_background_and_idempotent,
    cancelled_stays_cancelled,
    any_worker_answers_for_any_response,
    what_is_asked_for_is_given_and_unknown_is_unknown,
    what_is_told_is_there_after_a_restart,
    a_conversation_keeps_its_newest_items,
    the_store_is_on_and_bounded,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_we_do_better_than(fault: Callable[[Served, str], None], served: Served, store_url: str) -> None:
    fault(served, store_url)
