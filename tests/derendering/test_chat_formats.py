"""Chat derender of a model with reasoning and tool calls: laws, tool choices, ids, several choices."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.derendering.call_ids import CallIds
from app.errors import InvalidRequest
from tests.derendering.served import chat, chat_stream, folded, message
from tests.derendering.talking import ANSWER, CALL, CHAT_TOOLS, PROMPT, SECOND, chunks, response, talking_model

MODEL = talking_model()
ASK = {"messages": [{"role": "user", "content": "hi"}], "tools": CHAT_TOOLS}
CALLS = {0: "weather", 1: "now"}
PIECES = [
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "\n", "hello", " END ", "🙂", '{"name": "weather", '),
    *('"arguments": {"city": "上', '海"}}', "<|im_end|>", "ab", CALL, SECOND, "{", "}"),
]


def whole_of(text, finish="stop", **request):
    body = chat(
        MODEL, generate_response=response(text, finish), chat_request={**ASK, **request}, prompt_token_ids=PROMPT
    )
    return message(body["choices"][0])


def cut_of(text, sizes, finish="stop", **request):
    parts = chat_stream(
        MODEL, chunks(text, sizes, finish), chat_request={**ASK, "stream": True, **request}, prompt_token_ids=PROMPT
    )
    return folded(parts)[0]


@settings(max_examples=60)
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=9),
    sizes=st.lists(st.integers(0, 7), max_size=12),
    finish=st.sampled_from(["stop", "length", "abort"]),
    request_=st.fixed_dictionaries(
        {
            "tool_choice": st.sampled_from(
                ["auto", "none", "required", {"type": "function", "function": {"name": "weather"}}]
            ),
            "include_reasoning": st.booleans(),
            "parallel_tool_calls": st.booleans(),
            "stop": st.sampled_from([[], ["END"], ["hello ENDING", "🙂ab"]]),
        }
    ),
)
def test_any_cut_gives_the_whole_message(pieces, sizes, finish, request_):
    """Laws 1 and 2."""
    text = "".join(pieces)
    assert cut_of(text, sizes, finish, **request_) == whole_of(text, finish, **request_)


def test_a_message_with_everything():
    whole = whole_of(ANSWER)
    assert whole["reasoning"].strip() == "Let me look 🙂."
    assert whole["content"].strip() == "One moment."
    assert {i: c[1:] for i, c in whole["calls"].items()} == {0: ["weather", '{"city": "上海"}'], 1: ["now", "{}"]}
    assert all(re.fullmatch("chatcmpl-tool-[0-9a-f]{16}", c[0]) for c in whole["calls"].values())
    assert len({c[0] for c in whole["calls"].values()}) == 2


@pytest.mark.parametrize(
    ("finish", "request_", "wanted"),
    [
        ("stop", {}, "tool_calls"),
        ("length", {}, "length"),
        ("abort", {}, "abort"),
        ("stop", {"tool_choice": "required"}, "tool_calls"),
        ("stop", {"tool_choice": {"type": "function", "function": {"name": "weather"}}}, "stop"),
        ("stop", {"tool_choice": "none"}, "stop"),
        ("stop", {"tools": None}, "stop"),
    ],
)
def test_finish_reasons(finish, request_, wanted):
    """B43."""
    assert whole_of(ANSWER, finish, **request_)["finish_reason"] == wanted
    assert cut_of(ANSWER, [1] * 30, finish, **request_)["finish_reason"] == wanted


def test_calls_that_are_not_read_stay_content():
    whole = whole_of(f"</think>{CALL}", tool_choice="none")
    assert (whole["content"], whole["calls"]) == (CALL, {})


def test_forced_choice_has_empty_rather_than_no_content():
    body = {"generate_response": response(f"</think>{CALL}"), "prompt_token_ids": PROMPT}
    for choice, content in (("required", ""), ("auto", None)):
        whole = chat(MODEL, **body, chat_request={**ASK, "tool_choice": choice})
        assert whole["choices"][0]["message"]["content"] == content


def test_one_call_where_parallel_calls_are_not_wanted():
    assert {i: c[1] for i, c in whole_of(ANSWER, parallel_tool_calls=False)["calls"].items()} == {0: "weather"}


def test_hidden_reasoning_tells_nothing():
    scores = {"content": [{"token_id": 97, "logprob": -1.0}]}
    asked = {**ASK, "include_reasoning": False, "logprobs": True, "return_token_ids": True}
    whole = chat(
        MODEL, generate_response=response(ANSWER, logprobs=scores), chat_request=asked, prompt_token_ids=PROMPT
    )["choices"][0]
    assert (whole["message"]["reasoning"], whole["logprobs"], whole["token_ids"]) == (None, None, None)
    assert whole["message"]["content"].strip() == "One moment."


def test_a_stop_string_cuts_reasoning_and_calls_too():
    """B37, B39: stop strings cut the raw text, as an engine's do."""
    whole = whole_of(ANSWER, stop=["look"])
    assert (whole["reasoning"].strip(), whole["content"], whole["stop_reason"]) == ("Let me", "", "look")
    cut = whole_of(ANSWER, stop=["海"])
    assert cut["calls"][0][1:] == ["weather", '{"city": "上']
    assert (cut["finish_reason"], cut["stop_reason"]) == ("tool_calls", "海")


def test_fragments_have_id_type_and_name_once():
    """B42."""
    seen = {}
    for part in chat_stream(MODEL, chunks(ANSWER, [1] * 200), chat_request=ASK, prompt_token_ids=PROMPT):
        for choice in part["choices"]:
            assert "finish_reason" in choice
            for fragment in choice["delta"].get("tool_calls", ()):
                first = fragment["index"] not in seen
                assert set(fragment) == ({"index", "id", "type", "function"} if first else {"index", "function"})
                assert set(fragment["function"]) == ({"name", "arguments"} if first else {"arguments"})
                seen.setdefault(fragment["index"], fragment["function"].get("name"))
    assert seen == CALLS


def test_choices_do_not_share_a_parser():
    """B31: one choice's close marker leaves the other inside reasoning."""
    texts = ["<think>one</think>two", f"<think>three 🙂 four {CALL}", "</think>five", "six"]
    streams = [chunks(t, [1] * 60) for t in texts]
    mixed = []
    for number in range(61):
        row = [{**s[number]["choices"][0], "index": i} for i, s in enumerate(streams)]
        mixed += [{"request_id": "resp_x", "choices": row[:3]}, {"request_id": "resp_x", "choices": row[3:]}]
    together = folded(
        chat_stream(MODEL, mixed, chat_request={**ASK, "n": 4, "temperature": 1}, prompt_token_ids=PROMPT)
    )
    whole = [whole_of(t) for t in texts]
    for index, alone in enumerate(whole):
        calls = {i: c[1:] for i, c in together[index].pop("calls").items()}
        assert calls == {i: c[1:] for i, c in alone.pop("calls").items()}
        assert together[index] == alone


def test_a_retried_chunk_keeps_its_call_ids():
    """B45."""
    parts = chunks(ANSWER, [40, 40, 40])
    state = None
    for chunk in parts:
        sent = {
            "stream": True,
            "generate_chunk": chunk,
            "stream_state": state,
            "chat_request": ASK,
            "prompt_token_ids": PROMPT,
        }
        first, again = chat(MODEL, **sent), chat(MODEL, **sent)
        assert first == again
        state = first["stream_state"]


def test_what_a_model_with_formats_needs():
    for body, param in (
        ({"generate_response": response("a")}, "chat_request"),
        ({"stream": True, "generate_chunk": chunks("a", [])[0]}, "chat_request"),
        ({"stream": True, "generate_chunk": chunks("a", [])[0], "chat_request": ASK}, "prompt_token_ids"),
    ):
        with pytest.raises(InvalidRequest) as refusal:
            chat(MODEL, **body)
        assert refusal.value.param == param


def test_ids_depend_on_request_choice_and_call_alone():
    ids = CallIds("r", "alphanumeric9")
    made = {ids.of(choice, number, "f") for choice in range(3) for number in range(3)}
    assert len(made) == 9
    assert all(re.fullmatch("[A-Za-z0-9]{9}", i) for i in made)
    assert ids.of(0, 1, "f") == CallIds("r", "alphanumeric9").of(0, 1, "another")
    assert CallIds("r", "counted", history_calls=4).of(0, 1, "f") == "functions.f:5"
    assert CallIds("r").of(0, 0, "f", "native") == "native"


def test_the_state_stays_small_with_formats():
    state, sizes, body = None, [], {"prompt_token_ids": PROMPT}
    for chunk in chunks(ANSWER + "text " * 100, [1] * 600):
        sent = {"stream": True, "generate_chunk": chunk, "stream_state": state, "chat_request": ASK, **body}
        state, body = chat(MODEL, **sent)["stream_state"], {}
        sizes.append(len(state))
    assert max(sizes) < 500


@pytest.mark.parametrize(
    "arguments", [r'{"city": "\ud83d"}', r'"{\"city\": \"\ud83d\ude00 \ud83d\"}"', r'"\ud83d\ude00"', r'"\ud83d x"']
)
def test_half_a_surrogate_pair_in_escapes_is_an_answer(arguments):
    text = f'</think><tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>'
    whole = whole_of(text)
    assert whole["calls"][0][1] == "weather"
    assert cut_of(text, [1] * 90) == whole
