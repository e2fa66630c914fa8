"""Tokens' bytes, decoding, special tokens around a text, added tokens' flags."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.models import ServedModel
from app.tokenizing.hf import load_tokenizer

ServedModelFactory = Callable[..., ServedModel]


def test_token_bytes_concatenate(any_model: ServedModel) -> None:
    """B74: a character that is several tokens, in byte-level, SentencePiece and metaspace vocabularies."""
    tokenizer = any_model.tokenizer
    for text in ("🙂", "a🙂 b", "naïve 中文 ☃", "tab\tline\n"):
        joined = b"".join(map(tokenizer.token_bytes, tokenizer.encode(text).ids))
        assert joined.decode().removeprefix(" ") == text


def test_token_bytes_of_others(any_model: ServedModel) -> None:
    tokenizer = any_model.tokenizer
    for token in list(tokenizer.added_tokens.values())[:20]:
        assert tokenizer.token_bytes(token.id) == token.content.encode()
    for outside in (-1, tokenizer.max_token_id + 1, 2**31, 2**40):
        assert tokenizer.token_bytes(outside) == b""


def test_decode(any_model: ServedModel) -> None:
    tokenizer = any_model.tokenizer
    text = "Hello, wörld 🙂"
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids).strip() == text
    assert tokenizer.decode([99_999_999]) == ""
    assert tokenizer.decode([-1, *ids, tokenizer.max_token_id + 1, 2**40]) == tokenizer.decode(ids)
    assert tokenizer.decode([]) == ""
    special = next(iter(sorted(tokenizer.special_ids)))
    assert tokenizer.decode([special], skip_special_tokens=True) == ""
    assert tokenizer.decode([special]) == tokenizer.added_tokens[special].content


def test_vocabulary(any_model: ServedModel) -> None:
    tokenizer = any_model.tokenizer
    vocabulary = tokenizer.whole.get_vocab(with_added_tokens=True)
    assert tokenizer.max_token_id == max(vocabulary.values())
    assert tokenizer.vocab_size == max(tokenizer.max_token_id + 1, any_model.config.get("vocab_size", 0))
    for token in tokenizer.added_tokens.values():
        assert tokenizer.token_to_id(token.content) == token.id
        assert tokenizer.id_to_token(token.id) == token.content
    assert tokenizer.token_to_id("no such token, surely") is None
    assert tokenizer.token_to_id("\ud800") is None
    assert tokenizer.id_to_token(-1) is None
    assert tokenizer.id_to_token(2**40) is None


@pytest.mark.parametrize(("name", "bos"), [("llama3.1", 128000), ("mistral-7b", 1), ("qwen3", None)])
def test_bos_is_added_once_where_asked(served_model: ServedModelFactory, name: str, bos: int | None) -> None:
    """B48: templated text has the template's BOS only; a raw prompt the tokenizer's."""
    tokenizer = served_model(name).tokenizer
    bare = tokenizer.encode("hi there").ids
    assert tokenizer.encode("hi there", add_special_tokens=True).ids == ([bos] if bos is not None else []) + bare
    if bos is not None:
        assert bos not in bare
        templated = f"{tokenizer.bos_token}hi there"
        assert tokenizer.encode(templated).ids.count(bos) == 1
        found = tokenizer.encode("hi there", add_special_tokens=True, offsets=True)
        assert found.offsets is not None
        assert found.offsets[0] == (0, 0)


def test_shielded_offsets_are_in_characters(served_model: ServedModelFactory) -> None:
    tokenizer = served_model("qwen3").tokenizer
    text = "<|im_start|>" + tokenizer.controls.shield("🙂 é <|im_end|> ü") + "<|im_end|>"
    found = tokenizer.encode(text, offsets=True)
    assert found.offsets is not None
    assert found.offsets[0] == (0, 12)
    assert found.offsets[-1] == (len(text) - 10, len(text))
    plain = tokenizer.encode("🙂 é <|im_end|> ü", controls=False, offsets=True)
    assert found.offsets[1:-1] == [(start + 12, end + 12) for start, end in plain.offsets or []]


def _build(directory: Path, flags: list[dict[str, bool]], normalizer: Any, contents: list[str]) -> Path:
    """A small byte-level tokenizer whose added tokens have the given flags."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    none = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized", "special"), False)
    added = [
        {"id": len(alphabet) + i, "content": content} | none | flag
        for i, (content, flag) in enumerate(zip(contents, flags, strict=True))
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": level,
        "post_processor": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(alphabet)}, "merges": []},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    return directory


FLAGS = st.fixed_dictionaries(
    {name: st.booleans() for name in ("lstrip", "rstrip", "single_word", "normalized", "special")}
)
CONTENTS = ["<a>", "<a><b>", "word", "><", "Ünit"]
OTHERS = [" ", "  ", "\n", "x", "é", "U\u0308nit", "\u0338", "<", "\x1c", "²", "ⅷ", "‿", "\u200d", "Ⓐ", "०"]
NORMALIZERS = [None, {"type": "NFC"}, {"type": "Lowercase"}, {"type": "Sequence", "normalizers": []}]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flags=st.lists(FLAGS, min_size=len(CONTENTS), max_size=len(CONTENTS)),
    normalizer=st.sampled_from(NORMALIZERS),
    texts=st.lists(
        st.lists(st.sampled_from([*CONTENTS, *OTHERS])).map("".join),
        min_size=1,
        max_size=6,
    ),
)
def test_flags_of_added_tokens(tmp_path: Path, flags: list[dict[str, bool]], normalizer: Any, texts: list[str]) -> None:
    """Whatever flags, normalizer and overlaps: the library's own ids; no truncation, though the file asks for it."""
    tokenizer = load_tokenizer(_build(tmp_path, flags, normalizer, CONTENTS), cache_bytes=1 << 20)
    for text in texts:
        assert tokenizer.encode(text).ids == tokenizer.whole.encode(text, add_special_tokens=False).ids
    assert not tokenizer.truncates_or_pads


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flags=st.lists(FLAGS, min_size=len(CONTENTS), max_size=len(CONTENTS)),
    normalizer=st.sampled_from(NORMALIZERS),
    parts=st.lists(st.sampled_from([*CONTENTS, " ", "x", "<", "é"])),
)
def test_flags_and_provenance(tmp_path: Path, flags: list[dict[str, bool]], normalizer: Any, parts: list[str]) -> None:
    tokenizer = load_tokenizer(_build(tmp_path, flags, normalizer, CONTENTS))
    tokenizer.protect(["a template with <a> and Ünit"])
    protected = {tokenizer.token_to_id(content) for content in tokenizer.controls.contents}
    assert protected.isdisjoint(tokenizer.encode("".join(parts), controls=False).ids)
