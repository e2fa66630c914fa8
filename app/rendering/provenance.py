"""A conversation's outside text to text in which no control token can be read (law 6), before a template sees it.

Outside is all that a user, a tool, a system message or a document brought: contents, names, ids, tool definitions,
documents, string kwargs. The assistant's own words, reasoning and calls are the model's, and stay as they are.
"""

from typing import Any, Protocol

__all__ = ("NO_SHIELD", "Controls", "Shield")


class Controls(Protocol):
    """What is used of :class:`app.tokenizing.control.ControlTokens`."""

    contents: frozenset[str]

    def shield(self, text: str) -> str:
        """Put stand-ins into ``text``."""


class Shield:
    """Shields strings and JSON values; ``controls`` None shields nothing (``special_tokens_in_text = "control"``)."""

    def __init__(self, controls: Controls | None) -> None:
        self.controls = controls if controls is not None and controls.contents else None
        contents = self.controls.contents if self.controls is not None else ()
        # A text without any token's first character, that also starts with no character of a token but a letter or
        # digit, can hold no token, no beginning and no end of one: most texts are done after a memchr or two.
        self.firsts = tuple(sorted({content[0] for content in contents}))
        self.inner = frozenset(character for content in contents for character in content[1:])

    def text(self, text: str) -> str:
        """``text`` with stand-ins; the same object where it needs none."""
        if self.controls is None or not text:
            return text
        if text[0] not in self.inner:
            for first in self.firsts:
                if first in text:
                    break
            else:
                return text
        return self.controls.shield(text)

    def value(self, value: Any) -> Any:
        """A JSON value with every string in it shielded, keys included; the same object where nothing changed."""
        if self.controls is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            shielded = {self.text(key): self.value(item) for key, item in value.items()}
            return shielded if any(map(differs, shielded.items(), value.items())) else value
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        return value


def differs(new: tuple[str, Any], old: tuple[str, Any]) -> bool:
    """Whether an entry was replaced."""
    return new[0] is not old[0] or new[1] is not old[1]


NO_SHIELD = Shield(None)
