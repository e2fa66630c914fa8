"""Processed items on their way to a wire and from it: base64 in JSON, raw in msgpack."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pybase64

from app.multimodal.splice import Body, Piece, bin_header, marked, splice

__all__ = ("EncodedItem", "json_body", "msgpack_body")

BASE64_SLICE = 3 * 2**19
"""Bytes encoded at a time, a millisecond's work at most; a multiple of three, so that slices join."""


class EncodedItem:
    """An item's msgpack bytes in pieces, its large tensors among them uncopied.

    The base64 is made once, by :meth:`text`, in a worker thread before the event loop writes the reply. (Not a Struct:
    msgspec would write its fields instead of asking :meth:`to_json` and :meth:`to_msgpack`.)
    """

    __slots__ = ("_text", "pieces", "size")

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.size = sum(len(one) for one in pieces)
        """Bytes."""
        self._text: list[bytes] | None = None

    @property
    def raw(self) -> bytes:
        """All bytes in one."""
        return b"".join(self.pieces)

    def text(self) -> list[bytes]:
        """Standard base64, in pieces; made so that other threads get their turn between them."""
        if self._text is None:
            self._text = [pybase64.b64encode(block) for block in _blocks(self.pieces)]
        return self._text

    @property
    def text_size(self) -> int:
        """Characters of base64."""
        return (self.size + 2) // 3 * 4

    @staticmethod
    def to_json(value: Any) -> Any:
        """``enc_hook`` of a JSON encoder."""
        if isinstance(value, EncodedItem):
            return msgspec.Raw(b"".join([b'"', *value.text(), b'"']))
        raise NotImplementedError(f"a {type(value).__name__} has no wire form")


def json_body(value: Any) -> Body:
    """A value's JSON, its items as base64 that is copied nowhere. For a worker thread, where items are large."""
    items: list[EncodedItem] = []
    encoding = msgspec.json.Encoder(enc_hook=_marking(items, lambda _: b'"')).encode(value)
    return Body(splice(encoding, [[*one.text(), b'"'] for one in items]))


def msgpack_body(value: Any) -> Body:
    """A value's msgpack, its items raw and copied nowhere."""
    items: list[EncodedItem] = []
    encoding = msgspec.msgpack.Encoder(enc_hook=_marking(items, lambda one: bin_header(one.size))).encode(value)
    return Body(splice(encoding, [one.pieces for one in items]))


def _marking(items: list[EncodedItem], head: Callable[[EncodedItem], bytes]) -> Callable[[Any], msgspec.Raw]:
    """An ``enc_hook`` that collects the items and leaves a mark behind the head of each."""

    def hook(one: Any) -> msgspec.Raw:
        if not isinstance(one, EncodedItem):
            raise NotImplementedError(f"a {type(one).__name__} has no wire form")
        items.append(one)
        return marked(head(one))

    return hook


def _blocks(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The bytes of all pieces in blocks whose length is a multiple of three, but for the last one."""
    rest = b""
    for piece in pieces:
        view = memoryview(piece)
        if rest:
            lacking = -len(rest) % 3
            rest, view = rest + view[:lacking], view[lacking:]
            if len(rest) % 3:
                continue
            yield rest
        whole = len(view) // 3 * 3
        for at in range(0, whole, BASE64_SLICE):
            yield view[at : min(at + BASE64_SLICE, whole)]
        rest = bytes(view[whole:])
    if rest:
        yield rest
