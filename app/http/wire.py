"""A rendered reply to the bytes of the wire that the client asked for: JSON, or msgpack with raw tensors.

A text reply is one encoding. One with tensors is cut into pieces that are sent one after another, so that no single
step of the event loop copies or encodes megabytes; base64 is made in a thread.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from app.http.codec import MSGPACK, MSGPACK_TYPES, encode
from app.http.exchange import Exchange
from app.multimodal.encoded import EncodedItem
from app.multimodal.splice import Piece, bin_header, marked, splice
from app.protocol.generate import GenerateRequest

__all__ = ("Body", "wants_msgpack", "written")

CHUNK = 262_144
"""Bytes handed to the server at a time."""


class Body:
    """A reply's bytes in pieces; ``len`` is their sum."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.size = sum(len(piece) for piece in pieces)

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def chunks(self) -> Iterator[bytes]:
        """The bytes in chunks of about :data:`CHUNK`."""
        waiting: list[Piece] = []
        held = 0
        for piece in self.pieces:
            view = memoryview(piece)
            for at in range(0, len(view), CHUNK):
                waiting.append(view[at : at + CHUNK])
                held += len(waiting[-1])
                if held >= CHUNK:
                    yield b"".join(waiting)
                    waiting, held = [], 0
        yield b"".join(waiting)


def wants_msgpack(accept: bytes) -> bool:
    """Whether an ``Accept`` header prefers msgpack to JSON, by weight and then by order."""
    if b"msgpack" not in accept.lower():
        return False
    weights = {True: 0.0, False: 0.0}
    for entry in accept.split(b","):
        kind, *parameters = [part.strip().lower() for part in entry.split(b";")]
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith(b"q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        packed = kind in MSGPACK_TYPES
        if (packed or kind == b"application/json") and weight > weights[packed]:
            # Of equal weights the one named first wins: the later one is made to count a hair less.
            weights[packed] = weight - 1e-6 if weights[not packed] >= weight else weight
    return weights[True] > weights[False]


async def written(value: GenerateRequest | list[GenerateRequest], exchange: Exchange) -> bytes | Body:
    """A reply as the client asked for it; ``exchange.media_type`` says what it has become."""
    packed = bool(exchange.accept) and wants_msgpack(exchange.accept)
    if not packed and (isinstance(value, list) or value.features is None):
        return encode(value)
    items: list[EncodedItem] = []

    def json_hook(one: Any) -> Any:
        if not isinstance(one, EncodedItem):
            raise NotImplementedError(f"a {type(one).__name__} has no wire form")
        items.append(one)
        return marked(b'"')

    def msgpack_hook(one: Any) -> Any:
        if not isinstance(one, EncodedItem):
            raise NotImplementedError(f"a {type(one).__name__} has no wire form")
        items.append(one)
        return marked(bin_header(one.size))

    if packed:
        exchange.media_type = MSGPACK
        encoding = msgspec.msgpack.Encoder(enc_hook=msgpack_hook).encode(value)
        return Body(splice(encoding, [one.pieces for one in items])) if items else encoding
    encoding = msgspec.json.Encoder(enc_hook=json_hook).encode(value)
    if not items:
        return encoding
    await asyncio.to_thread(lambda: [one.text() for one in items])
    return Body(splice(encoding, [[*one.text(), b'"'] for one in items]))
