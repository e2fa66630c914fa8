"""Which worker has most of a prompt computed already, weighed against how busy it is.

Two sources: what this process has sent where (learned, bounded), and rendezvous hashing over the first block, by which
several front servers that have learned nothing yet, or different things, still agree. Cost of a worker, in blocks::

    blocks it has not seen + load weight * (its requests - fewest requests - slack, at least 0)

The cheapest worker wins; rendezvous decides between equals.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

__all__ = ("Affinity",)


class Affinity:
    """Learned prefixes by block hash; ``capacity`` blocks are remembered, least recently used ones forgotten."""

    def __init__(self, *, slack: int = 2, load_blocks: float = 8.0, capacity: int = 200_000) -> None:
        self._slack = slack
        self._load_blocks = load_blocks
        self._capacity = capacity
        self._seen: OrderedDict[int, dict[str, None]] = OrderedDict()

    def rank(self, blocks: Sequence[int], running: dict[str, int]) -> list[str]:
        """Workers, best first. ``running`` are their requests in flight; blocks come from ``prompt_blocks``."""
        least = min(running.values(), default=0)
        known = dict.fromkeys(running, 0)
        holders = set(running)
        for block in blocks:
            holders &= self._seen.get(block, {}).keys()
            if not holders:
                break
            for url in holders:
                known[url] += 1

        def cost(url: str) -> tuple[float, int]:
            load = max(0, running[url] - least - self._slack)
            return len(blocks) - known[url] + self._load_blocks * load, -_rendezvous(url, blocks)

        return sorted(running, key=cost)

    def learn(self, blocks: Sequence[int], url: str) -> None:
        """``url`` has computed these blocks."""
        for block in blocks:
            self._seen.setdefault(block, {})[url] = None
            self._seen.move_to_end(block)
        while len(self._seen) > self._capacity:
            self._seen.popitem(last=False)

    def forget(self, url: str) -> None:
        """``url`` was away; its cache is taken to be empty."""
        for holders in self._seen.values():
            holders.pop(url, None)


def _rendezvous(url: str, blocks: Sequence[int]) -> int:
    first = blocks[0] if blocks else 0
    return int.from_bytes(blake2b(first.to_bytes(8) + url.encode(), digest_size=8).digest())
