"""Public chat and completions streams: what the writers say step by step, and the SDK's word on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.derendering.derenderer import Step
from app.dialects.chat.write import ChatOptions, ChatWriter
from app.dialects.chat.write import fold as chat_fold
from app.dialects.completions.write import CompletionOptions, CompletionWriter, Echo
from app.dialects.completions.write import fold as completion_fold
from app.dialects.writer import ReplyHead, Usage
from app.parsing.deltas import CallArguments, CallEnd, CallStart, Content, Reasoning
from tests.derendering.sdk import openai_client
from tests.derendering.served import wire

HEAD = ReplyHead(id="chatcmpl-1", created=7, model="m")
USAGE = Usage(prompt_tokens=3, completion_tokens=4, cached_tokens=1, reasoning_tokens=2)
STEPS = [
    Step(index=0, deltas=[Reasoning("hm")], tokens=1),
    Step(index=1, deltas=[Content("b")], token_ids=[5], tokens=1),
    Step(index=0, deltas=[Content("a"), CallStart(0, "f", "id0")], tokens=2),
    Step(index=0, deltas=[]),
    Step(index=0, deltas=[CallArguments(0, '{"x"'), CallArguments(0, ": 1}"), CallEnd(0), CallStart(1, "g", "id1")]),
    Step(index=1, deltas=[], finish_reason="stop", stop_reason="END"),
    Step(index=0, deltas=[CallArguments(1, "{}"), CallEnd(1), Content("z")], finish_reason="tool_calls"),
]


def written(writer, steps=STEPS, usage=USAGE):
    events = writer.start()
    for step in steps:
        events += writer.feed(step, usage)
    return [event.data for event in [*events, *writer.finish(usage)]]


def test_absent_fields_are_left_out_and_the_finish_reason_never_is():
    """B42."""
    chunks = [wire(chunk) for chunk in written(ChatWriter(HEAD))]
    for chunk in chunks:
        assert set(chunk) == {"id", "object", "created", "model", "choices"}
        for choice in chunk["choices"]:
            assert {"index", "delta", "finish_reason"} <= set(choice)
            assert None not in choice["delta"].values()
            assert choice["delta"].get("tool_calls") != []
    roles = [c["index"] for chunk in chunks for c in chunk["choices"] if "role" in c["delta"]]
    assert roles == [0, 1]
    fragments = [f for chunk in chunks for c in chunk["choices"] for f in c["delta"].get("tool_calls", ())]
    assert [("id" in f, "type" in f, "name" in f["function"]) for f in fragments] == [
        (True,) * 3,
        (False,) * 3,
        (True,) * 3,
        (False,) * 3,
    ]


def test_the_sdk_accumulates_the_folded_chat():
    options = ChatOptions(include_usage=True)
    chunks = written(ChatWriter(HEAD, options))
    whole = wire(chat_fold(HEAD, chunks, options))
    with openai_client(chunks, named=False).chat.completions.stream(model="m", messages=[]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert whole["usage"]["total_tokens"] == final.usage.total_tokens == 7
    assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}
    assert whole["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    for ours, theirs in zip(whole["choices"], final.choices, strict=True):
        assert ours["finish_reason"] == theirs.finish_reason
        assert ours["message"]["content"] == theirs.message.content
        made = [(c.id, c.function.name, c.function.arguments) for c in theirs.message.tool_calls or ()]
        assert [
            (c["id"], c["function"]["name"], c["function"]["arguments"]) for c in ours["message"].get("tool_calls", ())
        ] == made
    assert whole["choices"][0]["message"]["reasoning"] == "hm"
    assert whole["choices"][1]["stop_reason"] == "END"


@pytest.mark.parametrize(
    ("asked", "told"), [((False, False), []), ((True, False), [None] * 8 + [7]), ((True, True), [7] * 9)]
)
def test_usage_stands_where_it_was_asked_for(asked, told):
    chunks = [
        wire(c) for c in written(ChatWriter(HEAD, ChatOptions(include_usage=asked[0], continuous_usage=asked[1])))
    ]
    assert [c["usage"] and c["usage"]["total_tokens"] for c in chunks if "usage" in c] == told
    assert not told or chunks[-1]["choices"] == []


@given(st.lists(st.tuples(st.integers(0, 2), st.text("ab", max_size=2)), max_size=8), st.integers(0, 8))
def test_a_writer_goes_on_from_its_state(pieces, at):
    steps = [Step(index=i, deltas=[Content(t)] if t else [], token_ids=[1]) for i, t in pieces]
    for make in (
        lambda: ChatWriter(HEAD, ChatOptions(token_ids=True)),
        lambda: CompletionWriter(HEAD, CompletionOptions(token_ids=True)),
    ):
        one = make()
        whole = [wire(e.data) for s in steps for e in one.feed(s)]
        first, second = make(), make()
        parts = [wire(e.data) for s in steps[:at] for e in first.feed(s)]
        second.load(first.dump())
        assert parts + [wire(e.data) for s in steps[at:] for e in second.feed(s)] == whole


def test_completions_echo_and_usage():
    options = CompletionOptions(include_usage=True, token_ids=True)
    steps = [
        Step(index=0, deltas=[Content("upon")], token_ids=[1]),
        Step(index=1, finish_reason="stop"),
        Step(index=0, finish_reason="length"),
    ]
    writer = CompletionWriter(HEAD, options)
    writer.precede(0, Echo("Once "))
    writer.precede(1, Echo("Twice "))
    chunks = written(writer, steps)
    whole = wire(completion_fold(HEAD, chunks))
    assert [(c["text"], c["finish_reason"]) for c in whole["choices"]] == [("Once upon", "length"), ("Twice ", "stop")]
    assert whole["choices"][0]["token_ids"] == [1]
    got = list(openai_client(chunks, named=False).completions.create(model="m", prompt="", stream=True))
    assert "".join(c.text for chunk in got for c in chunk.choices if c.index == 0) == "Once upon"
    assert got[-1].usage.total_tokens == 7


def test_a_failure_is_openais_error_object():
    (event,) = ChatWriter(HEAD).fail("No.")
    assert wire(event.data) == {"error": {"message": "No.", "type": "server_error", "param": None, "code": None}}


def test_prompt_ids_come_once_and_stay_in_the_whole():
    options = ChatOptions(token_ids=True, prompt_token_ids=[1, 2])
    chunks = written(ChatWriter(HEAD, options))
    assert [wire(c).get("prompt_token_ids") for c in chunks] == [[1, 2]] + [None] * (len(chunks) - 1)
    assert wire(chat_fold(HEAD, chunks, options))["prompt_token_ids"] == [1, 2]
    texts = CompletionOptions(token_ids=True, prompt_token_ids={0: [1], 1: [2]})
    steps = [Step(index=i, finish_reason="stop") for i in (0, 1)]
    whole = wire(completion_fold(HEAD, written(CompletionWriter(HEAD, texts), steps)))
    assert [c["prompt_token_ids"] for c in whole["choices"]] == [[1], [2]]
