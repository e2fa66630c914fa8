"""Item hashes: the formula's worked example, and no two different items with one hash (B79)."""

import base64
import struct

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from app.multimodal.hashing import array_leaf, encoded_leaf, item_hash, value
from app.multimodal.picture import Picture
from app.multimodal.video import FrameSequence
from tests.multimodal.pictures import encoded, noise


def test_the_worked_example():
    data = b"a picture"

    def framed(text):
        raw = text if isinstance(text, bytes) else text.encode()
        return struct.pack("<Q", len(raw)) + raw

    message = framed("image") + b"\x03" + framed("image") + b"\x03" + framed(data)
    message += framed("model_id") + b"\x03" + framed("/path/of/model")
    assert item_hash("image", encoded_leaf("image", data), model_id="/path/of/model") == blake3(message).hexdigest()


LIMITS = {"background": (255, 255, 255), "max_pixels": 10**6, "param": "p"}


def framed(raw):
    return struct.pack("<Q", len(raw)) + raw


def test_an_image_that_is_converted_is_hashed_with_the_options_of_that():
    """As vLLM 0.33 answers for palette, grey and transparent images."""
    opaque, grey = (encoded(noise(8, 8).convert(mode)) for mode in ("RGB", "L"))
    assert Picture(opaque).content(**LIMITS) == encoded_leaf("image", opaque)
    white = b"\x01" + struct.pack("<Q", 3) + 3 * (b"\x03" + framed(struct.pack("<q", 255)))
    options = b"\x02" + struct.pack("<Q", 2) + framed(b"image_mode") + b"\x03" + framed(b"RGB")
    options += framed(b"rgba_background_color") + white
    both = b"\x02" + struct.pack("<Q", 2) + framed(b"io_config") + options + framed(b"data") + b"\x03" + framed(grey)
    assert Picture(grey).content(**LIMITS) == framed(b"image") + both


def test_frames_are_hashed_as_sent_with_their_times():
    """As vLLM 0.33 answers for ``data:video/jpeg``: the base64 text, or the pixels where those are fewer bytes."""
    frames = tuple(encoded(noise(8, 8, seed), "JPEG") for seed in range(2))
    leaf, times = FrameSequence(frames, 2.0).content(**LIMITS)
    pixels = FrameSequence(frames).pixels(**LIMITS).array()
    assert leaf == array_leaf(pixels, kind="video")
    assert list(times.items()) == [
        ("total_num_frames", 2), ("fps", 2.0), ("duration", 1.0), ("video_backend", "jpeg_sequence"),
        ("frames_indices", [0, 1]), ("do_sample_frames", False),
    ]  # fmt: skip
    large = tuple(encoded(Image.new("RGB", (200, 200), color), "JPEG") for color in ("red", "blue"))
    leaf, _ = FrameSequence(large).content(**LIMITS)
    assert leaf == encoded_leaf("video", b",".join(base64.b64encode(frame) for frame in large))


leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary()
trees = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def shape(x):
    """The value as hashing sees it: str and bytes of one content are one leaf, ints and floats differ by bytes."""
    if isinstance(x, dict):
        return ("map", tuple((k, shape(v)) for k, v in x.items()))
    if isinstance(x, list):
        return ("list", tuple(shape(v) for v in x))
    if isinstance(x, str):
        return x.encode()
    if isinstance(x, bool):
        return bytes([x])
    if isinstance(x, int):
        return struct.pack("<q", x)
    return struct.pack("<d", x) if isinstance(x, float) else x


@given(trees, trees)
def test_different_values_have_different_forms(a, b):
    assert (value(a) == value(b)) == (shape(a) == shape(b))


def test_shape_and_type_are_part_of_the_hash():
    wide, tall = np.zeros((30, 150), np.uint8), np.zeros((150, 30), np.uint8)
    hashes = {
        item_hash("image", array_leaf(array), model_id="m")
        for array in (wide, tall, wide.view(np.bool_), wide.view("<u2"))
    }
    assert len(hashes) == 4


def test_options_and_model_are_part_of_the_hash():
    leaf = encoded_leaf("image", b"x")
    hashes = {
        item_hash("image", leaf, model_id="m"),
        item_hash("image", leaf, model_id="n"),
        item_hash("video", leaf, model_id="m"),
        item_hash("image", leaf, model_id="m", mm_processor_kwargs={"max_pixels": 9}),
        item_hash("image", leaf, model_id="m", media_io_kwargs={"rgba_background_color": [0, 0, 0]}),
        item_hash("image", encoded_leaf("image", b"x", options={"a": 1}), model_id="m"),
    }
    assert len(hashes) == 6


def test_a_uuid_stands_for_the_item_unless_options_change_it():
    assert item_hash("image", "mine", model_id="m") == "mine"
    assert item_hash("image", "mine", model_id="m", mm_processor_kwargs={"max_pixels": 9}) != "mine"


def test_other_types_are_refused():
    with pytest.raises(TypeError):
        value(object())
