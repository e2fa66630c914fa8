"""Text to ids and back with Hugging Face's ``tokenizers``, thread-safe and with control tokens kept apart.

A text is split at its added tokens (:mod:`app.tokenizing.added`); what lies between is encoded by a second tokenizer
that shares the vocabulary but knows no added token, remembered (:mod:`app.tokenizing.segments`), and joined. That is
what the library itself does with a whole text; where a tokenizer turns out to do something else, the whole text is
given to it. ``encode_batch`` is used throughout, as ``encode`` holds the GIL. No truncation or padding is ever set.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import tokenizers

from app.errors import StartupError
from app.tokenizing.added import AddedTokenSplitter, splits_at_once
from app.tokenizing.control import ControlTokens, holds_stand_ins
from app.tokenizing.files import TokenizerFiles, read_tokenizer_files
from app.tokenizing.pieces import PieceEncoder
from app.tokenizing.probes import PROBES
from app.tokenizing.raw_bytes import reader_of
from app.tokenizing.segments import SegmentCache
from app.tokenizing.tokenizer import AddedToken, Encoded

__all__ = ("HFTokenizer", "load_tokenizer")

_log = logging.getLogger(__name__)

CACHE_BYTES = 64 * 2**20
LONG = 4_096
"""Ids whose text takes longer than the event loop should wait."""
"""Default size of a tokenizer's memory of segments."""


class HFTokenizer:
    """The :class:`app.tokenizing.tokenizer.Tokenizer` of one model directory.

    Args:
        files: the directory's files.
        min_vocab_size: the model's own vocabulary size (its embedding rows), which may exceed the tokenizer's.
        cache_bytes: size of the memory of segments; 0 for none.
    """

    def __init__(self, files: TokenizerFiles, *, min_vocab_size: int = 0, cache_bytes: int = CACHE_BYTES) -> None:
        self.files = files
        self.whole = _build(files)
        """The library's own tokenizer; nothing is ever set on it."""
        self.added_tokens: Mapping[int, AddedToken] = {
            token_id: AddedToken(
                id=token_id,
                content=token.content,
                special=token.special,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                single_word=token.single_word,
                normalized=token.normalized,
            )
            for token_id, token in sorted(self.whole.get_added_tokens_decoder().items())
        }
        self.special_ids = frozenset(token.id for token in self.added_tokens.values() if token.special)
        self.bos_token = _named_token(files, "bos_token")
        self.eos_token = _named_token(files, "eos_token")
        self.eos_token_id = self.token_to_id(self.eos_token) if self.eos_token is not None else None
        self.max_token_id = self._highest_id()
        self.vocab_size = max(self.max_token_id + 1, min_vocab_size)
        self._read_bytes = reader_of(files.head.decoder)
        self._pieces = PieceEncoder(self.whole, files.head)
        self._splitter = AddedTokenSplitter(self.added_tokens.values())
        self._cache = SegmentCache(cache_bytes, self.max_token_id + 1)
        self._wrapping = _wrapping(self.whole)
        self.controls = ControlTokens()
        self._protected_ids: frozenset[int] = frozenset()
        self.protect(())
        self.in_pieces = splits_at_once(self.added_tokens.values(), normalizing=self._pieces.changes_text)
        """Whether a text is split at its added tokens; else it goes to the library whole, unless it has stand-ins."""
        if self.in_pieces and (disagreement := self._disagreement()) is not None:
            self.in_pieces = False
            _log.warning("%s: encoded whole, as pieces give other ids for %.60r", files.path, disagreement)

    def twin(self) -> "HFTokenizer":
        """The same tokenizer for another served model: it protects nothing yet and remembers nothing.

        The vocabulary is shared, and so is a faster library that either of them is given.
        """
        twin = copy(self)
        twin._cache = self._cache.emptied()
        twin.protect(())
        return twin

    def _highest_id(self) -> int:
        """The largest id that a token has. Building the whole vocabulary for it takes a quarter of loading."""
        count = self.whole.get_vocab_size(with_added_tokens=True)
        last = max(count - 1, max(self.added_tokens, default=-1))
        beyond = range(count, count + 256)
        if last == count - 1 and self.id_to_token(last) is not None and not any(map(self.id_to_token, beyond)):
            return last
        return max(self.whole.get_vocab(with_added_tokens=True).values(), default=-1)

    # -- control tokens ----------------------------------------------------------------------------------------------

    def protect(self, sources: Iterable[str], *, more: Iterable[str] = ()) -> None:
        """Set which added tokens only the server may write; called once, before the first request.

        Args:
            sources: chat templates and format literals; each added token that occurs in one is protected.
            more: contents that are protected in any case (media placeholders).
        """
        written = "\0".join(sources)
        wanted = set(more)
        protected = [
            token
            for token in self.added_tokens.values()
            if token.special or token.content in wanted or token.content in written
        ]
        self.controls = ControlTokens(token.content for token in protected)
        self._protected_ids = frozenset(t.id for t in protected if t.content in self.controls.contents)

    # -- encoding ----------------------------------------------------------------------------------------------------

    def encode(
        self, text: str, *, add_special_tokens: bool = False, offsets: bool = False, controls: bool = True
    ) -> Encoded:
        """See :meth:`app.tokenizing.tokenizer.Tokenizer.encode`."""
        if not controls:
            text = self.controls.shield(text)
        if offsets:
            return self._encode_with_offsets(text, add_special_tokens)
        wrapping = self._wrapping if add_special_tokens else ((), ())
        if wrapping is None or not self.in_pieces:
            if not holds_stand_ins(text):
                return Encoded(self._encode_whole([text], add_special_tokens)[0])
            wrapping = wrapping or ((), ())
        ids = self._encode_pieces(text)
        assert ids is not None
        return Encoded([*wrapping[0], *ids, *wrapping[1]] if add_special_tokens else ids)

    def encode_remembered(self, text: str, *, add_special_tokens: bool = False, most: int) -> Encoded | None:
        """See :meth:`app.tokenizing.tokenizer.Tokenizer.encode_remembered`."""
        wrapping = self._wrapping if add_special_tokens else ((), ())
        if wrapping is None or not self.in_pieces:
            return None
        ids = self._encode_pieces(text, most)
        return None if ids is None else Encoded([*wrapping[0], *ids, *wrapping[1]] if add_special_tokens else ids)

    def _encode_whole(self, texts: list[str], add_special_tokens: bool) -> list[list[int]]:
        encodings = self.whole.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
        return [encoding.ids for encoding in encodings]

    def _encode_pieces(self, text: str, most: int | None = None) -> list[int] | None:
        """Ids of a text; None where more than ``most`` characters of it are not remembered."""
        texts, tokens = self._splitter.split(text)
        cache, first_differs = self._cache, self._pieces.first_differs
        known: list[list[int] | None] = [cache.get(piece) if piece else [] for piece in texts]
        if first_differs and texts[0]:
            known[0] = None
        if None in known:
            missing = [piece for piece, ids in zip(texts, known, strict=True) if ids is None]
            if most is not None and sum(map(len, missing)) > most:
                return None
            at_start = first_differs and known[0] is None
            found = iter(self._encode_missing(missing, at_start))
            for place, ids in enumerate(known):
                if ids is None:
                    known[place] = new = next(found)
                    if not (at_start and place == 0):
                        cache.put(texts[place], new)
        joined = list(known[0] or ())
        for token_id, ids in zip(tokens, known[1:], strict=True):
            joined.append(token_id)
            joined.extend(ids or ())
        return joined

    def _encode_missing(self, texts: list[str], at_start: bool) -> list[list[int]]:
        """Ids of pieces without added tokens; ``at_start``: the first one is where the text begins."""
        stand_ins = {place for place, text in enumerate(texts) if holds_stand_ins(text)}
        if not stand_ins:
            return self._pieces.encode(texts, at_start)
        plain = [self.controls.restore(text) if place in stand_ins else text for place, text in enumerate(texts)]
        encoded = self._pieces.encode(plain, at_start)
        for place in stand_ins:
            encoded[place] = self._without_protected(plain[place], encoded[place])
        return encoded

    def _without_protected(self, text: str, ids: list[int]) -> list[int]:
        """``ids`` of a user's text, unless the vocabulary's own merges wrote a protected token: then in two halves."""
        if self._protected_ids.isdisjoint(ids) or len(text) < 2:
            return ids
        middle = len(text) // 2
        halves = self._pieces.encode([text[:middle], text[middle:]], False)
        return [
            token_id
            for half, half_ids in zip((text[:middle], text[middle:]), halves, strict=True)
            for token_id in self._without_protected(half, half_ids)
        ]

    def _encode_with_offsets(self, text: str, add_special_tokens: bool) -> Encoded:
        if not holds_stand_ins(text):
            [encoding] = self.whole.encode_batch([text], add_special_tokens=add_special_tokens)
            return Encoded(encoding.ids, encoding.offsets)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for start, end, token_id in self._splitter.spans(text):
            if token_id is not None:
                ids.append(token_id)
                offsets.append((start, end))
                continue
            piece_ids, piece_offsets = self._pieces.encode_with_offsets(
                self.controls.restore(text[start:end]), start == 0
            )
            ids += piece_ids
            offsets += [(start + first, start + last) for first, last in piece_offsets]
        if add_special_tokens and self._wrapping is not None:
            before, after = self._wrapping
            ids = [*before, *ids, *after]
            offsets = [*((0, 0) for _ in before), *offsets, *((0, 0) for _ in after)]
        return Encoded(ids, offsets)

    def _disagreement(self) -> str | None:
        """The first probe whose ids in pieces are not the library's own, or None."""
        contents = [token.content for token in self.added_tokens.values()]
        edge = [*contents[:2], *contents[-2:], *(t.content for t in self.added_tokens.values() if not t.special)][:12]
        probes = [
            *PROBES,
            *(f"{a}{probe}{b} {a}\n\n{b}x" for a in edge for b in edge[:3] for probe in (" hi ", "\nhi\n")),
        ]
        probes.append("".join(f"{content}{probe}" for content in edge for probe in PROBES))
        for probe, ids in zip(probes, self._encode_whole(probes, False), strict=True):
            if self._encode_pieces(probe) != ids:
                return probe
        return None

    @property
    def truncates_or_pads(self) -> bool:
        """Always False: such state would be shared by all requests."""
        return self.whole.truncation is not None or self.whole.padding is not None

    def encode_pieces_plainly(self, texts: list[str]) -> list[list[int]]:
        """Ids of texts in which no added token is read, by this library, whatever :meth:`use` was given."""
        return self._pieces.encode_plainly(texts)

    @property
    def is_fast(self) -> bool:
        """Whether it, or a twin of it, was given a faster library."""
        return self._pieces.is_fast

    def use(self, encode: Callable[[list[str]], list[list[int]]]) -> None:
        """Encode plain pieces with ``encode`` from now on (a faster library that was found to agree)."""
        self._pieces.use(encode)

    # -- decoding ----------------------------------------------------------------------------------------------------

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """See :meth:`app.tokenizing.tokenizer.Tokenizer.decode`."""
        highest = self.max_token_id
        known = [token_id for token_id in ids if 0 <= token_id <= highest]
        if len(known) > LONG:
            # As a batch: that lets other threads run meanwhile.
            return self.whole.decode_batch([known], skip_special_tokens=skip_special_tokens)[0]
        return self.whole.decode(known, skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        """See :meth:`app.tokenizing.tokenizer.Tokenizer.token_bytes`."""
        if (added := self.added_tokens.get(token_id)) is not None:
            return added.content.encode()
        token = self.id_to_token(token_id)
        return b"" if token is None else self._read_bytes(token)

    def token_to_id(self, token: str) -> int | None:
        """See :meth:`app.tokenizing.tokenizer.Tokenizer.token_to_id`."""
        try:
            return self.whole.token_to_id(token)
        except UnicodeEncodeError:
            return None

    def id_to_token(self, token_id: int) -> str | None:
        """See :meth:`app.tokenizing.tokenizer.Tokenizer.id_to_token`."""
        return self.whole.id_to_token(token_id) if 0 <= token_id < 2**32 else None


def _build(files: TokenizerFiles) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(files.data)
    except Exception as error:  # the library raises a bare Exception
        raise StartupError(f"{files.path}: {str(error).splitlines()[0]}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    _add_configured(tokenizer, files.config.get("added_tokens_decoder"))
    return tokenizer


def _add_configured(tokenizer: tokenizers.Tokenizer, configured: Any) -> None:
    """Add the tokens that only tokenizer_config.json names, as transformers does, where they get the id it says."""
    if not isinstance(configured, dict):
        return
    known = tokenizer.get_added_tokens_decoder()
    for key, token in sorted(configured.items(), key=lambda item: int(item[0]) if item[0].isdigit() else -1):
        if not key.isdigit() or int(key) in known or not isinstance(token, dict) or not token.get("content"):
            continue
        flags = {name: bool(token.get(name)) for name in ("lstrip", "rstrip", "single_word", "normalized", "special")}
        if tokenizer.token_to_id(token["content"]) in (None, int(key)):
            tokenizer.add_tokens([tokenizers.AddedToken(token["content"], **flags)])
            if tokenizer.token_to_id(token["content"]) != int(key):
                _log.warning("added token %s has another id than tokenizer_config.json says", token["content"])


def _named_token(files: TokenizerFiles, name: str) -> str | None:
    for source in (files.config, files.special_tokens_map):
        value = source.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            return value
    return None


def _wrapping(tokenizer: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """What ``add_special_tokens`` puts before and after any text; None where it does more than that."""
    found = None
    for text in ("a", "b c"):
        bare, wrapped = (tokenizer.encode(text, add_special_tokens=add).ids for add in (False, True))
        for start in range(len(wrapped) - len(bare) + 1):
            if wrapped[start : start + len(bare)] == bare:
                around = (tuple(wrapped[:start]), tuple(wrapped[start + len(bare) :]))
                break
        else:
            return None
        if found not in (None, around):
            return None
        found = around
    return found


def load_tokenizer(directory: Path, *, min_vocab_size: int = 0, cache_bytes: int = CACHE_BYTES) -> HFTokenizer:
    """The tokenizer of a model directory; raises :class:`app.errors.StartupError` with one line."""
    return HFTokenizer(read_tokenizer_files(directory), min_vocab_size=min_vocab_size, cache_bytes=cache_bytes)
