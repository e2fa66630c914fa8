"""A cache of processed items, bounded in bytes, the least recently used going first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ("ByteCache",)

V = TypeVar("V")


class ByteCache(Generic[V]):
    """Thread-safe.

    Args:
        capacity: in bytes; 0 keeps nothing.
        size: a value's bytes.
    """

    def __init__(self, capacity: int, size: Callable[[V], int]) -> None:
        self._capacity = capacity
        self._size = size
        self._held = 0
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes in the cache now; never more than the capacity."""
        return self._held

    def get(self, key: Hashable) -> V | None:
        """The value under ``key``, which becomes the most recently used."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: V) -> None:
        """Keep ``value``, unless it alone is larger than the whole cache."""
        size = self._size(value)
        if size > self._capacity:
            return
        with self._lock:
            old = self._values.pop(key, None)
            self._held += size - (self._size(old) if old is not None else 0)
            self._values[key] = value
            while self._held > self._capacity:
                _, gone = self._values.popitem(last=False)
                self._held -= self._size(gone)
