"""The small parts of engines by their properties: event reader, prefixes, blocks, affinity, breaker, draw."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engines.fleet.affinity import Affinity
from app.engines.fleet.blocks import prompt_blocks
from app.engines.fleet.breaker import Breaker
from app.engines.local.attention import KvCache
from app.engines.local.prefix_cache import PrefixCache, common_prefix
from app.engines.local.sampler import draw
from app.engines.local.sequence import repeats
from app.engines.sse import SseReader
from app.errors import EngineFailure
from app.protocol.generate import RepetitionDetection
from tests.engines.served import request

IDS = st.lists(st.integers(0, 3), max_size=40)


@given(st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b and b"\r" not in b), max_size=6), st.data())
def test_cuts_dont_matter_to_the_event_reader(events: list[bytes], data: Any) -> None:
    ending = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    stream = b": hello" + ending * 2
    stream += b"".join(b"event: x" + ending + b"data: " + event + ending * 2 for event in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = SseReader()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == events and not reader.unfinished


def test_an_endless_event_is_a_failure_and_not_memory() -> None:
    reader = SseReader(limit=1000)
    with pytest.raises(EngineFailure):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 100)


@given(IDS, IDS, IDS)
def test_common_prefix(shared: list[int], left: list[int], right: list[int]) -> None:
    a, b = shared + left, shared + right
    expected = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == expected


def cache(length: int) -> KvCache:
    made = KvCache()
    made.length = made.capacity = length
    return made


@given(st.lists(st.tuples(IDS.filter(bool), st.sampled_from([None, "s"])), max_size=12), IDS.filter(bool))
def test_the_prefix_cache_finds_the_longest_of_its_salt_within_its_limit(
    entries: list[tuple[list[int], str | None]], ids: list[int]
) -> None:
    prefixes = PrefixCache(10_000)
    for known, salt in entries:
        prefixes.add(known, salt, cache(len(known)))
    best = max((common_prefix(known, ids) for known, salt in entries if salt is None), default=0)
    assert prefixes.find(ids, None)[0] == best
    prefixes.shrink(30)
    assert prefixes.tokens <= 30
    prefixes.shrink(0)
    assert (prefixes.tokens, len(prefixes)) == (0, 0)


@given(IDS, IDS, IDS, st.integers(1, 8))
def test_blocks_are_equal_as_far_as_prompts_are(
    shared: list[int], left: list[int], right: list[int], size: int
) -> None:
    a, b = (prompt_blocks(request(shared + rest or [0]), size) for rest in (left, right))
    same = common_prefix(shared + left or [0], shared + right or [0]) // size
    assert a[:same] == b[:same]
    assert prompt_blocks(request(shared + left or [0], cache_salt="x"), size)[0] != a[0]


def test_blocks_tell_media_of_one_size_apart() -> None:
    def blocks(name: str) -> list[int]:
        features = {"mm_hashes": {"image": [name]}, "mm_placeholders": {"image": [{"offset": 5, "length": 2}]}}
        return prompt_blocks(request([7] * 12, features=features), 4)

    first, second = blocks("a"), blocks("b")
    assert first[0] == second[0] and first[1] != second[1] and first[2] != second[2]


def test_affinity_prefers_what_is_computed_until_load_outweighs_it() -> None:
    affinity = Affinity(slack=1, load_blocks=3)
    urls = ["a", "b", "c"]
    idle = dict.fromkeys(urls, 0)
    cold = affinity.rank([1, 2, 3, 4], idle)[0]
    assert {Affinity().rank([1, 9], idle)[0] for _ in range(5)} == {cold}
    other = next(url for url in urls if url != cold)
    affinity.learn([1, 2, 3, 4], other)
    assert affinity.rank([1, 2, 3, 4, 5], idle)[0] == other
    assert affinity.rank([1, 2, 3, 4, 5], idle | {other: 2})[0] == other
    assert affinity.rank([1, 2, 3, 4, 5], idle | {other: 3})[0] != other
    affinity.forget(other)
    assert affinity.rank([1, 2, 3, 4, 5], idle)[0] == cold


def test_affinity_spreads_cold_prompts_and_forgets_the_oldest() -> None:
    affinity = Affinity(capacity=10)
    urls = dict.fromkeys("abcd", 0)
    chosen = [affinity.rank([n], urls)[0] for n in range(400)]
    assert all(60 < chosen.count(url) < 140 for url in urls)
    for n in range(50):
        affinity.learn([n], "a")
    assert len(affinity._seen) == 10


def test_the_breaker_rests_longer_each_time_and_lets_one_try() -> None:
    now = 0.0
    breaker = Breaker(2, 1.0, lambda: now)
    breaker.fail()
    assert not breaker.open
    breaker.fail()
    assert breaker.open
    now = 1.0
    assert not breaker.open
    breaker.begin()
    assert breaker.open
    breaker.fail()
    now = 2.5
    assert breaker.open
    now = 3.0
    breaker.begin()
    breaker.give_up()
    assert not breaker.open
    breaker.begin()
    breaker.succeed()
    breaker.fail()
    assert not breaker.open


@given(IDS, st.integers(1, 4), st.integers(2, 4))
def test_repetition(head: list[int], size: int, count: int) -> None:
    rule = RepetitionDetection(max_pattern_size=size, min_pattern_size=size, min_count=count)
    pattern = list(range(10, 10 + size))
    assert repeats(head + pattern * count, rule)
    assert not repeats([*head, *pattern * (count - 1), *pattern[:-1]], rule)
    assert not repeats(head + pattern * count, RepetitionDetection())


def drawn(row: Any, sampling: dict[str, Any], seed: int) -> int:
    from app.engines.local.plan import make_plan

    plan = make_plan(request(sampling=sampling), vocab_size=len(row), room=9)
    return draw(row, SimpleNamespace(plan=plan, random=random.Random(seed)))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=30),
    st.integers(0, 8),
    st.floats(0.05, 1),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_a_draw_keeps_to_what_is_left(logits: list[float], top_k: int, top_p: float, min_p: float, seed: int) -> None:
    import torch

    row = torch.tensor(logits)
    token = drawn(row, {"top_k": top_k, "top_p": top_p, "min_p": min_p, "temperature": 0.8}, seed)
    p = torch.softmax(row.double() / 0.8, -1)
    left = [i for i in range(len(p)) if p[i] >= min_p * p.max()]
    ranked = sorted(left, key=lambda i: -float(p[i]))[: top_k or None]
    total, before, kept = float(sum(p[i] for i in ranked)), 0.0, []
    for i in ranked:
        if before < top_p * total + 1e-9:
            kept.append(float(p[i]))
        before += float(p[i])
    assert float(p[token]) >= min(kept) - 1e-9


def test_draws_follow_the_distribution() -> None:
    import torch

    row = torch.log(torch.tensor([0.5, 0.3, 0.2]))
    counts = [0, 0, 0]
    for seed in range(2000):
        counts[drawn(row, {}, seed)] += 1
    assert all(abs(count / 2000 - p) < 0.05 for count, p in zip(counts, (0.5, 0.3, 0.2), strict=True))
