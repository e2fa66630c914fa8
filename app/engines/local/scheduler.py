"""Waiting and running sequences to the work of the next step.

Every running sequence that decodes gets one token a step; what is left of the step's token budget goes to prompts, in
order of admission, in pieces. Memory is counted in tokens of cache: where it runs out, kept prefixes go first, then
the sequence admitted last gives its cache back and is computed anew later.
"""

import heapq
import itertools

from app.engines.local.attention import KvCache
from app.engines.local.prefix_cache import PrefixCache
from app.engines.local.sequence import Sequence

__all__ = ("Scheduler",)


class Scheduler:
    """Who computes what next. Not thread-safe: the model thread's own.

    Args:
        max_num_seqs: sequences that run at once.
        max_step_tokens: tokens computed in one step.
        kv_tokens: tokens of cache, running and kept together; one sequence alone may take more.
        prefixes: where finished sequences' caches are kept.
    """

    def __init__(self, *, max_num_seqs: int, max_step_tokens: int, kv_tokens: int, prefixes: PrefixCache) -> None:
        self.max_num_seqs = max_num_seqs
        self.max_step_tokens = max_step_tokens
        self.kv_tokens = kv_tokens
        self.prefixes = prefixes
        self.running: list[Sequence] = []
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._arrivals = itertools.count()
        self._keys: dict[int, tuple[int, int]] = {}

    @property
    def waiting(self) -> int:
        """Sequences that have no place yet."""
        return len(self._waiting)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence: lower ``priority`` first, then in order of arrival."""
        key = (sequence.request.priority, next(self._arrivals))
        self._keys[id(sequence)] = key
        heapq.heappush(self._waiting, (*key, sequence))

    def drop(self, sequence: Sequence, *, keep: bool = True) -> None:
        """A sequence is over; its cache is kept for prompts that begin alike, unless ``keep`` is False."""
        self._keys.pop(id(sequence), None)
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self._waiting = [entry for entry in self._waiting if entry[2] is not sequence]
            heapq.heapify(self._waiting)
        if keep and sequence.cache is not None:
            self.prefixes.add(sequence.ids, sequence.salt, sequence.cache)
        sequence.cache = None

    def clear(self) -> list[Sequence]:
        """Forget everything, kept prefixes included; answers the sequences that were running or waiting."""
        gone = [*self.running, *(entry[2] for entry in self._waiting)]
        for sequence in gone:
            sequence.cache = None
        self.running, self._waiting, self._keys = [], [], {}
        self.prefixes.shrink(0)
        return gone

    def next_step(self) -> list[tuple[Sequence, int]]:
        """Sequences with how many of their pending tokens to compute now; room in their caches is made."""
        self._admit()
        while True:
            work = self._share()
            if self._make_room(work):
                break
        for sequence, count in work:
            assert sequence.cache is not None
            sequence.cache.reserve(sequence.cache.length + count)
        return work

    def _admit(self) -> None:
        held = []
        while self._waiting and len(self.running) < self.max_num_seqs:
            priority, arrival, sequence = heapq.heappop(self._waiting)
            if self._follows(sequence):
                held.append((priority, arrival, sequence))
                continue
            if self.running and self._used() - self.prefixes.tokens + len(sequence.ids) > self.kv_tokens:
                held.append((priority, arrival, sequence))
                break
            self._begin(sequence)
            self.running.append(sequence)
        for entry in held:
            heapq.heappush(self._waiting, entry)

    def _follows(self, sequence: Sequence) -> bool:
        """Whether another output of the same request is computing the prompt right now."""
        return sequence.plan.read_prefix_cache and any(
            other.request is sequence.request and other.pending > 1 and not other.output for other in self.running
        )

    def _begin(self, sequence: Sequence) -> None:
        length, owner = 0, None
        if sequence.plan.read_prefix_cache:
            salt = sequence.salt
            running = [(s.salt, s.ids, s.cache) for s in self.running if s.cache is not None]
            length, owner = self.prefixes.find(sequence.ids, salt, running)
        length = min(length, len(sequence.ids) - 1)
        sequence.cache = owner.copy(length) if owner is not None and length > 0 else KvCache()
        if not sequence.output:
            sequence.cached_tokens = sequence.cache.length

    def _share(self) -> list[tuple[Sequence, int]]:
        work = [(sequence, 1) for sequence in self.running if sequence.pending == 1]
        left = max(1, self.max_step_tokens - len(work))
        for sequence in self.running:
            if sequence.pending > 1 and left > 0:
                count = min(sequence.pending, left)
                if sequence.media is not None and sequence.cache is not None:
                    count = sequence.media.uncut(sequence.cache.length, count)
                work.append((sequence, count))
                left -= count
        return work

    def _used(self) -> int:
        return self.prefixes.tokens + sum(s.cache.capacity for s in self.running if s.cache is not None)

    def _make_room(self, work: list[tuple[Sequence, int]]) -> bool:
        """Whether ``work`` fits; where it doesn't, the last sequence has been put back and the answer is False."""
        growth = 0
        for sequence, count in work:
            assert sequence.cache is not None
            growth += sequence.cache.growth(sequence.cache.length + count)
        over = self._used() + growth - self.kv_tokens
        if over > 0 and self.prefixes.tokens:
            before = self.prefixes.tokens
            self.prefixes.shrink(max(0, before - over))
            over -= before - self.prefixes.tokens
        if over <= 0 or len(self.running) <= 1:
            return True
        last = max(self.running, key=lambda sequence: self._keys[id(sequence)])
        self.running.remove(last)
        last.cache = None
        heapq.heappush(self._waiting, (*self._keys[id(last)], last))
        return False
