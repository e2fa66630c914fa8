"""Pieces of text without added tokens to ids, by a tokenizer's own normalizer, pre-tokenizer and model.

The encoder shares the vocabulary with the tokenizer that it is made from, and costs no memory of its own.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import tokenizers
from tokenizers import pre_tokenizers

from app.tokenizing.files import TokenizerFile

__all__ = ("PieceEncoder",)

_Encode = Callable[[list[str]], list[list[int]]]


class PieceEncoder:
    """Encodes what lies between added tokens.

    Args:
        whole: the tokenizer.
        head: what its file says of it.
    """

    def __init__(self, whole: tokenizers.Tokenizer, head: TokenizerFile) -> None:
        self._whole = whole
        self.changes_text = _changes_text(head.normalizer)
        self.first_differs = any(part.get("prepend_scheme") == "first" for part in _parts(head.pre_tokenizer))
        self._start = self._bare(head.pre_tokenizer)
        self._rest = self._bare(_never_first(head.pre_tokenizer)) if self.first_differs else self._start
        self._encode: _Encode = self.encode_plainly
        self.is_fast = False
        """Whether :meth:`use` was given something faster."""

    def _bare(self, pre_tokenizer: Any) -> tokenizers.Tokenizer:
        bare = tokenizers.Tokenizer(self._whole.model)
        if self._whole.normalizer is not None:
            bare.normalizer = self._whole.normalizer
        if self._whole.pre_tokenizer is not None:
            bare.pre_tokenizer = self._whole.pre_tokenizer if not self.first_differs else _pre_tokenizer(pre_tokenizer)
        return bare

    def use(self, encode: _Encode) -> None:
        """Encode pieces that are not at a text's start with ``encode`` from now on."""
        self._encode = encode
        self.is_fast = True

    def encode_plainly(self, texts: list[str]) -> list[list[int]]:
        """Ids of texts that are not at a text's start."""
        return [encoding.ids for encoding in self._rest.encode_batch_fast(texts, add_special_tokens=False)]

    def encode(self, texts: list[str], at_start: bool) -> list[list[int]]:
        """Ids of each text; ``at_start``: the first is the beginning of the whole text."""
        if at_start and self.first_differs:
            [first] = self._start.encode_batch_fast(texts[:1], add_special_tokens=False)
            return [first.ids, *self._encode(texts[1:])]
        return self._encode(texts)

    def encode_with_offsets(self, text: str, at_start: bool) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of one text and their ``[start, end)`` in it, in characters."""
        encoder = self._start if at_start else self._rest
        [encoding] = encoder.encode_batch([text], add_special_tokens=False)
        return encoding.ids, encoding.offsets


def _parts(section: Any) -> Iterator[dict[str, Any]]:
    if isinstance(section, dict):
        yield section
        for part in (*(section.get("pretokenizers") or ()), *(section.get("normalizers") or ())):
            yield from _parts(part)


def _changes_text(normalizer: Any) -> bool:
    return any(part.get("type") != "Sequence" for part in _parts(normalizer))


def _never_first(section: Any) -> Any:
    """``section`` for a piece that is not at the text's start: nothing is prepended to it."""
    if not isinstance(section, dict):
        return section
    changed = {key: [_never_first(p) for p in v] if key == "pretokenizers" else v for key, v in section.items()}
    return changed | {"prepend_scheme": "never"} if section.get("prepend_scheme") == "first" else changed


def _pre_tokenizer(section: Any) -> Any:
    """A pre-tokenizer from its section of a tokenizer file."""
    empty = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}, "pre_tokenizer": section}
    built = tokenizers.Tokenizer.from_str(json.dumps(empty)).pre_tokenizer
    assert isinstance(built, pre_tokenizers.PreTokenizer)
    return built
