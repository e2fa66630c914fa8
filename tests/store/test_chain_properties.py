"""Random forests of turns with deletions and several tenants: resolve gives exactly the path, or "not found"."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequest, NotFound
from app.store.chain import whole
from app.store.doctor import examine
from app.store.exact import ExactIds, pack, unpack
from app.store.store import ResponseStore

from .conftest import Place, _empty
from .turns import complete, texts

TENANTS = ("a", "b")

forests = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.sampled_from(TENANTS), st.integers(-3, 30)),
        st.tuples(st.just("delete"), st.sampled_from(TENANTS), st.integers(0, 30)),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=forests)
def test_resolve_is_exactly_the_path_or_not_found(place: Place, steps: list[tuple[str, str, int]]) -> None:
    asyncio.run(_check_forest(place, steps))


async def _check_forest(place: Place, steps: list[tuple[str, str, int]]) -> None:
    await _empty(place)
    made: list[tuple[str, str, str | None, str]] = []  # tenant, id, previous, text
    gone: set[str] = set()

    def path(name: str) -> list[str] | None:
        """What a chain must be, by the plain rule."""
        words: list[str] = []
        at: str | None = name
        while at is not None:
            if at in gone:
                return None
            _, _, previous, word = next(turn for turn in made if turn[1] == at)
            words[:0] = [word, f"re: {word}"]
            at = previous
        return words

    async with place.open() as database:
        stores = {tenant: ResponseStore(database, tenant) for tenant in TENANTS}
        for number, (action, tenant, pick) in enumerate(steps):
            if action == "turn":
                previous = made[pick % len(made)][1] if made and pick >= 0 else None
                word = f"{tenant}{number}"
                allowed = previous is None or (
                    previous not in gone and next(turn for turn in made if turn[1] == previous)[0] == tenant
                )
                try:
                    name = await complete(stores[tenant], word, previous_id=previous)
                except InvalidRequest:
                    assert not allowed
                else:
                    assert allowed
                    made.append((tenant, name, previous, word))
            elif made:
                owner, name, _, _ = made[pick % len(made)]
                try:
                    await stores[tenant].delete(name)
                except NotFound:
                    assert owner != tenant or name in gone
                else:
                    assert owner == tenant
                    gone.add(name)
        gaps = set()
        for owner, name, previous, _ in made:
            expected = path(name)
            for tenant in TENANTS:
                try:
                    found = texts((await stores[tenant].resolve(name)).items())
                except InvalidRequest:
                    found = None
                assert found == (expected if tenant == owner else None)
            if name not in gone and previous in gone:
                gaps.add(name)
        findings = {finding.id: finding.kind async for finding in examine(database, deep=True)}
        assert findings == dict.fromkeys(gaps, "gap")


depths = st.lists(st.one_of(st.none(), st.integers(-1, 6)), max_size=6)


@given(depths)
def test_only_an_unbroken_walk_to_the_root_is_whole(found: list[int | None]) -> None:
    assert whole(found) == (found == list(range(len(found))) and found != [])


ids = st.lists(st.integers(0, 2**32 - 1), max_size=12)


@given(st.lists(st.tuples(ids, ids, st.integers(0, 30)), min_size=1, max_size=8))
def test_exact_ids_come_back_whatever_turns_share(turns: list[tuple[list[int], list[int], int]]) -> None:
    """Prompts that extend, rewrite or cut what was before them: every turn's ids are what was packed."""
    rows, before = [], None
    for fresh, completion, keep in turns:
        kept = [] if before is None else [*before.prompt, *before.completion][:keep]
        whole_turn = ExactIds([*kept, *fresh], completion)
        rows.append(pack(whole_turn, before))
        assert rows[-1].shared >= len(kept) or before is None
        before = whole_turn
        found = unpack(rows)
        assert found is not None
        assert (list(found.prompt), list(found.completion)) == (list(before.prompt), completion)


@given(ids, ids, ids)
def test_ids_are_none_when_what_they_build_on_is_missing(first: list[int], answer: list[int], more: list[int]) -> None:
    root = ExactIds(first, answer)
    child = pack(ExactIds([*first, *answer, *more], [1]), root)
    found = unpack([None, child])
    assert (found is None) == (child.shared > 0)


def test_a_long_chain_stores_each_id_once() -> None:
    rows: list[Any] = []
    before = None
    for turn in range(100):
        prompt = [] if before is None else [*before.prompt, *before.completion]
        before_now = ExactIds([*prompt, turn, turn + 1], [turn] * 3)
        rows.append(pack(before_now, before))
        before = before_now
    assert sum(len(row.prompt) + len(row.completion) for row in rows) == 100 * 5 * 4
