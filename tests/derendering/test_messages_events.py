"""Anthropic's events of a derendered stream: blocks in order, stop reasons, and the SDK's accumulator agrees."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.dialects.messages.write import read_input
from app.dialects.writer import ReplyHead
from tests.derendering.sdk import anthropic_client
from tests.derendering.served import wire
from tests.derendering.talking import ANSWER, CALL, PARAMETERS, PROMPT, call, chunks, response, stream, talking_model

MODEL = talking_model()
ASK = {
    "model": "small",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": "weather", "input_schema": PARAMETERS}],
}


def whole_of(text, finish="stop", **request):
    return call(
        "messages",
        MODEL,
        generate_response=response(text, finish, "msg_x"),
        messages_request={**ASK, **request},
        prompt_token_ids=PROMPT,
    )


def events_of(text, sizes, finish="stop", **request):
    body = {"messages_request": {**ASK, **request}, "prompt_token_ids": PROMPT}
    return stream("messages", MODEL, chunks(text, sizes, finish, "msg_x"), **body)


def assert_in_order(events):
    assert events[0]["type"] == "message_start"
    assert events[0]["message"]["usage"]["output_tokens"] == 0
    assert [e["type"] for e in events[-2:]] == ["message_delta", "message_stop"]
    at, open_ = 0, False
    for event in events[1:-2]:
        assert event["index"] == at
        match event["type"]:
            case "content_block_start":
                assert not open_
                open_ = True
            case "content_block_stop":
                assert open_
                open_, at = False, at + 1
            case kind:
                assert (kind, open_) == ("content_block_delta", True)
    assert not open_


@settings(max_examples=40)
@given(
    pieces=st.lists(
        st.sampled_from(["<think>", "</think>", CALL, "hello", "🙂", "<tool_call>", '{"name": "weather", ']), max_size=7
    ),
    sizes=st.lists(st.integers(0, 9), max_size=8),
    finish=st.sampled_from(["stop", "length", "abort"]),
)
def test_any_cut_accumulates_to_the_whole_message(pieces, sizes, finish):
    """Laws 1 and 2; the SDK is the judge."""
    text = "".join(pieces)
    events = events_of(text, sizes, finish)
    assert_in_order(events)
    with anthropic_client(events).messages.stream(model="m", max_tokens=1, messages=[]) as streamed:
        final = streamed.get_final_message()
    whole = whole_of(text, finish)
    got = final.model_dump(mode="json", exclude_none=True)
    assert [b["type"] for b in got["content"]] == [b["type"] for b in whole["content"]]
    for ours, theirs in zip(whole["content"], got["content"], strict=True):
        for key in ("text", "thinking", "name", "id"):
            assert ours.get(key) == theirs.get(key)
    assert (got["stop_reason"], got.get("stop_sequence")) == (whole["stop_reason"], whole["stop_sequence"])
    assert got["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    assert got["usage"]["input_tokens"] == whole["usage"]["input_tokens"] == len(PROMPT)


def test_one_answer_with_everything():
    whole = whole_of(ANSWER)
    assert [b["type"] for b in whole["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert [b["input"] for b in whole["content"][2:]] == [{"city": "上海"}, {}]
    assert whole["content"][2]["id"].startswith("toolu_")
    assert (whole["type"], whole["role"], whole["stop_reason"]) == ("message", "assistant", "tool_use")


@pytest.mark.parametrize(
    ("text", "finish", "request_", "reason"),
    [
        ("</think>hello", "stop", {}, ("end_turn", None)),
        ("</think>hello", "length", {}, ("max_tokens", None)),
        ("</think>hello END", "stop", {"stop_sequences": ["END"]}, ("stop_sequence", "END")),
        (f"</think>{CALL}", "stop", {"tool_choice": {"type": "tool", "name": "weather"}}, ("tool_use", None)),
        (f"</think>{CALL}", "length", {}, ("max_tokens", None)),
    ],
)
def test_stop_reasons(text, finish, request_, reason):
    whole = whole_of(text, finish, **request_)
    assert (whole["stop_reason"], whole["stop_sequence"]) == reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("{}", {}),
        ('{"a": 1', {}),
        ('{"a": 1, "b": "x', {"a": 1}),
        ('{"a": {"b": [1, 2], "c": 3', {"a": {"b": [1, 2]}}),
        ('{"a": ",}", "b": tru', {"a": ",}"}),
        ("[1, 2]", {}),
        ('{"a" 1}', {}),
    ],
)
def test_a_cut_input_keeps_its_whole_members(text, value):
    assert read_input(text) == value


def test_a_failure_is_an_error_event():
    from app.dialects.messages.write import MessagesWriter

    (event,) = MessagesWriter(ReplyHead(id="msg_1", created=1, model="m")).fail("No.", code="overloaded_error")
    assert wire(event.data) == {"type": "error", "error": {"type": "overloaded_error", "message": "No."}}
