"""A bounded memory of which ids a piece of text has.

Prompts repeat: a system message, a tool list, the turns so far. Between control tokens a text is encoded by itself, so
its ids can be kept. Two generations stand in for an exact LRU order: what is found in the older one moves to the
younger, and when the younger is full the older is dropped. Single dictionary reads and writes need no lock, and a lost
race costs one encode and never a wrong answer.
"""

from collections.abc import Sequence
from sys import getsizeof
from threading import Lock

__all__ = ("SegmentCache",)

_OVERHEAD = 160
"""Bytes that an entry takes beside its text and ids: a list object and a dictionary slot, roughly."""


class SegmentCache:
    """Segment text to its ids.

    Args:
        max_bytes: about what all entries may take together; 0 keeps nothing.
        vocab_size: ids below it are kept as shared integers, 8 bytes each instead of 36.
    """

    def __init__(self, max_bytes: int, vocab_size: int = 0) -> None:
        self.max_bytes = max_bytes
        self._shared: Sequence[int] = list(range(vocab_size)) if max_bytes else ()
        self._young: dict[str, list[int]] = {}
        self._old: dict[str, list[int]] = {}
        self._young_bytes = self._old_bytes = 0
        self._turn = Lock()

    def emptied(self) -> "SegmentCache":
        """Another one of this size, with nothing in it."""
        other = SegmentCache(0)
        other.max_bytes, other._shared = self.max_bytes, self._shared
        return other

    @property
    def bytes_used(self) -> int:
        """About what all entries take now."""
        return self._young_bytes + self._old_bytes

    def get(self, text: str) -> list[int] | None:
        """The ids of ``text``, not to be changed; None where they are not known."""
        ids = self._young.get(text)
        if ids is None and (ids := self._old.get(text)) is not None:
            self._add(text, ids)
        return ids

    def put(self, text: str, ids: list[int]) -> None:
        """Keep ``ids``, if one entry is not too much of the whole."""
        shared = self._shared
        try:
            kept = list(map(shared.__getitem__, ids))
        except IndexError:
            return
        self._add(text, kept)

    def _add(self, text: str, ids: list[int]) -> None:
        size = _OVERHEAD + getsizeof(text) + 8 * len(ids)
        if size * 8 > self.max_bytes:
            return
        with self._turn:
            if text in self._young:
                return
            if (self._young_bytes + size) * 2 > self.max_bytes:
                self._old, self._old_bytes = self._young, self._young_bytes
                self._young, self._young_bytes = {}, 0
            self._young[text] = ids
            self._young_bytes += size
