"""Processed items to their wire bytes and back.

One item is a msgpack map ``{field name: {"data": value, "field": [kind, params]}}``; a value is nil, an int, a float,
a tensor or an array of values; a tensor is ``[dtype, shape, ext type 3 of its raw little-endian C-order bytes]``.
On a JSON wire an item travels as standard base64. This is the layout of vLLM 0.33's ``kwargs_data``.
"""

import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pybase64
from msgspec import Struct

from app.errors import InvalidRequest
from app.multimodal.encoded import EncodedItem
from app.multimodal.splice import Piece, ext_header, marked, splice

__all__ = (
    "Batched",
    "Field",
    "FieldKind",
    "Flat",
    "Shared",
    "Tensor",
    "Value",
    "decode_item",
    "encode_item",
    "encode_pieces",
    "from_base64",
    "raw_item",
    "to_base64",
)

TENSOR_EXT = 3
ITEM_SIZES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
}
"""Bytes of one element, by torch's dtype name without its prefix."""
MAX_NESTING = 8
LARGE = 65_536
"""Tensors from this size on, in bytes, are not copied into an encoding."""


class Tensor(Struct, frozen=True):
    """An array as its wire form: torch dtype name, shape, raw little-endian C-order bytes.

    Raises:
        ValueError: the dtype is unknown, or the bytes don't fill the shape.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview

    def __post_init__(self) -> None:
        size = ITEM_SIZES.get(self.dtype)
        if size is None:
            raise ValueError(f"unknown tensor dtype {self.dtype!r}")
        if any(n < 0 for n in self.shape) or math.prod(self.shape) * size != len(self.data):
            raise ValueError(f"a {self.dtype} tensor of shape {list(self.shape)} does not take {len(self.data)} bytes")

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> "Tensor":
        """The tensor of a numpy array (bool, integers, float16, float32 or float64)."""
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return cls(array.dtype.name, array.shape, little.reshape(-1).view(np.uint8).data)

    def array(self) -> np.ndarray[Any, Any]:
        """The numpy array of the same shape; bfloat16, which numpy lacks, widens to float32."""
        if self.dtype == "bfloat16":
            wide = np.frombuffer(self.data, dtype="<u2").astype("<u4") << 16
            return wide.view("<f4").reshape(self.shape)
        return np.frombuffer(self.data, dtype=np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)


Value = None | int | float | Tensor | Sequence["Value"]


class Batched(Struct, frozen=True):
    """Item i is element i of the tensor that the engine stacks."""

    keep_on_cpu: bool = False


class Flat(Struct, frozen=True):
    """Items are slices along ``dim`` of a concatenation; ``slices`` are those of all items of the modality.

    ``slices[item][axis]`` is ``(start, stop, step or None)``.
    """

    slices: tuple[tuple[tuple[int, int, int | None], ...], ...]
    dim: int = 0
    keep_on_cpu: bool = False


class Shared(Struct, frozen=True):
    """The same value for all ``batch_size`` items of a batch."""

    batch_size: int
    keep_on_cpu: bool = False


FieldKind = Batched | Flat | Shared


class Field(Struct, frozen=True):
    """A field's value in one item, and how the engine batches it with the other items'."""

    data: Value
    kind: FieldKind


def encode_item(fields: Mapping[str, Field]) -> bytes:
    """The msgpack bytes of one item, its fields in the order given."""
    return _encoder.encode(
        {name: {"data": _pack(field.data), "field": _pack_kind(field.kind)} for name, field in fields.items()}
    )


def encode_pieces(fields: Mapping[str, Field]) -> list[Piece]:
    """What :func:`encode_item` answers, in pieces: large tensors stand in it as they are, uncopied."""
    large: list[list[Piece]] = []
    packed = {
        name: {"data": _pack(field.data, large), "field": _pack_kind(field.kind)} for name, field in fields.items()
    }
    return splice(_encoder.encode(packed), large)


def decode_item(data: bytes | memoryview, *, param: str = "features") -> dict[str, Field]:
    """The fields of one item's msgpack bytes.

    Raises:
        InvalidRequest: the bytes are no such item; ``param`` names where they came from.
    """
    try:
        raw = _decoder.decode(data)
        return {name: Field(_unpack(one["data"]), _unpack_kind(*one["field"])) for name, one in raw.items()}
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidRequest(f"This is not an encoded multimodal item: {error}.", param=param) from None


def raw_item(value: Any, *, param: str) -> bytes:
    """The bytes of an item as a request carries it: base64 text, bytes, or our own :class:`EncodedItem`.

    Raises:
        InvalidRequest: it is none of these; ``param`` names where it stands.
    """
    match value:
        case EncodedItem():
            return value.raw
        case bytes():
            return value
        case str():
            return from_base64(value, param=param)
    raise InvalidRequest("A multimodal item is base64 text, or bytes in a msgpack body.", param=param)


def to_base64(item: bytes) -> str:
    """An item's bytes as JSON carries them."""
    return pybase64.b64encode_as_string(item)


def from_base64(text: str, *, param: str = "features") -> bytes:
    """An item's bytes from their JSON form; raises :class:`InvalidRequest` naming ``param``."""
    try:
        return pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("A multimodal item must be standard base64.", param=param) from None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(dict[str, dict[str, Any]])


def _pack(value: Value, large: list[list[Piece]] | None = None) -> Any:
    if isinstance(value, Tensor):
        size = len(value.data)
        if large is None or size < LARGE:
            return [value.dtype, value.shape, msgspec.msgpack.Ext(TENSOR_EXT, value.data)]
        large.append([value.data])
        return [value.dtype, value.shape, marked(ext_header(size, TENSOR_EXT))]
    if isinstance(value, Sequence):
        return [_pack(one, large) for one in value]
    return value


def _unpack(value: Any, depth: int = 0) -> Value:
    if isinstance(value, list):
        if len(value) == 3 and isinstance(value[0], str):
            dtype, shape, ext = value
            if not isinstance(ext, msgspec.msgpack.Ext) or ext.code != TENSOR_EXT:
                raise ValueError("a tensor's third element is not an extension of type 3")
            return Tensor(dtype, tuple(int(n) for n in shape), memoryview(ext.data))
        if depth >= MAX_NESTING:
            raise ValueError("values are nested too deep")
        return [_unpack(one, depth + 1) for one in value]
    if value is None or isinstance(value, int | float):
        return value
    raise ValueError(f"a value of type {type(value).__name__} has no meaning here")


def _pack_kind(kind: FieldKind) -> list[Any]:
    match kind:
        case Batched(keep_on_cpu):
            return ["batched", {"keep_on_cpu": keep_on_cpu}]
        case Flat(slices, dim, keep_on_cpu):
            return ["flat", {"keep_on_cpu": keep_on_cpu, "slices": slices, "dim": dim}]
        case Shared(batch_size, keep_on_cpu):
            return ["shared", {"keep_on_cpu": keep_on_cpu, "batch_size": batch_size}]


def _unpack_kind(name: str, params: dict[str, Any]) -> FieldKind:
    kinds: dict[str, type[FieldKind]] = {"batched": Batched, "flat": Flat, "shared": Shared}
    if name not in kinds:
        raise ValueError(f"unknown field kind {name!r}")
    return msgspec.convert(params, kinds[name])
