"""Law 6 at the tokenizer: shielded text holds no control token, and is otherwise what it was."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.models import ServedModel
from app.tokenizing.control import ControlTokens, holds_stand_ins
from tests.property.test_exact_ids import PIECES

QUICK = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def hostile(controls: ControlTokens) -> st.SearchStrategy[str]:
    """Texts with control tokens, whole and cut, among others."""
    contents = sorted(controls.contents)
    cut = st.sampled_from(contents).flatmap(
        lambda token: st.integers(0, len(token)).flatmap(lambda at: st.sampled_from([token[:at], token[at:]]))
    )
    return st.lists(st.one_of(PIECES, st.sampled_from(contents), cut), max_size=6).map("".join)


@QUICK
@given(data=st.data())
def test_typed_controls_are_text(any_model: ServedModel, data: st.DataObject) -> None:
    tokenizer = any_model.tokenizer
    protected = {tokenizer.token_to_id(content) for content in tokenizer.controls.contents}
    text = data.draw(hostile(tokenizer.controls))
    shielded = tokenizer.controls.shield(text)
    assert len(shielded) == len(text)
    assert tokenizer.controls.restore(shielded) == text
    ids = tokenizer.encode(shielded).ids
    assert protected.isdisjoint(ids)
    assert tokenizer.encode(text, controls=False).ids == ids
    with_offsets = tokenizer.encode(shielded, offsets=True)
    assert with_offsets.ids == ids
    assert all(0 <= start <= end <= len(text) for start, end in with_offsets.offsets or [])


@QUICK
@given(data=st.data())
def test_neighbours_make_no_control_together(any_model: ServedModel, data: st.DataObject) -> None:
    tokenizer = any_model.tokenizer
    protected = {tokenizer.token_to_id(content) for content in tokenizer.controls.contents}
    token = data.draw(st.sampled_from(sorted(tokenizer.controls.contents)))
    at = data.draw(st.integers(1, max(1, len(token) - 1)))
    shield = tokenizer.controls.shield
    assert protected.isdisjoint(tokenizer.encode(shield(token[:at]) + shield(token[at:])).ids)


@QUICK
@given(data=st.data())
def test_genuine_controls_stay(any_model: ServedModel, data: st.DataObject) -> None:
    """What the template writes around a hostile text is read, and nothing else: B51, B52."""
    tokenizer = any_model.tokenizer
    contents = sorted(tokenizer.controls.contents)
    opener, closer = data.draw(st.sampled_from(contents)), data.draw(st.sampled_from(contents))
    text = data.draw(hostile(tokenizer.controls))
    ids = tokenizer.encode(f"{opener}{tokenizer.controls.shield(text)}{closer}").ids
    protected = {tokenizer.token_to_id(content) for content in contents}
    assert [i for i in ids if i in protected] == [tokenizer.token_to_id(opener), tokenizer.token_to_id(closer)]
    assert (ids[0], ids[-1]) == (tokenizer.token_to_id(opener), tokenizer.token_to_id(closer))


@QUICK
@given(text=st.lists(PIECES, max_size=6).map("".join))
def test_innocent_text_is_what_it_was(any_model: ServedModel, text: str) -> None:
    """Also where a text is shielded only because it ends with the beginning of a token."""
    tokenizer = any_model.tokenizer
    if any(content in text for content in tokenizer.controls.contents):
        return
    assert tokenizer.encode(tokenizer.controls.shield(text)).ids == tokenizer.encode(text).ids


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("", ""),
        ("plain", ""),
        ("a <|x|> b", "<"),
        ("<|x|><|x|>", "<<"),
        ("ends <|", "<"),
        ("a < b", ""),
        ("y|>", ""),
        ("x|> starts", "x"),
        ("|> starts", "|"),
        ("> quote", ">"),
        ("[a[ab]", "["),
        ("\n\n", ""),
    ],
)
def test_shield(text: str, broken: str) -> None:
    controls = ControlTokens(["<|x|>", "[ab]", "\n\n"])
    shielded = controls.shield(text)
    assert "".join(a for a, b in zip(text, shielded, strict=True) if a != b) == broken
    assert holds_stand_ins(shielded) == bool(broken)
    if not broken:
        assert shielded is text


def test_overlapping_tokens_are_all_broken() -> None:
    controls = ControlTokens(["<ab>", "b><c"])
    shielded = controls.shield("<ab><c")
    assert "<ab>" not in shielded
    assert "b><c" not in shielded


def test_a_surrogate_that_stands_for_nothing_becomes_a_replacement_character() -> None:
    assert ControlTokens(["<x>"]).restore("a\ud800b") == "a\ufffdb"
