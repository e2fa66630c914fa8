"""A value with large byte strings in it to pieces of its encoding, in which those are not copied.

An encoder holds the GIL from its first byte to its last, and grows its buffer by copying; for 17 MB that is a stall of
the event loop, whatever thread does it. So a large part is encoded as a mark, and the encoding is cut at the marks.
"""

import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence

import msgspec

__all__ = ("CHUNK", "MARK", "Body", "Piece", "bin_header", "ext_header", "marked", "splice")

Piece = bytes | memoryview
CHUNK = 262_144
"""Bytes that are written to a connection at a time."""
MARK = secrets.token_bytes(16)
"""Stands for a part in an encoding; drawn at start-up, so that nobody can write it into a body."""


class Body:
    """An HTTP body's bytes in pieces; ``len`` is their sum."""

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


def splice(encoding: bytes, parts: Iterable[Sequence[Piece]]) -> list[Piece]:
    """The pieces of an encoding in which :data:`MARK` stands for each of ``parts``, in order."""
    first, *rest = encoding.split(MARK)
    pieces: list[Piece] = [first]
    for part, after in zip(parts, rest, strict=True):
        pieces += part
        pieces.append(after)
    return pieces


def marked(head: bytes) -> msgspec.Raw:
    """What an ``enc_hook`` answers for a part whose encoding begins with ``head``."""
    return msgspec.Raw(head + MARK)


def bin_header(size: int) -> bytes:
    """The msgpack header of a byte string."""
    if size < 2**8:
        return struct.pack(">BB", 0xC4, size)
    if size < 2**16:
        return struct.pack(">BH", 0xC5, size)
    return struct.pack(">BI", 0xC6, size)


def ext_header(size: int, code: int) -> bytes:
    """The msgpack header of a large extension (more than 65535 bytes; shorter ones have forms of their own)."""
    return struct.pack(">BIb", 0xC9, size, code)
