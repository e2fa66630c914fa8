"""The memory of segments stays within its bytes and forgets the oldest."""

from hypothesis import given
from hypothesis import strategies as st

from app.tokenizing.segments import SegmentCache


@given(st.lists(st.tuples(st.text(max_size=50), st.lists(st.integers(0, 99), max_size=50)), max_size=60))
def test_never_more_than_its_bytes_and_never_wrong(entries: list[tuple[str, list[int]]]) -> None:
    cache = SegmentCache(4096, 100)
    latest: dict[str, list[int]] = {}
    for text, ids in entries:
        ids = latest.setdefault(text, ids)
        cache.put(text, ids)
        assert cache.bytes_used <= cache.max_bytes
        assert cache.get(text) in (ids, None)
    for text, ids in latest.items():
        assert cache.get(text) in (ids, None)


def test_what_is_used_stays() -> None:
    cache = SegmentCache(8192, 10)
    cache.put("kept", [1])
    for n in range(200):
        cache.put(f"once {n}", [2])
        assert cache.get("kept") == [1]
    assert cache.get("once 0") is None


def test_too_large_for_it() -> None:
    cache = SegmentCache(4096, 10)
    cache.put("x" * 4000, [1])
    assert cache.get("x" * 4000) is None
    assert cache.bytes_used == 0


def test_none_at_all() -> None:
    cache = SegmentCache(0, 10)
    cache.put("x", [1])
    assert cache.get("x") is None
