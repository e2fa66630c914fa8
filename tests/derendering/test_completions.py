"""Completions derender: many answers, text offsets, streams; formats are never read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.completions.derender import derender
from app.errors import InvalidRequest
from tests.derendering.served import SmallModel, cut
from tests.derendering.talking import CALL, EOS, call, ids_of, talking_model

MODEL = SmallModel()


def scores(ids, top=()):
    return {
        "content": [
            {"token_id": i, "logprob": -0.5, "top_logprobs": [{"token_id": t, "logprob": -0.5} for t in (i, *top)]}
            for i in ids
        ]
    }


def streamed(ids, sizes, logprobs=True, **body):
    parts, state, at = [], None, 0
    pieces = cut(ids, sizes)
    for number, piece in enumerate(pieces):
        choice = {"token_ids": piece, "finish_reason": "stop" if number == len(pieces) - 1 else None}
        if logprobs:
            choice["logprobs"] = scores(piece)
        chunk = {"request_id": "cmpl-x", "choices": [choice]}
        answer = call("completions", MODEL, stream=True, generate_chunk=chunk, stream_state=state, **body)
        state = answer["stream_state"]
        parts.append(answer["chunk"])
        at += len(piece)
    return parts


def test_the_recorded_example():
    hello = ids_of("hello")
    answer = {"request_id": "cmpl-x", "choices": [{"token_ids": [*hello, EOS], "logprobs": scores([*hello, EOS])}]}
    answer["choices"][0]["logprobs"]["content"][1]["top_logprobs"] = []
    whole = call("completions", MODEL, generate_responses=[answer], prompt_tokens=[4])
    choice = whole["choices"][0]
    assert choice["text"] == "hello"
    assert choice["logprobs"] == {
        "text_offset": [0, 5],
        "token_logprobs": [-0.5, -0.5],
        "tokens": ["hello", "<|im_end|>"],
        "top_logprobs": [{"hello": -0.5}, None],
    }
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (4, 2)
    assert list(choice) == [
        *(
            "index",
            "text",
            "logprobs",
            "finish_reason",
            "stop_reason",
            "token_ids",
            "prompt_logprobs",
            "prompt_token_ids",
        ),
        *("routed_experts", "weight_versions"),
    ]


def test_many_answers_are_one_with_a_running_index():
    answers = [
        {"request_id": f"cmpl-{n}", "choices": [{"index": i, "token_ids": ids_of(t)} for i, t in enumerate(texts)]}
        for n, texts in enumerate((["a", "b"], ["hello"]))
    ]
    answers[0]["kv_transfer_params"] = {"a": 1}
    whole = call("completions", MODEL, generate_responses=answers, prompt_tokens=[1, 2], prompt_token_ids=[[97], None])
    assert [(c["index"], c["text"]) for c in whole["choices"]] == [(0, "a"), (1, "b"), (2, "hello")]
    assert (whole["id"], whole["usage"]["prompt_tokens"], whole["kv_transfer_params"]) == ("cmpl-0", 3, None)


@given(
    ids=st.lists(st.integers(0, 280), max_size=14),
    sizes=st.lists(st.integers(0, 3), max_size=8),
    request_=st.fixed_dictionaries(
        {"stop": st.sampled_from([[], ["a"], ["ll"]]), "logprobs": st.sampled_from([None, 0, 2])}
    ),
)
def test_any_cut_gives_the_whole_text_and_offsets(ids, sizes, request_):
    ids = [i % MODEL.vocab_size for i in ids]
    answer = {"request_id": "cmpl-x", "choices": [{"token_ids": ids, "logprobs": scores(ids)}]}
    whole = call("completions", MODEL, generate_responses=[answer], completion_request=request_)["choices"][0]
    parts = [c for p in streamed(ids, sizes, completion_request=request_) for c in p["choices"]]
    assert "".join(c["text"] for c in parts) == whole["text"]
    for key in whole["logprobs"]:
        assert [x for c in parts for x in c["logprobs"][key]] == whole["logprobs"][key]
    assert [c["finish_reason"] for c in parts if c["finish_reason"]] == [whole["finish_reason"]]


def test_formats_play_no_part():
    answer = {"choices": [{"token_ids": ids_of(f"<think>a</think>{CALL}")}]}
    whole = call("completions", talking_model(), generate_responses=[answer])
    assert whole["choices"][0]["text"] == f"<think>a</think>{CALL}"


def test_alternatives_are_cut_to_the_request():
    ids = ids_of("a")
    answer = {"choices": [{"token_ids": ids, "logprobs": scores(ids, (98, 99, 100))}]}
    for asked, kept in (({"logprobs": 1}, 2), ({"logprobs": -1}, 4), ({}, 4), (None, 4)):
        whole = call("completions", MODEL, generate_responses=[answer], completion_request=asked)
        assert len(whole["choices"][0]["logprobs"]["top_logprobs"][0]) == kept


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "generate_responses"),
        ({"generate_responses": []}, "generate_responses"),
        ({"generate_responses": [{"choices": []}], "prompt_tokens": [1, 2]}, "prompt_tokens"),
        ({"generate_responses": [{"choices": []}], "prompt_tokens": 1}, "prompt_tokens"),
        ({"generate_responses": [{"choices": []}], "prompt_token_ids": [[1], [2]]}, "prompt_token_ids"),
        ({"generate_responses": [{"choices": []}], "prompt_token_ids": [1]}, "prompt_token_ids[0]"),
        ({"stream": True}, "generate_chunk"),
        ({"stream": True, "generate_chunk": {"choices": []}, "prompt_token_ids": [[1]]}, "prompt_token_ids[0]"),
        (
            {"generate_responses": [{"choices": [{"token_ids": [1] * 5000}]}]},
            "generate_responses[0].choices[0].token_ids",
        ),
    ],
)
def test_what_is_refused(body, param):
    with pytest.raises(InvalidRequest) as refusal:
        call("completions", MODEL, **body)
    assert refusal.value.param == param


def test_a_state_of_another_endpoint_is_foreign():
    assert derender is not None
    state = streamed(ids_of("ab"), [1])
    assert state[0]["object"] == "text_completion"
