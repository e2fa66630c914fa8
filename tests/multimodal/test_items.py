"""The item codec against byte vectors of the reference, and its round trip."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.multimodal.items import (
    Batched,
    Field,
    Flat,
    Shared,
    Tensor,
    decode_item,
    encode_item,
    from_base64,
    to_base64,
)

ZEROS = [Tensor.of(np.zeros(1, np.float32)), Tensor.of(np.zeros(2, np.float32))]
VECTORS = {
    "batched": (
        "image_grid_thw",
        Field(Tensor.of(np.array([1, 2, 2], np.int64)), Batched(True)),
        "ga5pbWFnZV9ncmlkX3Rod4KkZGF0YZOlaW50NjSRA8cYAwEAAAAAAAAAAgAAAAAAAAACAAAAAAAAAKVmaWVsZJKnYmF0Y2hlZIGra2VlcF9vbl9jcHXD",
    ),
    "shared bfloat16 scalar": (
        "s",
        Field(Tensor("bfloat16", (), b"\xc0\x3f"), Shared(2)),
        "gaFzgqRkYXRhk6hiZmxvYXQxNpDVA8A/pWZpZWxkkqZzaGFyZWSCq2tlZXBfb25fY3B1wqpiYXRjaF9zaXplAg==",
    ),
    "list of tensors": (
        "l",
        Field(ZEROS, Batched(True)),
        "gaFsgqRkYXRhkpOnZmxvYXQzMpEB1gMAAAAAk6dmbG9hdDMykQLXAwAAAAAAAAAApWZpZWxkkqdiYXRjaGVkgatrZWVwX29uX2NwdcM=",
    ),
    "nil": ("n", Field(None, Batched(True)), "gaFugqRkYXRhwKVmaWVsZJKnYmF0Y2hlZIGra2VlcF9vbl9jcHXD"),
    "int": ("i", Field(7, Batched(True)), "gaFpgqRkYXRhB6VmaWVsZJKnYmF0Y2hlZIGra2VlcF9vbl9jcHXD"),
}


@pytest.mark.parametrize("case", VECTORS)
def test_bytes_are_the_references(case):
    name, field, wire = VECTORS[case]
    assert to_base64(encode_item({name: field})) == wire
    assert decode_item(from_base64(wire)) == {name: field}


def test_flat_slices_are_written_for_all_items():
    pixels = Tensor.of(np.array([[1, 2], [3, 4]], np.uint8))
    item = encode_item({"pixel_values": Field(pixels, Flat((((0, 2, None),), ((2, 3, None),))))})
    assert item.hex() == (
        "81ac706978656c5f76616c75657382a4646174619" "3a575696e7438920202d60301020304"
        "a56669656c6492a4666c617483ab6b6565705f6f6e5f637075c2a6736c6963657392919300"
        "02c091930203c0a364696d00"
    )  # fmt: skip


dtypes = st.sampled_from([np.uint8, np.int32, np.int64, np.float32, np.float16, np.bool_])
arrays = st.builds(
    lambda dtype, shape, seed: np.random.default_rng(seed).integers(0, 2, shape).astype(dtype),
    dtypes,
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.integers(0, 9),
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), arrays, max_size=4))
def test_round_trip(fields):
    item = {name: Field(Tensor.of(array), Batched()) for name, array in fields.items()}
    back = decode_item(encode_item(item))
    assert list(back) == list(fields)
    for name, array in fields.items():
        value = back[name].data
        assert isinstance(value, Tensor)
        np.testing.assert_array_equal(value.array(), array)
        assert value.array().shape == array.shape


def test_bfloat16_widens():
    assert Tensor("bfloat16", (2,), b"\xc0\x3f\x80\xbf").array().tolist() == [1.5, -1.0]


@given(st.binary(max_size=64))
def test_garbage_is_refused_by_name(data):
    try:
        decode_item(data, param="features.kwargs_data.image[0]")
    except InvalidRequest as error:
        assert error.param == "features.kwargs_data.image[0]"


@pytest.mark.parametrize(
    "item",
    [
        {"x": {"data": ["float32", [2], 7], "field": ["batched", {}]}},
        {"x": {"data": None, "field": ["sideways", {}]}},
        {"x": {"data": None, "field": ["shared", {}]}},
        {"x": {"field": ["batched", {}]}},
        {"x": {"data": "text", "field": ["batched", {}]}},
    ],
)
def test_wrong_shapes_are_refused(item):
    import msgspec

    with pytest.raises(InvalidRequest):
        decode_item(msgspec.msgpack.encode(item))


@pytest.mark.parametrize(("dtype", "shape", "size"), [("float32", (2,), 7), ("float99", (1,), 4), ("uint8", (-1,), 1)])
def test_a_tensor_fills_its_shape(dtype, shape, size):
    with pytest.raises(ValueError, match="tensor"):
        Tensor(dtype, shape, bytes(size))
