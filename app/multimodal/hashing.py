"""Media items to the hashes that caches and routers know them by.

The hash is the BLAKE3 (256 bit) hex digest of a self-delimiting serialisation: every string is preceded by its length
as a little-endian uint64, null, lists, maps and leaves start with bytes 0 to 3. It is vLLM 0.33's formula, so that both
give one hash for one item of one model. What changes the pixels that a model sees (processor and decode options,
raw pixel mode, size and palette) is part of it.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from blake3 import blake3

__all__ = ("array_leaf", "encoded_leaf", "frame", "item_hash", "value")


def frame(data: bytes | bytearray | memoryview) -> bytes:
    """``data`` with its length in bytes, a little-endian uint64, in front."""
    return struct.pack("<Q", len(data)) + data


class Leaf(bytes):
    """Serialised content that stands for itself as a leaf."""


def value(x: Any) -> bytes:
    """The serialisation of null, a list, a map, or a leaf (str, bytes, bool, int, float).

    Raises:
        TypeError: for any other type.
    """
    if x is None:
        return b"\x00"
    if isinstance(x, Leaf):
        return b"\x03" + x
    if isinstance(x, Mapping):
        return b"\x02" + struct.pack("<Q", len(x)) + b"".join(frame(str(k).encode()) + value(v) for k, v in x.items())
    if isinstance(x, str):
        return b"\x03" + frame(x.encode())
    if isinstance(x, bytes | bytearray | memoryview):
        return b"\x03" + frame(x)
    if isinstance(x, bool):
        return b"\x03" + frame(bytes([x]))
    if isinstance(x, int):
        return b"\x03" + frame(struct.pack("<q", x))
    if isinstance(x, float):
        return b"\x03" + frame(struct.pack("<d", x))
    if isinstance(x, Sequence):
        return b"\x01" + struct.pack("<Q", len(x)) + b"".join(value(one) for one in x)
    raise TypeError(f"a {type(x).__name__} has no hash form")


def encoded_leaf(kind: str, data: bytes, *, options: Mapping[str, Any] | None = None) -> Leaf:
    """An image or video by its encoded bytes as they were sent; ``options`` are the decode options, where given."""
    if options:
        return Leaf(frame(kind.encode()) + value({"io_config": options, "data": data}))
    # One copy of the data, of which there may be megabytes.
    return Leaf(b"".join((frame(kind.encode()), b"\x03", struct.pack("<Q", len(data)), data)))


def array_leaf(array: np.ndarray[Any, Any], *, kind: str = "ndarray") -> Leaf:
    """Raw values by dtype, shape and content; ``kind`` other than "ndarray" wraps it ("video")."""
    content = {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": np.ascontiguousarray(array).tobytes(),
    }
    leaf = Leaf(frame(b"ndarray") + value(content))
    return leaf if kind == "ndarray" else Leaf(frame(kind.encode()) + value(leaf))


def item_hash(
    modality: str,
    item: Leaf | str | list[Any],
    *,
    model_id: str,
    media_io_kwargs: Mapping[str, Any] | None = None,
    mm_processor_kwargs: Mapping[str, Any] | None = None,
) -> str:
    """The hex digest (64 characters) of one item for one model.

    ``item`` is a leaf of this module (or a list that begins with one), or the caller's own uuid: that is the answer as
    it is, except where processor options are given, which are then hashed together with it.
    """
    if isinstance(item, str) and not mm_processor_kwargs:
        return item
    parts: dict[str, Any] = {modality: item, "model_id": model_id}
    if media_io_kwargs:
        parts["media_io_kwargs"] = {modality: media_io_kwargs}
    if mm_processor_kwargs:
        parts["mm_processor_kwargs"] = mm_processor_kwargs
    digest = blake3()
    for key in sorted(parts):
        digest.update(frame(key.encode()))
        if isinstance(parts[key], Leaf):
            digest.update(b"\x03")
            digest.update(parts[key])
        else:
            digest.update(value(parts[key]))
    return digest.hexdigest()
