"""Vocabularies in other formats to the sections of a ``tokenizer.json``."""

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.tokenizing.raw_bytes import byte_alphabet

_SPELLING = {byte: character for character, byte in byte_alphabet().items()}


def spell(token: bytes) -> str:
    return "".join(_SPELLING[byte] for byte in token)


def read_ranks(path: Path) -> dict[bytes, int]:
    """A tiktoken file: base64 of a token and its rank, a line each."""
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def all_splits(ranks: dict[bytes, int]) -> list[list[str]]:
    """Merges for a model that takes whole words from the vocabulary first: each way to cut each token in two."""
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        halves = [(token[:i], token[i:]) for i in range(1, len(token))]
        known = [(a, b) for a, b in halves if a in ranks and b in ranks]
        merges += [[spell(a), spell(b)] for a, b in sorted(known, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))]
    return merges


def last_merges(ranks: dict[bytes, int]) -> list[list[str]]:
    """One merge a token: the last one that byte pair encoding makes on the token's own bytes."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best, at = min((ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1))
            if best >= rank:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append([spell(parts[0]), spell(parts[1])])
    return merges


def added(tokens: dict[int, str], *, plain: frozenset[str] = frozenset(), **flags: bool) -> list[dict[str, Any]]:
    """An ``added_tokens`` section; ``plain`` ones are not special."""
    none = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": i, "content": c, "special": c not in plain} | none | flags for i, c in sorted(tokens.items())]


def before(token: str, token_id: int) -> dict[str, Any]:
    """A post-processor that puts one token before each text."""
    opener, text = {"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [opener, text],
        "pair": [opener, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}},
    }


def byte_level(
    vocab: dict[str, int],
    merges: list[list[str]],
    pattern: str,
    added_tokens: list[dict[str, Any]],
    *,
    whole_words: bool,
    nfc: bool = False,
    bos: tuple[str, int] | None = None,
) -> dict[str, Any]:
    """A tokenizer.json of byte-level BPE. ``whole_words``: a word that is an entry is taken without merging."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens,
        "normalizer": {"type": "NFC"} if nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": {"type": "Sequence", "processors": [level, before(*bos)]} if bos else level,
        "decoder": level,
        "model": _model(vocab, merges, ignore_merges=whole_words),
    }


def _model(vocab: dict[str, int], merges: list[list[str]], **options: Any) -> dict[str, Any]:
    defaults = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    return defaults | options | {"vocab": vocab, "merges": merges}


def read_sentencepiece(path: Path) -> list[tuple[str, float, int]]:
    """Text, score and kind (1 normal, 2 unknown, 3 control, 6 byte) of each piece of a SentencePiece model.

    The file is a protobuf message whose field 1 repeats the pieces (sentencepiece_model.proto).
    """
    return [_piece(body) for field, body in _fields(path.read_bytes()) if field == 1 and isinstance(body, bytes)]


def _piece(data: bytes) -> tuple[str, float, int]:
    values = {1: b"", 2: struct.pack("<f", 0), 3: 1} | dict(_fields(data))
    return values[1].decode(), struct.unpack("<f", values[2])[0], values[3]


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while place < len(data):
        field, kind = divmod(varint(), 8)
        if kind == 0:
            yield field, varint()
        else:
            size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            yield field, data[place : place + size]
            place += size


def sentencepiece(pieces: list[tuple[str, float, int]], *, first_only: bool) -> dict[str, Any]:
    """A tokenizer.json of a SentencePiece BPE model.

    ``first_only``: a space is put before the text's beginning alone (newer conversions), else before each piece
    between added tokens (older ones).
    """
    vocab = {text: index for index, (text, _, _) in enumerate(pieces)}
    score = {text: value for text, value, _ in pieces}
    pairs = [
        (text[:i], text[i:])
        for text, _, kind in pieces
        if kind == 1
        for i in range(1, len(text))
        if text[:i] in vocab and text[i:] in vocab
    ]
    pairs.sort(key=lambda pair: (-score[pair[0] + pair[1]], vocab[pair[0]], vocab[pair[1]]))
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    prepend = {"type": "Prepend", "prepend": "▁"}
    steps = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added({i: text for text, i in vocab.items() if pieces[i][2] in (2, 3)}),
        "normalizer": None if first_only else {"type": "Sequence", "normalizers": [prepend, replace]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
        if first_only
        else None,
        "post_processor": before("<s>", vocab["<s>"]),
        "decoder": {
            "type": "Sequence",
            "decoders": [*steps, {"type": "Strip", "content": " ", "start": 1, "stop": 0}],
        },
        "model": _model(vocab, [list(pair) for pair in pairs], unk_token="<unk>", fuse_unk=True, byte_fallback=True),
    }
