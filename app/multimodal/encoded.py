"""A processed item's bytes on their way to a wire."""

import binascii
from typing import Any

import msgspec

__all__ = ("EncodedItem",)

BASE64_SLICE = 3 * 2**18
"""Bytes encoded at a time, about a millisecond's work; a multiple of three, so that slices join."""


class EncodedItem:
    """An item's msgpack bytes on their way to a wire: base64 in JSON, raw in msgpack.

    The base64 is made once, by :meth:`text`, which a worker thread calls before the event loop writes the reply. (Not
    a Struct: msgspec would write its fields instead of asking :meth:`to_json` and :meth:`to_msgpack`.)
    """

    __slots__ = ("_text", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._text: bytes | None = None

    def text(self) -> bytes:
        """Standard base64, made in slices so that other threads get their turn between them."""
        if self._text is None:
            view = memoryview(self.raw)
            slices = (view[at : at + BASE64_SLICE] for at in range(0, len(view), BASE64_SLICE))
            self._text = b"".join(binascii.b2a_base64(one, newline=False) for one in slices)
        return self._text

    @staticmethod
    def to_json(value: Any) -> Any:
        """``enc_hook`` of a JSON encoder."""
        if isinstance(value, EncodedItem):
            return msgspec.Raw(b'"' + value.text() + b'"')
        raise NotImplementedError(f"a {type(value).__name__} has no wire form")

    @staticmethod
    def to_msgpack(value: Any) -> Any:
        """``enc_hook`` of a msgpack encoder."""
        if isinstance(value, EncodedItem):
            return value.raw
        raise NotImplementedError(f"a {type(value).__name__} has no wire form")
