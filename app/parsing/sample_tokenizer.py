"""A tokenizer for tests of formats: every character is a token, and so is every marker that it is told of."""

import re
from collections.abc import Mapping, Sequence

from app.tokenizing.tokenizer import AddedToken, Encoded

__all__ = ("MARKER_TEXT", "SampleTokenizer")

MARKER_TEXT = re.compile(r"<[|｜][^|｜<>]+[|｜]>|</?[A-Za-z_:|]+[^\s<>{}=\"']*>|\[/?[A-Z_]+\]|\]<\][a-z]+\[>\[")
"""What in a format's literals looks like a token of its own."""
CHARACTERS = 0x110000


class SampleTokenizer:
    """A :class:`~app.tokenizing.tokenizer.Tokenizer` over code points, with ``markers`` as added tokens."""

    def __init__(self, markers: Sequence[str] = ()) -> None:
        self.markers = tuple(dict.fromkeys(markers))
        self.added_tokens: Mapping[int, AddedToken] = {
            CHARACTERS + i: AddedToken(CHARACTERS + i, m, False) for i, m in enumerate(self.markers)
        }
        self.special_ids: frozenset[int] = frozenset()
        self.vocab_size = CHARACTERS + len(self.markers)
        self.bos_token: str | None = None
        self.eos_token: str | None = None
        self.eos_token_id: int | None = None
        self._ids = {m: CHARACTERS + i for i, m in enumerate(self.markers)}
        longest = sorted(self.markers, key=len, reverse=True)
        self._split = re.compile("|".join(map(re.escape, longest))) if longest else None

    def pieces(self, text: str) -> list[tuple[int, str]]:
        """The text as a parser is fed it: (token id, text)."""
        out: list[tuple[int, str]] = []
        at = 0
        for found in self._split.finditer(text) if self._split else ():
            out += [(ord(char), char) for char in text[at : found.start()]]
            out.append((self._ids[found[0]], found[0]))
            at = found.end()
        return out + [(ord(char), char) for char in text[at:]]

    def encode(
        self, text: str, *, add_special_tokens: bool = False, offsets: bool = False, controls: bool = True
    ) -> Encoded:
        """Ids of ``text``; offsets are never given."""
        return Encoded([token_id for token_id, _ in self.pieces(text)] if controls else [ord(char) for char in text])

    def encode_remembered(self, text: str, *, add_special_tokens: bool = False, most: int) -> Encoded | None:
        """None: it remembers nothing."""
        return None

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Text of ``ids``."""
        return "".join(self.id_to_token(token_id) or "" for token_id in ids)

    def token_bytes(self, token_id: int) -> bytes:
        """UTF-8 of the token."""
        return (self.id_to_token(token_id) or "").encode()

    def token_to_id(self, token: str) -> int | None:
        """The id of a marker or a character."""
        return self._ids.get(token, ord(token) if len(token) == 1 else None)

    def id_to_token(self, token_id: int) -> str | None:
        """The marker or character of an id."""
        added = self.added_tokens.get(token_id)
        return added.content if added else chr(token_id) if 0 <= token_id < CHARACTERS else None
