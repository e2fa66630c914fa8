"""fastokens behind Hugging Face's library: agreed on before it is used, remembered, and never trusted with failures."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tokenizing import fast
from app.tokenizing.hf import HFTokenizer, load_tokenizer
from tests.property.test_exact_ids import PIECES

pytest.importorskip("fastokens")
SMALL = "phi-3"


@pytest.fixture(scope="module", params=["phi-3", "mistral-7b", "qwen3"])
def sped_up(request: pytest.FixtureRequest, model_dir: Callable[[str], Path], tmp_path_factory) -> HFTokenizer:
    tokenizer = load_tokenizer(model_dir(request.param), cache_bytes=0)
    try:
        fast.speed_up(tokenizer, tmp_path_factory.mktemp("cache"))
    except fast.Disagrees as why:
        pytest.skip(f"{request.param} stays on Hugging Face's: {why}")
    return tokenizer


@settings(max_examples=150, deadline=None)
@given(text=st.lists(PIECES, max_size=8).map("".join))
def test_ids_stay_the_same(sped_up: HFTokenizer, text: str) -> None:
    assert sped_up.encode(text).ids == sped_up.whole.encode(text, add_special_tokens=False).ids


class Native:
    """Stands in for the native library."""

    def __init__(self, answer: Callable[[str], list[int]]) -> None:
        self.answer = answer
        self.loads = 0

    def from_file(self, path: str) -> "Native":
        self.loads += 1
        return self

    def encode_ordinary(self, text: str) -> "Native":
        self.ids = self.answer(text)
        return self


def _patched(monkeypatch: pytest.MonkeyPatch, native: Native) -> None:
    monkeypatch.setattr("fastokens.Tokenizer", native)


def test_a_library_that_disagrees_is_not_used_nor_loaded_again(
    monkeypatch: pytest.MonkeyPatch, model_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    native = Native(lambda text: [1, 2, 3])
    _patched(monkeypatch, native)
    tokenizer = load_tokenizer(model_dir(SMALL))
    before = tokenizer.encode("some text").ids
    for _ in range(2):
        with pytest.raises(fast.Disagrees, match="other ids"):
            fast.speed_up(tokenizer, tmp_path)
    assert native.loads == 1
    assert tokenizer.encode("some text").ids == before
    assert tokenizer.encode("another").ids == tokenizer.whole.encode("another", add_special_tokens=False).ids


def test_a_library_that_fails_later_is_helped_out(
    monkeypatch: pytest.MonkeyPatch, model_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(model_dir(SMALL), cache_bytes=0)

    def answer(text: str) -> list[int]:
        if text == "a text that is too much":
            raise RuntimeError("match limit")
        return tokenizer.encode_pieces_plainly([text])[0]

    _patched(monkeypatch, Native(answer))
    fast.speed_up(tokenizer, tmp_path)
    wanted = tokenizer.whole.encode("a text that is too much", add_special_tokens=False).ids
    assert tokenizer.encode("a text that is too much").ids == wanted


def test_in_the_background(
    monkeypatch: pytest.MonkeyPatch, model_dir: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _patched(monkeypatch, Native(lambda text: []))
    behind = fast.SpeedUp([("small", load_tokenizer(model_dir(SMALL)))], tmp_path, lambda: fast.IDLE_S)
    with caplog.at_level("INFO"):
        behind.start()
        behind.wait(60)
    assert "small: tokenized by Hugging Face's tokenizers, not fastokens: other ids" in caplog.text
