"""Chat derender of a model without output formats: text, stops, logprobs, states, usage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.derendering.stream_state import StateSeal
from app.errors import InvalidRequest, InvalidState
from tests.derendering.served import SmallModel, chat, chat_stream, cut, folded, message
from tests.derendering.tokenizers_at_hand import byte_level, sentencepiece, wordpiece

ASK = {"messages": [{"role": "user", "content": "hi"}]}
EOS = byte_level().eos_token_id
OTHER_EOS = byte_level().token_to_id("<|end|>")


def ids_of(text):
    return byte_level().encode(text).ids


def response(ids, finish="stop", stop=None, request_id="chatcmpl-x", index=0, **choice):
    answer = {"index": index, "token_ids": ids, "finish_reason": finish, "stop_reason": stop, **choice}
    return {"request_id": request_id, "choices": [answer]}


def chunks_of(ids, sizes, finish="stop", stop=None, index=0, logprobs=None):
    parts = cut(ids, sizes)
    found, at = [], 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        choice = {"index": index, "token_ids": part, "finish_reason": finish if last else None}
        choice["stop_reason"] = stop if last else None
        if logprobs is not None:
            choice["logprobs"] = {"content": logprobs[at : at + len(part)]}
        at += len(part)
        found.append({"request_id": "chatcmpl-x", "choices": [choice]})
    return found


@given(
    number=st.integers(0, 2),
    ids=st.lists(st.integers(0, 280), max_size=20),
    sizes=st.lists(st.integers(0, 4), max_size=8),
    finish=st.sampled_from(["stop", "length", "abort"]),
    stop=st.lists(st.sampled_from(["a", "EN", "END", "ab", "\ufffd"]), max_size=2),
    extra=st.fixed_dictionaries(
        {
            "skip_special_tokens": st.booleans(),
            "include_stop_str_in_output": st.booleans(),
            "min_tokens": st.integers(0, 3),
            "ignore_eos": st.booleans(),
        }
    ),
)
def test_any_cut_of_any_tokens_gives_the_whole_message(number, ids, sizes, finish, stop, extra):
    """Laws 1 and 2."""
    model = SmallModel([byte_level, sentencepiece, wordpiece][number]())
    ids = [i % (model.vocab_size + 2) for i in ids]
    body = {"chat_request": {**ASK, "stop": stop, "stop_token_ids": [5], **extra}, "prompt_token_ids": [3, 4]}
    whole = chat(model, generate_response=response(ids, finish), **body)
    parts = chat_stream(model, chunks_of(ids, sizes, finish), **body)
    assert folded(parts)[0] == message(whole["choices"][0])
    again = chat_stream(model, chunks_of(ids, [1] * len(ids), finish), **body)
    assert folded(again) == folded(parts)


def test_the_whole_answer_has_all_keys():
    whole = chat(SmallModel(), generate_response=response([*ids_of("hello"), EOS]), model="asked", prompt_tokens=3)
    assert list(whole) == [
        *("id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage"),
        *("prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics"),
    ]
    choice = whole["choices"][0]
    assert list(choice) == [
        *(
            "index",
            "message",
            "logprobs",
            "finish_reason",
            "stop_reason",
            "token_ids",
            "routed_experts",
            "weight_versions",
        ),
    ]
    assert choice["message"] == {
        "role": "assistant",
        "content": "hello",
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    assert (whole["id"], whole["model"], whole["usage"]["total_tokens"]) == ("chatcmpl-x", "asked", 5)


def test_a_chunk_has_all_keys_and_the_role_once():
    first, second = chat_stream(SmallModel(), chunks_of(ids_of("hello ab"), [1]))
    assert set(first) == {
        *("id", "object", "created", "model", "choices", "usage", "system_fingerprint", "prompt_token_ids"),
        *("prompt_text", "metrics", "kv_transfer_params"),
    }
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "hello", "reasoning": None}
    assert second["choices"][0]["delta"]["role"] is None
    assert (first["choices"][0]["finish_reason"], second["choices"][0]["finish_reason"]) == (None, "stop")


def test_a_usage_only_first_chunk_defers_the_role():
    usage = {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
    first, second = chat_stream(
        SmallModel(),
        [{"request_id": "x", "usage": usage, "choices": []}, response(ids_of("a"), request_id="x")],
        prompt_tokens=7,
    )
    assert first["choices"] == []
    assert first["usage"]["total_tokens"] == 11
    assert second["choices"][0]["delta"]["role"] == "assistant"


@pytest.mark.parametrize(
    ("last", "stop", "request_", "text", "reason"),
    [
        (EOS, None, {}, "", None),
        (OTHER_EOS, None, {}, "", OTHER_EOS),
        (OTHER_EOS, None, {"ignore_eos": True, "skip_special_tokens": False}, "<|end|>", None),
        (97, 97, {}, "", 97),
        (97, None, {"stop_token_ids": [97]}, "", 97),
        (97, None, {"stop_token_ids": [97], "include_stop_str_in_output": True}, "a", 97),
        (97, None, {}, "a", None),
    ],
)
def test_the_stop_token_is_no_text(last, stop, request_, text, reason):
    body = {"chat_request": {**ASK, **request_}}
    whole = chat(SmallModel(), generate_response=response([98, last], "stop", stop), **body)
    choice = whole["choices"][0]
    assert (choice["message"]["content"], choice["stop_reason"]) == ("b" + text, reason)
    assert whole["usage"]["completion_tokens"] == 2


def test_a_stop_string_cuts_text_logprobs_ids_and_usage_alike():
    """B37: the engine went on past it."""
    ids = ids_of("a END b")
    scores = [{"token_id": i, "logprob": -1.0, "top_logprobs": []} for i in ids]
    body = {"chat_request": {**ASK, "stop": ["END"], "logprobs": True, "return_token_ids": True}}
    whole = chat(SmallModel(), generate_response=response(ids, "length", logprobs={"content": scores}), **body)
    choice = whole["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"], choice["stop_reason"]) == ("a ", "stop", "END")
    kept = len(choice["token_ids"])
    assert byte_level().decode(choice["token_ids"]) == "a END"
    assert (len(choice["logprobs"]["content"]), whole["usage"]["completion_tokens"]) == (kept, kept)
    parts = chat_stream(SmallModel(), chunks_of(ids, [1] * len(ids), "length", logprobs=scores), **body)
    assert folded(parts)[0] == message(choice)
    assert sum(len(c["token_ids"]) for part in parts for c in part["choices"]) == kept
    assert sum(c["finish_reason"] is not None for part in parts for c in part["choices"]) == 1


def test_usage_leaves_out_what_came_after_a_stop_string():
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    chunks = [
        *chunks_of([97, 98, 99, 100, 101], [1] * 4, "length"),
        {"request_id": "chatcmpl-x", "choices": [], "usage": usage},
    ]
    parts = chat_stream(SmallModel(), chunks, chat_request={**ASK, "stop": ["b"]})
    assert (parts[-1]["usage"]["completion_tokens"], parts[-1]["usage"]["prompt_tokens"]) == (2, 3)


def test_the_engines_stop_string_is_cut_even_if_the_request_did_not_come():
    whole = chat(SmallModel(), generate_response=response(ids_of("hello END"), "stop", "END"))
    assert whole["choices"][0]["message"]["content"] == "hello "


def test_nothing_and_empty_outputs_are_answers():
    assert chat(SmallModel(), generate_response={"choices": []})["choices"] == []
    for ids in ([], None):
        choice = chat(SmallModel(), generate_response=response(ids, "abort"))["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("", "abort")
    (only,) = chat_stream(SmallModel(), chunks_of([], []))
    assert only["choices"][0]["finish_reason"] == "stop"


def test_ids_outside_the_vocabulary_are_no_text():
    assert chat(SmallModel(), generate_response=response([97, 999_999, 98]))["choices"][0]["message"]["content"] == "ab"


def test_choices_interleave_and_share_chunks():
    """n > 1: one state over all indices, or one state per index."""
    texts = {0: "hello ab", 1: "한🙂", 2: "b", 3: "END"}
    streams = {i: chunks_of(ids_of(t), [1] * 8, index=i) for i, t in texts.items()}
    mixed = []
    for number in range(9):
        row = [s[number]["choices"][0] for s in streams.values()]
        mixed += [{"request_id": "chatcmpl-x", "choices": row[:2]}, {"request_id": "chatcmpl-x", "choices": row[2:]}]
    together = folded(chat_stream(SmallModel(), mixed))
    apart = {i: folded(chat_stream(SmallModel(), s))[i] for i, s in streams.items()}
    assert together == apart
    assert {i: m["content"] for i, m in together.items()} == texts


def test_a_chunk_sent_twice_gives_the_same_answer():
    model, state = SmallModel(), None
    for chunk in chunks_of(ids_of("hello END ab"), [1, 2, 1]):
        sent = {"stream": True, "generate_chunk": chunk, "stream_state": state, "prompt_token_ids": [1]}
        first, second = chat(model, **sent), chat(model, **sent)
        assert first == second
        state = first["stream_state"]
    nameless = {"choices": [{"index": 0, "token_ids": [97]}]}
    assert chat(model, stream=True, generate_chunk=nameless) == chat(model, stream=True, generate_chunk=nameless)


def test_two_replicas_with_one_key_take_turns():
    """Law 7."""
    model, seals = SmallModel(), [StateSeal("shared"), StateSeal("shared")]
    state, text = None, ""
    for number, chunk in enumerate(chunks_of(ids_of("한🙂 hello"), [1] * 9)):
        answer = chat(model, seals[number % 2], stream=True, generate_chunk=chunk, stream_state=state)
        state = answer["stream_state"]
        text += "".join(c["delta"]["content"] or "" for c in answer["chunk"]["choices"])
    assert text == "한🙂 hello"


def test_forged_and_foreign_states_are_refused():
    model = SmallModel()
    chunk = chunks_of([97], [1])[0]
    state = chat(model, stream=True, generate_chunk=chunk)["stream_state"]
    flipped = state[:-6] + ("A" if state[-6] != "A" else "B") + state[-5:]
    renamed = SmallModel()
    renamed.name = "another"
    foreign = {**chunk, "request_id": "chatcmpl-y"}
    for bad, server, seal, sent in (
        (flipped, model, None, chunk),
        ("", model, None, chunk),
        ("é", model, None, chunk),
        ("AAAA", model, None, chunk),
        (state, model, StateSeal("another key"), chunk),
        (state, renamed, None, chunk),
        (state, model, None, foreign),
    ):
        with pytest.raises(InvalidState) as refusal:
            chat(server, *([seal] if seal else []), stream=True, generate_chunk=sent, stream_state=bad)
        assert refusal.value.param == "stream_state"


def test_the_state_stays_small():
    model, state, sizes = SmallModel(), None, []
    for chunk in chunks_of(ids_of("hello END 한 " * 40), [1] * 400):
        state = chat(
            model, stream=True, generate_chunk=chunk, stream_state=state, chat_request={**ASK, "stop": ["ENDE"]}
        )["stream_state"]
        sizes.append(len(state))
    assert max(sizes) < 300


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "generate_response"),
        ({"stream": True}, "generate_chunk"),
        ({"generate_response": {**response([1]), "output_mode": "text"}}, "generate_response.output_mode"),
        ({"generate_response": response([1] * 5000)}, "generate_response.choices[0].token_ids"),
        ({"generate_response": response([-1])}, "generate_response.choices[0].token_ids"),
        ({"generate_response": {"choices": [{}] * 16385}}, "generate_response.choices"),
        ({"generate_response": response([1]), "prompt_token_ids": [1] * 5000}, "prompt_token_ids"),
        ({"stream": True, "generate_chunk": response([1] * 90), "prompt_token_ids": [1] * 4090}, "generate_chunk"),
        (
            {
                "generate_response": response(
                    [1], logprobs={"content": [{"token_id": 1, "logprob": 0, "top_logprobs": [{}] * 22}]}
                )
            },
            "generate_response.choices[0].logprobs",
        ),
        (
            {"generate_response": response([1], logprobs={"content": [{"token": "hello", "logprob": 0}]})},
            "generate_response.choices[0].logprobs",
        ),
        (
            {"generate_response": {**response([1]), "prompt_logprobs": [None] * 5000}},
            "generate_response.prompt_logprobs",
        ),
        (
            {"generate_response": response([1]), "chat_request": {**ASK, "tools": [], "tool_choice": "x"}},
            "chat_request.tools",
        ),
    ],
)
def test_what_is_refused(body, param):
    with pytest.raises(InvalidRequest) as refusal:
        chat(SmallModel(), **body)
    assert refusal.value.param == param
