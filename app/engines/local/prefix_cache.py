"""Keys and values of recent sequences, for prompts that begin alike."""

from collections.abc import Iterable, Sequence

from app.engines.local.attention import KvCache

__all__ = ("PrefixCache", "common_prefix")


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common prefix, by bisection over slice comparisons (which run in C)."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


class PrefixCache:
    """Finished sequences' caches, least recently used first; ``limit`` in tokens, 0 keeps none.

    Entries of different ``salt`` never meet, so that nobody can time what another tenant has asked.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.tokens = 0
        self._entries: list[tuple[str | None, list[int], KvCache]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def find(
        self, ids: Sequence[int], salt: str | None, running: Iterable[tuple[str | None, Sequence[int], KvCache]] = ()
    ) -> tuple[int, KvCache | None]:
        """The longest computed prefix of ``ids`` among the entries and what is ``running``: its length, its owner."""
        best, owner, used = 0, None, None
        for entry in [*self._entries, *running]:
            entry_salt, entry_ids, cache = entry
            if entry_salt != salt or not entry_ids or entry_ids[0] != ids[0]:
                continue
            length = min(common_prefix(entry_ids, ids), cache.length)
            if length > best:
                best, owner, used = length, cache, entry
        self._entries.sort(key=lambda entry: entry is used)
        return best, owner

    def add(self, ids: list[int], salt: str | None, cache: KvCache) -> None:
        """Keep the cache of a finished sequence; what it makes superfluous goes, then the oldest."""
        if cache.length == 0 or cache.capacity > self.limit:
            return
        ids = ids[: cache.length]
        kept = []
        for entry in self._entries:
            if entry[0] == salt and len(entry[1]) <= len(ids) and ids[: len(entry[1])] == entry[1]:
                self.tokens -= entry[2].capacity
            else:
                kept.append(entry)
        self._entries = [*kept, (salt, ids, cache)]
        self.tokens += cache.capacity
        self.shrink(self.limit)

    def shrink(self, limit: int) -> None:
        """Drop the oldest until at most ``limit`` tokens are kept."""
        while self._entries and self.tokens > limit:
            self.tokens -= self._entries.pop(0)[2].capacity
