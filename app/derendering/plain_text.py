"""The parser of models without output formats: every text is content."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.parsing.deltas import Content, Delta
from app.parsing.parser import Piece

__all__ = ("PlainText",)


class PlainText:
    """A :class:`app.parsing.parser.Parser` that has no state."""

    keeps_special_tokens = False

    def start(self, prompt_ids: Sequence[int], template_kwargs: Mapping[str, Any]) -> None:
        """Nothing to remember."""

    def feed(self, state: None, pieces: Sequence[Piece]) -> list[Delta]:
        """The texts, as content."""
        text = "".join([text for _, text in pieces])
        return [Content(text)] if text else []

    def finish(self, state: None) -> list[Delta]:
        """Nothing was held back."""
        return []

    def dump(self, state: None) -> bytes:
        """Nothing."""
        return b""

    def load(self, data: bytes) -> None:
        """Nothing."""
