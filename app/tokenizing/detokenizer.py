"""Token ids to text, one token at a time, with a state small enough to travel with every chunk.

Where a tokenizer's decoder only joins its tokens' bytes (byte-level BPE, SentencePiece with byte fallback), so does
this: the state is the bytes of an unfinished character. Every other decoder is asked for a short window of ids, and
what the new token added is the difference. Which of the two holds is found by asking the tokenizer, once.

Law: the texts of all tokens and of :meth:`Detokenizer.finish` make up ``tokenizer.decode(ids)``. One exception: a
SentencePiece decoder turns a whole run of byte tokens into U+FFFD if a single byte of it is no UTF-8; a stream cannot
take back the good characters of that run, so here they stay, and each bad byte is one U+FFFD.
"""

import codecs
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Literal, cast

from msgspec import Struct

from app.tokenizing.tokenizer import Tokenizer

__all__ = ("PROMPT_TAIL", "Detokenizer", "DetokenizerState", "own_bytes")

PROMPT_TAIL = 16
"""How many of the prompt's last tokens decide how the output begins."""

REPLACEMENT = "\ufffd"
BYTE_BY_BYTE = "isthmus-one-replacement-a-byte"
LONGEST_PENDING = 8
"""Tokens after which a trailing U+FFFD is the model's own character, in a windowed decode."""


def _one_a_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return REPLACEMENT * (error.end - error.start), error.end


codecs.register_error(BYTE_BY_BYTE, _one_a_byte)


class DetokenizerState(Struct, array_like=True):
    """What one output's detokenisation must remember between two tokens.

    ``pending`` holds the bytes of an unfinished character (3 at most). ``opening`` is True until the first text, where
    the text has no prompt before it. The rest serves decoders that are asked in windows: ``window`` are ids, the first
    ``read`` of which have given their text (the first ``prior`` before the last text), and ``after_added`` says that
    the last token was an added one.
    """

    pending: bytes = b""
    opening: bool = True
    window: list[int] = []
    prior: int = 0
    read: int = 0
    after_added: bool = False


class _Decoding:
    """How a tokenizer's decoder goes about it.

    ``kind`` "bytes": it joins the tokens' bytes, turning those that are no UTF-8 to U+FFFD as ``errors`` says;
    ``strips``: it drops a space that opens the text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.kind: Literal["bytes", "windows"] = "windows"
        self.errors = "replace"
        self.strips = False
        self._tokenizer = tokenizer
        self._anchor = _plain_token(tokenizer)
        self._added: dict[int, bytes] = {}
        self._texts: dict[int, str | None] = {}
        if self._anchor is not None:
            self._ask(self._anchor)

    def bytes_of(self, token_id: int) -> bytes:
        """The token's own bytes, b"" outside the vocabulary; of an added token as the decoder writes it."""
        if token_id not in self._tokenizer.added_tokens or self._anchor is None:
            return self._tokenizer.token_bytes(token_id)
        own = self._added.get(token_id)
        if own is None:
            # Runs of spaces are added tokens in Gemma's vocabulary, and the decoder replaces the marks in them, too.
            head = self._tokenizer.decode([self._anchor])
            text = self._tokenizer.decode([self._anchor, token_id])
            plain = self.kind == "bytes" and text.startswith(head)
            own = text[len(head) :].encode() if plain else self._tokenizer.token_bytes(token_id)
            self._added[token_id] = own
        return own

    def text_of(self, token_id: int) -> str | None:
        """The token's text where its bytes are whole characters."""
        try:
            return self._texts[token_id]
        except KeyError:
            pass
        try:
            text: str | None = self.bytes_of(token_id).decode("utf-8")
        except UnicodeDecodeError:
            text = None
        if 0 <= token_id < self._tokenizer.vocab_size:
            self._texts[token_id] = text
        return text

    def _ask(self, anchor: int) -> None:
        """A few hundred questions: does the decoder do more than to join bytes?"""
        tokenizer = self._tokenizer
        lead, high = tokenizer.token_to_id("<0xF0>"), tokenizer.token_to_id("<0x9F>")
        if lead is not None and high is not None and tokenizer.decode([anchor, lead, high]).endswith(REPLACEMENT * 2):
            self.errors = BYTE_BY_BYTE
        self.kind = "bytes"
        head = tokenizer.token_bytes(anchor)
        step = max(1, tokenizer.vocab_size // 256)
        for token_id in [*range(0, tokenizer.vocab_size, step), *list(tokenizer.added_tokens)[:64]]:
            own = self.bytes_of(token_id)
            for ids, data in (([anchor, token_id], head + own), ([token_id, anchor], own + head)):
                text = tokenizer.decode(ids)
                expected = data.decode("utf-8", self.errors)
                if text == expected:
                    continue
                if ids[0] == token_id and expected[:1] == " " and text == expected[1:]:
                    self.strips = True
                    continue
                self.kind = "windows"
                return


@lru_cache(maxsize=256)
def _decoding(tokenizer: Tokenizer) -> _Decoding:
    return _Decoding(tokenizer)


def own_bytes(tokenizer: Tokenizer) -> Callable[[int], bytes]:
    """Gives a token's own bytes as they stand in a text: :meth:`Tokenizer.token_bytes`, but for what a decoder does."""
    return _decoding(cast(Hashable, tokenizer)).bytes_of


def _plain_token(tokenizer: Tokenizer) -> int | None:
    """A token of ASCII letters that no decoder changes."""
    for token_id in range(tokenizer.vocab_size):
        entry = tokenizer.id_to_token(token_id)
        if entry is None or token_id in tokenizer.added_tokens or not (entry.isascii() and entry.isalpha()):
            continue
        if tokenizer.token_bytes(token_id) == entry.encode() and tokenizer.decode([token_id]) == entry:
            return token_id
    return None


class Detokenizer:
    """One request's way of turning ids into text; holds no stream state.

    Args:
        tokenizer: whose ids they are.
        skip_special_tokens: leave special tokens out of the text.
        spaces_between_special_tokens: False joins neighbouring added tokens without the space that some decoders
            put between tokens.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        skip_special_tokens: bool = True,
        spaces_between_special_tokens: bool = True,
    ) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._skipped = tokenizer.special_ids if skip_special_tokens else frozenset[int]()
        self._spaces = spaces_between_special_tokens or skip_special_tokens
        self._decoding = _decoding(cast(Hashable, tokenizer))

    def start(self, prompt_ids: Sequence[int] | None = None) -> DetokenizerState:
        """The state after the prompt: only its last :data:`PROMPT_TAIL` ids matter. Without one, the text opens."""
        state = DetokenizerState()
        tail = list(prompt_ids or ())[-PROMPT_TAIL:]
        if self._decoding.kind == "windows":
            state.window = tail
            state.read = len(tail)
            state.opening = not tail
            return state
        for token_id in tail:
            self.feed(state, token_id)
        return state

    def feed(self, state: DetokenizerState, token_id: int) -> str:
        """The text that this token completed: "" while a character is unfinished or the token is skipped."""
        if token_id in self._skipped:
            return ""
        decoding = self._decoding
        if decoding.kind == "windows":
            return self._feed_window(state, token_id)
        if not state.pending and not state.opening:
            text = decoding.text_of(token_id)
            if text is not None:
                return text
        data = state.pending + decoding.bytes_of(token_id)
        text, used = codecs.utf_8_decode(data, decoding.errors, False)
        state.pending = data[used:]
        if text and state.opening:
            state.opening = False
            if decoding.strips and text[0] == " ":
                return text[1:]
        return text

    def feed_all(self, state: DetokenizerState, token_ids: Iterable[int]) -> list[tuple[int, str]]:
        """Each id with the text that it completed."""
        return [(token_id, self.feed(state, token_id)) for token_id in token_ids]

    def finish(self, state: DetokenizerState) -> str:
        """What is left at the end: U+FFFD for a character that was never finished, else ""."""
        if self._decoding.kind == "windows":
            return self._flush_window(state)
        text = state.pending.decode("utf-8", self._decoding.errors)
        state.pending = b""
        return text

    def _feed_window(self, state: DetokenizerState, token_id: int) -> str:
        if not self._tokenizer.token_bytes(token_id):
            return ""
        added = self._tokenizer.added_tokens.get(token_id)
        joined = added is not None and state.after_added and not self._spaces
        state.after_added = added is not None
        state.window.append(token_id)
        if added is not None and joined:
            _advance(state)
            return added.content
        before = self._decode(state.window[: state.read])
        text = self._decode(state.window)
        held = text.endswith(REPLACEMENT) or len(text) <= len(before)
        if held and len(state.window) - state.read <= LONGEST_PENDING:
            return ""
        _advance(state)
        return text[len(before) :]

    def _flush_window(self, state: DetokenizerState) -> str:
        text = self._decode(state.window)[len(self._decode(state.window[: state.read])) :]
        _advance(state)
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip) if ids else ""


def _advance(state: DetokenizerState) -> None:
    """All of the window has given its text: what came before its last text is needed no more."""
    del state.window[: state.prior]
    state.prior = state.read - state.prior
    state.read = len(state.window)
