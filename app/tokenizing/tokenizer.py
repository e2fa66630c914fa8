"""The tokenizer contract that the rest of the server builds on."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

__all__ = ("AddedToken", "Encoded", "Tokenizer")


class AddedToken(Struct, frozen=True):
    """A token outside the model's own vocabulary; ``special`` is the tokenizer file's flag."""

    id: int
    content: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


class Encoded(Struct, frozen=True):
    """Ids of a text, with their ``[start, end)`` character (code point) offsets where they were asked for."""

    ids: list[int]
    offsets: list[tuple[int, int]] | None = None


class Tokenizer(Protocol):
    """Thread-safe; every method may be called from any thread, and encoding long text releases the GIL.

    Text may hold lone surrogates where :mod:`app.rendering.provenance` put stand-ins for characters that must not
    be read as control tokens: ``encode`` puts the characters back and encodes them as ordinary text.
    """

    vocab_size: int
    """Ids are in ``[0, vocab_size)``; added tokens are counted in."""
    added_tokens: Mapping[int, AddedToken]
    special_ids: frozenset[int]
    bos_token: str | None
    eos_token: str | None
    eos_token_id: int | None

    def encode(
        self, text: str, *, add_special_tokens: bool = False, offsets: bool = False, controls: bool = True
    ) -> Encoded:
        """Ids of ``text``. ``controls=False`` reads no protected token in it: it is all ordinary text."""

    def encode_remembered(self, text: str, *, add_special_tokens: bool = False, most: int) -> Encoded | None:
        """The ids that :meth:`encode` gives; None where over ``most`` characters of the text are not remembered."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Text of ``ids``; ids outside the vocabulary give "", bytes that are no UTF-8 give U+FFFD."""

    def token_bytes(self, token_id: int) -> bytes:
        """The token's own raw bytes (UTF-8 of its content for an added token; b"" outside the vocabulary)."""

    def token_to_id(self, token: str) -> int | None:
        """The id of a vocabulary entry as the tokenizer file spells it."""

    def id_to_token(self, token_id: int) -> str | None:
        """The vocabulary entry as the tokenizer file spells it."""
