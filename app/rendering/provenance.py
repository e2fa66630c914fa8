"""A conversation's outside text to text in which no control token can be read (law 6), before a template sees it.

Outside is all that a user, a tool, a system message or a document brought: contents, names, ids, tool definitions,
documents, string kwargs. The assistant's own words, reasoning and calls are the model's, and stay as they are.
"""

from operator import is_not
from typing import Any, Protocol

__all__ = ("NO_SHIELD", "Controls", "Shield")

WORD = 64
WORDS = 8192
"""Strings of up to so many characters that are known to be clean, and how many of them are remembered."""


class Controls(Protocol):
    """What is used of :class:`app.tokenizing.control.ControlTokens`."""

    contents: frozenset[str]

    def shield(self, text: str) -> str:
        """Put stand-ins into ``text``."""


class Shield:
    """Shields strings and JSON values; ``controls`` None shields nothing (``special_tokens_in_text = "control"``)."""

    def __init__(self, controls: Controls | None) -> None:
        self.controls = controls if controls is not None and controls.contents else None
        self.clean: set[str] = set()

    def text(self, text: str) -> str:
        """``text`` with stand-ins; the same object where it needs none."""
        return text if self.controls is None else self.controls.shield(text)

    def value(self, value: Any) -> Any:
        """A JSON value with every string in it shielded, keys included; the same object where nothing changed."""
        if self.controls is None:
            return value
        kind = type(value)
        if kind is str:
            return self.word(value)
        if kind is dict:
            return self.entries(value)
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            return items if any(map(is_not, items, value)) else value
        return value

    def entries(self, value: dict[str, Any]) -> dict[str, Any]:
        """A mapping, copied only where something in it changed."""
        out: dict[str, Any] | None = None
        clean = self.clean
        for key, item in value.items():
            new_key = key if key in clean else self.word(key)
            new = item if type(item) is str and item in clean else self.value(item)
            if new is not item or new_key is not key:
                out = {}
                break
        if out is None:
            return value
        return {self.word(key): self.value(item) for key, item in value.items()}

    def word(self, text: str) -> str:
        """Like :meth:`text`, for the short strings that schemas are made of and that come again and again."""
        if text in self.clean:
            return text
        shielded = self.text(text)
        if shielded is text and len(text) <= WORD:
            if len(self.clean) >= WORDS:
                self.clean.clear()
            self.clean.add(text)
        return shielded


NO_SHIELD = Shield(None)
