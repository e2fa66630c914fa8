"""The contract between the parsing machine and whoever feeds it tokens."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from app.parsing.deltas import Delta

__all__ = ("Parser", "Piece")

Piece = tuple[int, str]
"""A token id, and the text that it completed (possibly "" while a character is unfinished)."""


class Parser(Protocol):
    """A format bound to one tokenizer and one request (its tools, its tool choice, its template kwargs).

    The parser itself holds no stream state: every method takes the state and gives it back, so that one parser
    serves all choices of a request and a state can cross processes as ``bytes``.
    """

    keeps_special_tokens: bool
    """True where the format's markers are special tokens, so the text that is fed must hold them."""

    def start(self, prompt_ids: Sequence[int], template_kwargs: Mapping[str, Any]) -> Any:
        """The state before the first output token, read once from the prompt's ids and the effective kwargs."""

    def feed(self, state: Any, pieces: Sequence[Piece]) -> list[Delta]:
        """Advance ``state`` in place over new tokens. Never raises on model output."""

    def finish(self, state: Any) -> list[Delta]:
        """The output is over: flush what was held back. The state must not be fed again."""

    def dump(self, state: Any) -> bytes:
        """The state as a few hundred bytes."""

    def load(self, data: bytes) -> Any:
        """The state from :meth:`dump`'s bytes; raises :class:`app.errors.InvalidState`."""
