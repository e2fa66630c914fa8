"""The Responses events of a derendered stream: order, ids, the terminal response; the SDK's accumulator agrees."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.derendering.derenderer import Step
from app.dialects.responses.opening import open_response
from app.dialects.responses.write import ResponsesWriter
from app.dialects.writer import Usage
from app.errors import InvalidRequest
from app.parsing.deltas import CallArguments, CallEnd, CallStart, Content, Reasoning
from app.protocol.responses import ResponsesRequest
from tests.derendering.sdk import openai_client
from tests.derendering.served import SmallModel, wire
from tests.derendering.talking import (
    ANSWER,
    CALL,
    PARAMETERS,
    PROMPT,
    call,
    chunks,
    ids_of,
    response,
    stream,
    talking_model,
)

MODEL = talking_model()
TOOLS = [{"type": "function", "name": "weather", "parameters": PARAMETERS}]
ASK = {"input": "hi", "tools": TOOLS}
KEYS = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "previous_response_id"),
    *("instructions", "error", "truncation", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs"),
    *(
        "temperature",
        "reasoning",
        "usage",
        "max_output_tokens",
        "max_tool_calls",
        "store",
        "background",
        "service_tier",
    ),
    *(
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
        "model",
        "output",
        "parallel_tool_calls",
        "tool_choice",
        "tools",
    ),
}


def whole_of(text, finish="stop", **request):
    return call(
        "responses",
        MODEL,
        generate_response=response(text, finish),
        responses_request={**ASK, **request},
        prompt_token_ids=PROMPT,
        prompt_tokens=9,
    )


def events_of(text, sizes, finish="stop", **request):
    body = {"responses_request": {**ASK, **request}, "prompt_token_ids": PROMPT, "prompt_tokens": 9}
    return stream("responses", MODEL, chunks(text, sizes, finish), **body)


def assert_in_order(events):
    """Every rule that clients check."""
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert [e["type"] for e in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0]["response"]["output"] == []
    open_item, parts, done = None, 0, []
    for event in events[2:-1]:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert open_item is None
            assert event["output_index"] == len(done)
            open_item, text, parts = event["item"], "", 0
        elif kind == "response.output_item.done":
            item = event["item"]
            assert (item["id"], item["type"]) == (open_item["id"], open_item["type"])
            assert parts == 0
            done.append(item)
            open_item = None
        else:
            assert (event["item_id"], event["output_index"]) == (open_item["id"], len(done))
            if kind.endswith("content_part.added"):
                parts += 1
            elif kind.endswith("content_part.done"):
                parts -= 1
                assert event["part"]["text"] == text
            elif kind.endswith(".delta"):
                text += event["delta"]
            else:
                assert kind.endswith(".done")
                assert event.get("text", event.get("arguments", event.get("input"))) == text
            if "output_text" in kind:
                assert isinstance(event["logprobs"], list)
    last = events[-1]
    assert open_item is None
    assert last["response"]["output"] == done
    assert last["type"] == f"response.{last['response']['status']}"
    assert last["response"].keys() >= KEYS
    ids = [item["id"] for item in done]
    assert len(set(ids)) == len(ids)


@settings(max_examples=40)
@given(
    pieces=st.lists(
        st.sampled_from(["<think>", "</think>", CALL, "hello", "🙂", "<tool_call>", "\n", '{"name": "weather", ']),
        max_size=7,
    ),
    sizes=st.lists(st.integers(0, 9), max_size=8),
    finish=st.sampled_from(["stop", "length", "abort"]),
)
def test_any_cut_ends_in_the_whole_response(pieces, sizes, finish):
    """Laws 1 and 2, and B67 for any output."""
    text = "".join(pieces)
    events = events_of(text, sizes, finish)
    if finish == "abort":
        assert [e["type"] for e in events[-2:]] == ["error", "response.failed"]
        return
    assert_in_order(events)
    assert events[-1]["response"] == whole_of(text, finish)


def test_one_answer_with_everything():
    """B66: the flat tool shape is read; B67: order, indices, ids."""
    events = events_of(ANSWER, [1] * 300)
    assert_in_order(events)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call"]
    assert [item["id"].split("_")[0] for item in output] == ["rs", "msg", "fc", "fc"]
    assert output[2]["arguments"] == '{"city": "上海"}'
    assert output[2]["call_id"].startswith("call_")
    usage = events[-1]["response"]["usage"]
    assert usage["input_tokens"] == 9
    assert usage["output_tokens"] == len(ids_of(ANSWER)) + 1
    assert 0 < usage["output_tokens_details"]["reasoning_tokens"] < usage["output_tokens"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@pytest.mark.parametrize("sizes", [[1] * 300, [50, 50], []])
def test_the_sdk_accumulates_the_same_response(sizes):
    events = events_of(ANSWER, sizes)
    client = openai_client(events, named=True)
    with client.responses.stream(model="m", input="hi") as streamed:
        for _ in streamed:
            pass
        final = streamed.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert final.output_text.strip() == "One moment."
    types = [e.type for e in openai_client(events, named=True).responses.create(model="m", input="hi", stream=True)]
    assert types == [e["type"] for e in events]


def test_a_cut_answer_is_incomplete_and_so_is_its_last_item():
    for text, kind in (
        ("<think>a", "reasoning"),
        ("</think>hello", "message"),
        (f"</think>{CALL[:50]}", "function_call"),
    ):
        whole = whole_of(text, "length")
        assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert (whole["output"][-1]["type"], whole["output"][-1]["status"]) == (kind, "incomplete")
        assert whole["completed_at"] is None
    assert [item["status"] for item in whole_of(f"a</think>b{CALL}")["output"]] == ["completed"] * 3


def test_logprobs_are_those_of_the_text():
    ids = ids_of("<think>ab</think>hello🙂")
    scores = [{"token_id": i, "logprob": -1.0, "top_logprobs": [{"token_id": i, "logprob": -1.0}]} for i in ids]
    answer = {"request_id": "r", "choices": [{"token_ids": ids, "logprobs": {"content": scores}}]}
    asked = {**ASK, "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    whole = call("responses", MODEL, generate_response=answer, responses_request=asked, prompt_token_ids=PROMPT)
    told = whole["output"][1]["content"][0]["logprobs"]
    assert b"".join(bytes(one["bytes"]) for one in told).decode() == "hello🙂"
    assert all(len(one["top_logprobs"]) == 1 for one in told)
    quiet = call("responses", MODEL, generate_response=answer, responses_request=ASK, prompt_token_ids=PROMPT)
    assert quiet["output"][1]["content"][0]["logprobs"] == []


def test_tools_go_by_the_callers_names():
    tools = [
        {"type": "custom", "name": "patch"},
        {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "find", "parameters": PARAMETERS}]},
    ]
    text = (
        '</think><tool_call>{"name": "patch", "arguments": {"input": "a\\n\\"b\\""}}</tool_call>'
        '<tool_call>{"name": "crm__find", "arguments": {}}</tool_call>'
    )
    events = events_of(text, [1] * 200, tools=tools)
    assert_in_order(events)
    patch, find = events[-1]["response"]["output"]
    assert (patch["type"], patch["name"], patch["input"], patch["id"][:4]) == (
        "custom_tool_call",
        "patch",
        'a\n"b"',
        "ctc_",
    )
    assert (find["type"], find["namespace"], find["name"]) == ("function_call", "crm", "find")
    with openai_client(events, named=True).responses.stream(model="m", input="hi") as streamed:
        assert [e.type for e in streamed][-1] == "response.completed"


def test_a_failure_is_told_in_the_apis_own_words():
    """B66: the stream of a failure ends in response.failed."""
    opening = open_response(ResponsesRequest(input="hi"), response_id="resp_1", created_at=1, model="m")
    writer = ResponsesWriter(opening)
    events = [
        *writer.start(),
        *writer.feed(Step(index=0, deltas=[Content("par")])),
        *writer.fail("The engine stopped."),
    ]
    data = [wire(event.data) for event in events]
    assert [e["type"] for e in data[-3:]] == ["response.output_item.done", "error", "response.failed"]
    assert data[-1]["response"]["error"] == {"code": "server_error", "message": "The engine stopped."}
    assert data[-1]["response"]["output"][0]["status"] == "incomplete"
    assert_in_order([*data[:-2], {**data[-1], "sequence_number": len(data) - 2}])


def test_a_step_with_all_kinds_keeps_their_order():
    opening = open_response(ResponsesRequest(input="hi"), response_id="resp_1", created_at=1, model="m")
    writer = ResponsesWriter(opening)
    deltas = [
        *(Content("a"), CallStart(0, "f", "call_1"), CallArguments(0, "{}"), CallEnd(0), Content("b"), Reasoning("c")),
        *(CallStart(1, "g", "call_2"), CallEnd(1)),
    ]
    steps = writer.feed(Step(index=0, deltas=deltas, finish_reason="tool_calls"))
    events = [wire(e.data) for e in [*writer.start(), *steps, *writer.finish(Usage())]]
    kinds = [item["type"] for item in events[-1]["response"]["output"]]
    assert kinds == ["message", "function_call", "message", "reasoning", "function_call"]


def test_a_usage_chunk_after_the_end_gives_no_events():
    last = {
        "request_id": "resp_x",
        "choices": [],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }
    body = {"responses_request": ASK, "prompt_token_ids": PROMPT}
    parts = [*chunks("</think>hello", [2, 2]), last]
    events = stream("responses", MODEL, parts, **body)
    assert [e["type"] for e in events].count("response.completed") == 1
    assert events[-1]["response"]["usage"]["input_tokens"] == len(PROMPT)


def test_what_is_refused():
    two = {"choices": [{"token_ids": [97]}, {"index": 1, "token_ids": [97]}]}
    for body, param in (
        ({}, "generate_response"),
        ({"generate_response": two}, "generate_response.choices"),
        ({"stream": True}, "generate_chunk"),
        ({"stream": True, "generate_chunk": chunks("a", [])[0]}, "prompt_token_ids"),
    ):
        with pytest.raises(InvalidRequest) as refusal:
            call("responses", MODEL, responses_request=ASK, **body)
        assert refusal.value.param == param


def test_a_model_without_formats_answers_text():
    whole = call("responses", SmallModel(), generate_response=response("hello"), responses_request={"input": "hi"})
    assert whole["output"][0]["content"][0]["text"] == "hello"
