"""Logprobs: the token's own bytes, finite values, both wire forms, alternatives apart from each other."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.derendering.logprobs import FLOOR, LogprobOptions, LogprobReader, read_logprobs
from app.errors import InvalidRequest
from app.protocol.generate import GenerateLogprobs, TokenLogprob, TopLogprob
from tests.derendering.served import SmallModel, chat
from tests.derendering.tokenizers_at_hand import byte_level, sentencepiece

ALL = LogprobOptions(top=None)


def read(ids, options=ALL, tokenizer=None, tops=()):
    reader = LogprobReader(tokenizer or byte_level(), options)
    entries = [
        TokenLogprob(token_id=i, logprob=-1.0, top_logprobs=[TopLogprob(token_id=t, logprob=-2.0) for t in tops])
        for i in ids
    ]
    return reader.read(entries, b"")


def test_bytes_are_the_tokens_own():
    """B74: four tokens of one character."""
    positions, context = read("🙂".encode())
    assert [p.sampled.bytes for p in positions] == [[0xF0], [0x9F], [0x99], [0x82]]
    assert [p.sampled.token for p in positions] == ["", "", "", "🙂"]
    assert context == b""


@given(st.text(max_size=12))
def test_bytes_and_texts_make_up_the_text(text):
    for tokenizer, ids in ((byte_level(), list(text.encode())), (sentencepiece(), [b + 1 for b in text.encode()])):
        positions, _ = read(ids, tokenizer=tokenizer)
        assert b"".join(bytes(p.sampled.bytes) for p in positions) == text.encode()
        assert "".join(p.sampled.token for p in positions) == text


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(0, 12))
def test_a_cut_changes_nothing(ids, at):
    reader = LogprobReader(byte_level(), ALL)
    entries = [
        TokenLogprob(token_id=i, logprob=-1.0, top_logprobs=[TopLogprob(token_id=0x9F, logprob=-2.0)]) for i in ids
    ]
    whole, _ = reader.read(entries, b"")
    head, context = reader.read(entries[:at], b"")
    tail, _ = reader.read(entries[at:], context)
    assert head + tail == whole


def test_alternatives_are_resolved_apart_from_each_other():
    positions, _ = read("한".encode(), tops=("한".encode()[2], 97, 0x9F, 0xF0))
    last = positions[-1]
    assert [t.token for t in last.top] == ["한", "a", "\ud55f", ""]
    assert [t.bytes for t in last.top] == [[0x9C], [97], [0x9F], [0xF0]]
    alone, _ = read([0x9F])
    assert alone[0].sampled.token == "\ufffd"


def test_infinite_and_missing_values_are_the_floor():
    """B73."""
    raw = {"content": [{"token_id": 97, "logprob": None, "top_logprobs": [{"token_id": 98, "logprob": -9999.0}]}]}
    (entry,) = read_logprobs(raw)
    assert entry.logprob == FLOOR
    for value in (-math.inf, math.nan, math.inf):
        reader = LogprobReader(byte_level(), ALL)
        entries = [TokenLogprob(token_id=97, logprob=value, top_logprobs=[TopLogprob(token_id=98, logprob=value)])]
        (position,), _ = reader.read(entries, b"")
        assert (position.sampled.logprob, position.top[0].logprob) == (FLOOR, FLOOR)


def test_both_wire_forms_mean_the_same():
    ids = {
        "content": [{"token_id": 97, "logprob": -1.0, "rank": 1, "top_logprobs": [{"token_id": 98, "logprob": -2.0}]}]
    }
    names = {
        "content": [
            {
                "token": "token_id:97",
                "logprob": -1.0,
                "bytes": None,
                "top_logprobs": [{"token": "token_id:98", "logprob": -2.0, "bytes": None}],
            }
        ]
    }
    one, other = read_logprobs(ids), read_logprobs(names)
    assert [(e.token_id, [t.token_id for t in e.top_logprobs]) for e in one] == [(97, [98])]
    assert [(e.token_id, [t.token_id for t in e.top_logprobs]) for e in other] == [(97, [98])]
    assert read_logprobs(GenerateLogprobs(content=one)) is one
    assert read_logprobs(None) is read_logprobs({"content": None}) is None


@pytest.mark.parametrize(
    "raw", [1, {"content": 3}, {"content": [{"logprob": 1}]}, {"content": [{"token": "token_id:x"}]}]
)
def test_what_is_no_logprobs_is_refused(raw):
    with pytest.raises(InvalidRequest) as refusal:
        read_logprobs(raw, param="here")
    assert refusal.value.param == "here"


def test_alternatives_are_cut_and_named_as_asked():
    positions, _ = read([97], LogprobOptions(top=2, as_ids=True), tops=(97, 98, 99))
    assert [t.token for t in positions[0].top] == ["token_id:97", "token_id:98"]
    assert (positions[0].sampled.token, positions[0].sampled.bytes) == ("token_id:97", None)
    assert read([97], LogprobOptions(top=0), tops=(97,))[0][0].top == []


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({"logprobs": True, "top_logprobs": 2}, 2),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": -1}, 4),
        ({"logprobs": True, "logprob_token_ids": [1]}, 4),
        ({}, 4),
    ],
)
def test_chat_cuts_to_its_top_logprobs(asked, kept):
    tops = [{"token_id": t, "logprob": -1.0} for t in (97, 98, 99, 100)]
    answer = {
        "choices": [
            {"token_ids": [97], "logprobs": {"content": [{"token_id": 97, "logprob": -1.0, "top_logprobs": tops}]}}
        ]
    }
    request = {"messages": [{"role": "user", "content": "hi"}], **asked}
    whole = chat(SmallModel(), generate_response=answer, chat_request=request)
    assert len(whole["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == kept
