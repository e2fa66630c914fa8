"""Token-exact continuation: ids are the stored ones extended or the plain render's, and the same bytes either way."""

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from app.runs.continuation import continued
from app.store.exact import ExactIds

PIECES = [b"", *(bytes(letters) for size in (1, 2, 3) for letters in product(b"ab", repeat=size))]


class Pieces:
    """Every id stands for up to three letters; id 0 for none."""

    def token_bytes(self, token_id: int) -> bytes:
        return PIECES[token_id]


def spelled(ids: Sequence[int]) -> bytes:
    return b"".join(PIECES[token] for token in ids)


def cut(text: bytes, sizes: list[int]) -> list[int]:
    """Ids of a text, cut into pieces of these sizes as far as they reach."""
    ids = []
    while text:
        size = sizes.pop() if sizes else 1
        ids.append(PIECES.index(text[:size]))
        text = text[size:]
    return ids


tokens = st.lists(st.integers(1, len(PIECES) - 1), max_size=8)
any_tokens = st.lists(st.integers(0, len(PIECES) - 1), max_size=8)


def check(prompt: list[int], before: ExactIds | None) -> int:
    ids, reused = continued(list(prompt), before, Pieces())
    assert spelled(ids) == spelled(prompt)
    if reused:
        assert before is not None
        stored = [*before.prompt, *before.completion]
        assert (ids[:reused], reused) == (stored, len(stored))
        assert ids[reused:] == prompt[len(prompt) - len(ids) + reused :]
    else:
        assert ids == prompt
    return reused


@given(any_tokens, any_tokens, any_tokens)
def test_any_ids_give_the_stored_ones_extended_or_the_plain_ones(
    prompt: list[int], stored: list[int], completion: list[int]
) -> None:
    check(prompt, ExactIds(stored, completion))
    assert continued(prompt, None, Pieces()) == (prompt, 0)


@given(tokens, tokens, tokens, st.lists(st.integers(1, 3), max_size=12))
def test_a_prompt_that_spells_the_turn_before_goes_on_from_it(
    stored: list[int], completion: list[int], new: list[int], sizes: list[int]
) -> None:
    """However the turn before is cut anew: its own ids are kept."""
    before = ExactIds(stored, completion)
    prompt = [*cut(spelled([*stored, *completion]), sizes), *new]
    reused = check(prompt, before)
    assert reused == len(stored) + len(completion) or not new or not (stored or completion)


@given(tokens, tokens, tokens)
def test_other_words_are_never_taken_for_the_stored_ones(
    prompt: list[int], stored: list[int], answer: list[int]
) -> None:
    if not spelled(prompt).startswith(spelled([*stored, *answer])):
        assert check(prompt, ExactIds(stored, answer)) == 0


def test_a_token_across_the_border_keeps_the_plain_render() -> None:
    ab, a, b, aba = (PIECES.index(word) for word in (b"ab", b"a", b"b", b"aba"))
    assert check([ab, a, b], ExactIds([a], [b])) == 2
    assert check([aba, b], ExactIds([a], [b])) == 0
