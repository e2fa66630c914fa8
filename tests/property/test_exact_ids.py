"""Law 5: ids equal the reference tokenizer's on the whole text, whatever was remembered and whichever thread asks."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.models import ServedModel
from app.tokenizing.probes import PROBES

PIECES = st.one_of(
    st.sampled_from([probe for probe in PROBES if probe]),
    st.text(max_size=30),
    st.text(st.characters(codec="utf-8", categories=("Zs", "Cc", "Mn", "Nd", "No", "Lo", "So")), max_size=8),
    st.sampled_from(
        [" ", "  ", "\n", "\n\n", "\t", "\r\n", "\u3000", "\u00a0", "a", "1", "x1 ", "é", "e\u0301", "<", "|"]
    ),
)
QUICK = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def reference(any_model: ServedModel) -> tokenizers.Tokenizer:
    """The library's own tokenizer, as it came out of the file."""
    return any_model.tokenizer.whole


def texts(model: ServedModel) -> st.SearchStrategy[str]:
    """Texts in which added tokens stand next to all kinds of others."""
    contents = [token.content for token in model.tokenizer.added_tokens.values()]
    chosen = sorted({*contents[:40], *contents[-40:], *model.tokenizer.controls.contents})[:120]
    return st.lists(st.one_of(PIECES, st.sampled_from(chosen)), max_size=8).map("".join)


@QUICK
@given(data=st.data())
def test_ids_are_the_references(any_model: ServedModel, reference: tokenizers.Tokenizer, data: st.DataObject) -> None:
    text = data.draw(texts(any_model))
    for add_special_tokens in (False, True):
        wanted = reference.encode(text, add_special_tokens=add_special_tokens).ids
        for _ in ("at first", "remembered"):
            assert any_model.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids == wanted


@QUICK
@given(data=st.data())
def test_offsets_are_the_references(
    any_model: ServedModel, reference: tokenizers.Tokenizer, data: st.DataObject
) -> None:
    text = data.draw(texts(any_model))
    wanted = reference.encode(text, add_special_tokens=False)
    found = any_model.tokenizer.encode(text, offsets=True)
    assert (found.ids, found.offsets) == (wanted.ids, wanted.offsets)
    assert found.ids == any_model.tokenizer.encode(text).ids


def test_it_is_encoded_in_pieces(any_model: ServedModel) -> None:
    """Every tokenizer at hand can be split at its added tokens; the slow way is for ones that we don't know."""
    assert any_model.tokenizer.in_pieces


def test_threads_agree(any_model: ServedModel, reference: tokenizers.Tokenizer) -> None:
    """Also B59: 50 encodes at once, of one tokenizer."""
    prompts = [f"{a} {n} {b}" for n, (a, b) in enumerate(itertools.islice(itertools.product(PROBES, PROBES), 100))]
    wanted = [reference.encode(prompt, add_special_tokens=False).ids for prompt in prompts]
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda prompt: any_model.tokenizer.encode(prompt).ids, prompts * 2))
    assert found == wanted * 2


def test_no_truncation_or_padding_is_ever_set(any_model: ServedModel) -> None:
    any_model.tokenizer.encode("x" * 100, offsets=True)
    assert any_model.tokenizer.truncates_or_pads is False
