"""Small tokenizers of every decoder kind, made here, behind the project's own contract."""

import json
from collections.abc import Sequence
from functools import cache

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from app.tokenizing.raw_bytes import byte_alphabet, reader_of
from app.tokenizing.tokenizer import AddedToken, Encoded

SPECIALS = ("<|im_end|>", "<|end|>", "<|other|>")
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


class SmallTokenizer:
    """The contract over a ``tokenizers.Tokenizer``."""

    bos_token = None
    eos_token = "<|im_end|>"

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        read = reader_of(json.loads(inner.to_str())["decoder"])
        self.vocab_size = inner.get_vocab_size()
        self.added_tokens = {
            i: AddedToken(i, t.content, t.special) for i, t in inner.get_added_tokens_decoder().items()
        }
        self.special_ids = frozenset(i for i, t in self.added_tokens.items() if t.special)
        self.eos_token_id = inner.token_to_id(self.eos_token)
        self._bytes = [
            self.added_tokens[i].content.encode() if i in self.added_tokens else read(inner.id_to_token(i) or "")
            for i in range(self.vocab_size)
        ]

    def encode(self, text: str, *, add_special_tokens: bool = False, offsets: bool = False, controls: bool = True):
        return Encoded(self._inner.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        inside = [i for i in ids if 0 <= i < self.vocab_size]
        return self._inner.decode(inside, skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        return self._bytes[token_id] if 0 <= token_id < self.vocab_size else b""

    def token_to_id(self, token: str) -> int | None:
        return self._inner.token_to_id(token)

    def id_to_token(self, token_id: int) -> str | None:
        return self._inner.id_to_token(token_id)


def _finish(inner: tokenizers.Tokenizer) -> SmallTokenizer:
    inner.add_special_tokens([tokenizers.AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    inner.add_tokens([tokenizers.AddedToken(t, special=False, normalized=False) for t in MARKERS])
    return SmallTokenizer(inner)


@cache
def byte_level() -> SmallTokenizer:
    """All 256 bytes and a few merges, one of which ends in half a character."""
    alphabet = {b: c for c, b in byte_alphabet().items()}
    vocab = {alphabet[b]: b for b in range(256)}
    merges = []
    pairs = ["a b", "Ġ a", "h e", "l l", "he ll", "hell o", "E N", "EN D"]
    pairs += [f"{alphabet[0xF0]} {alphabet[0x9F]}", f"a {alphabet[0xE2]}"]
    for left, right in (pair.split() for pair in pairs):
        vocab[left + right] = len(vocab)
        merges.append((left, right))
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return _finish(inner)


def with_markers(markers: Sequence[str]) -> SmallTokenizer:
    """:func:`byte_level` with these as added tokens too."""
    inner = tokenizers.Tokenizer.from_str(byte_level()._inner.to_str())
    inner.add_tokens([tokenizers.AddedToken(t, special=False, normalized=False) for t in markers])
    return SmallTokenizer(inner)


@cache
def sentencepiece(strips: bool = True) -> SmallTokenizer:
    """Metaspace with byte fallback, as Llama 2 (strips) and Gemma (keeps) have it."""
    vocab = {"<unk>": 0, **{f"<0x{b:02X}>": b + 1 for b in range(256)}}
    for token in ("▁", "▁Hello", "Hello", "▁wor", "ld", "a", "b", "e", "END", "▁▁▁", "é", "日", "�"):
        vocab[token] = len(vocab)
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>"))
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if strips:
        parts.append(decoders.Strip(" ", 1, 0))
    inner.decoder = decoders.Sequence(parts)
    return _finish(inner)


@cache
def wordpiece() -> SmallTokenizer:
    """A decoder that puts spaces between tokens: nothing that joins bytes."""
    words = ["[UNK]", "a", "b", "hello", "##lo", "##s", "world", ".", "日"]
    inner = tokenizers.Tokenizer(models.WordPiece(vocab={w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    inner.decoder = decoders.WordPiece(cleanup=False)
    return _finish(inner)


def every() -> list[SmallTokenizer]:
    return [byte_level(), sentencepiece(True), sentencepiece(False), wordpiece()]
