"""Markers in a prompt become placeholders, in order, and only for items that the request has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.multimodal.placeholders import Placed, embed_mask, place
from app.multimodal.processor import Expansion, Marker

IMAGE, VIDEO = 100, 101
MARKERS = {"image": Marker("<img>", (IMAGE,)), "video": Marker("<vid>", (VIDEO, VIDEO))}

words = st.lists(st.integers(0, 9), max_size=4)
kinds = st.sampled_from(["image", "video"])
prompts = st.lists(st.tuples(words, kinds, st.integers(1, 5)), max_size=6)


def expansion(modality, length):
    pad = 200 if modality == "image" else 201
    return Expansion((7, *(pad,) * length, 8), 1, length, frozenset({pad}))


@given(prompts, words)
def test_every_item_stands_where_its_marker_stood(parts, tail):
    ids, items, wanted = [], [], []
    for text, modality, length in parts:
        ids += [*text, *MARKERS[modality].ids]
        items.append((modality, expansion(modality, length)))
        wanted += [*text, *items[-1][1].ids]
    prompt = [*ids, *tail]
    placed = place(prompt, items, MARKERS, [(at, at + 1) for at in range(len(prompt))])
    out, found = placed.ids, placed.placeholders
    assert out == wanted + tail
    assert len(placed.offsets) == len(out) and placed.offsets == sorted(placed.offsets)
    assert len(found) == len(items)
    for (_, one), placeholder in zip(items, found, strict=True):
        covered = out[placeholder.offset : placeholder.offset + placeholder.length]
        assert set(covered) == one.embed_ids
        assert embed_mask(out, placeholder, one.embed_ids) == [True] * one.length


def test_the_requests_order_may_differ_from_the_prompts_across_modalities():
    items = [("video", expansion("video", 2)), ("image", expansion("image", 3))]
    placed = place([IMAGE, 5, VIDEO, VIDEO], items, MARKERS)
    out, found = placed.ids, placed.placeholders
    assert [out[one.offset] for one in found] == [201, 200]


def test_b82_a_sparse_mask_is_derived_again_from_the_ids():
    sparse = Expansion((200, 9, 200, 200, 9), 0, 5, frozenset({200}))
    placed = place([1, IMAGE, 2], [("image", sparse)], MARKERS)
    out, (placeholder,) = placed.ids, placed.placeholders
    assert embed_mask(out, placeholder, sparse.embed_ids) == [True, False, True, True, False]


@pytest.mark.parametrize(("ids", "count"), [([IMAGE, IMAGE], 1), ([1], 1), ([VIDEO], 0), ([IMAGE], 2)])
def test_a_prompt_and_a_request_that_disagree_are_refused(ids, count):
    items = [("image", expansion("image", 1))] * count
    if ids == [VIDEO]:  # half a marker is no marker
        assert place(ids, items, MARKERS) == Placed(ids, [])
        return
    with pytest.raises(InvalidRequest) as caught:
        place(ids, items, MARKERS)
    assert caught.value.param == "messages"


def test_tokens_that_meet_at_a_seam_are_joined_as_the_tokenizer_would():
    one, two, three, four = 10, 11, 12, 13  # runs of newlines
    merges = {(one, two): three, (two, one): three, (two, two): four}
    markers = {"image": Marker("<img>", (IMAGE,), merges)}
    block = Expansion((two, 7, 200, 200, 8, two), 2, 2, frozenset({200}))
    placed = place([5, one, IMAGE, two, 6], [("image", block)], markers)
    out, (placeholder,) = placed.ids, placed.placeholders
    assert out == [5, three, 7, 200, 200, 8, four, 6]
    assert out[placeholder.offset : placeholder.offset + placeholder.length] == [200, 200]
    placed = place([IMAGE, IMAGE], [("image", block)] * 2, markers)
    out, (first, second) = placed.ids, placed.placeholders
    assert out == [two, 7, 200, 200, 8, four, 7, 200, 200, 8, two]
    assert (first.offset, second.offset) == (2, 7)
