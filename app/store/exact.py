"""Exact token ids of a turn to bytes and back, each id stored once a chain.

A turn's prompt nearly always starts with its predecessor's prompt and output, so a turn stores how many ids it shares
with them and only the rest; a 200-turn chain costs its length in ids, not its square. Ids are packed as
little-endian unsigned 32-bit integers.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence

from msgspec import Struct

__all__ = ("ExactIds", "PackedIds", "TurnIds", "pack", "unpack")


class ExactIds(Struct, frozen=True):
    """Token ids of one turn: all that went in, all that came out (with the stop token where the engine gave it)."""

    prompt: Sequence[int]
    completion: Sequence[int]


class TurnIds(Struct, frozen=True):
    """One turn's ids, its id and its model's name."""

    response_id: str
    model: str
    ids: ExactIds


class PackedIds(Struct, frozen=True):
    """One turn's row: ``shared`` leading ids are the predecessor's, ``prompt`` are the others."""

    shared: int
    prompt: bytes
    completion: bytes


def pack(ids: ExactIds, previous: ExactIds | None) -> PackedIds:
    """A turn's ids over its predecessor's."""
    before = [] if previous is None else [*previous.prompt, *previous.completion]
    prompt = list(ids.prompt)
    shared = _common(before, prompt)
    return PackedIds(shared, _to_bytes(prompt[shared:]), _to_bytes(ids.completion))


def unpack(rows: Iterable[PackedIds | None]) -> ExactIds | None:
    """The ids of the last of a chain's turns (oldest first); None where it, or one that it builds on, has none."""
    known: array[int] | None = array("I")
    ids: ExactIds | None = None
    for row in rows:
        if row is None or (row.shared and (known is None or row.shared > len(known))):
            known = ids = None
            continue
        prompt = (known or array("I"))[: row.shared] + _from_bytes(row.prompt)
        completion = _from_bytes(row.completion)
        ids = ExactIds(prompt, completion)
        known = prompt + completion
    return ids


def _common(first: list[int], second: list[int]) -> int:
    """Length of the common prefix, by halving: slices compare at C speed."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _to_bytes(ids: Sequence[int]) -> bytes:
    packed = array("I", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _from_bytes(data: bytes) -> "array[int]":
    ids = array("I")
    ids.frombytes(data)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
