"""Literals of a format to a tokenizer's own markers: what is one token of the vocabulary matches by its id.

A marker travels through the machine as one lone surrogate, which decoded text can't contain; so one matcher serves id
markers and text markers alike, and the same characters spelled in ordinary tokens open nothing. Markers of calls are
U+D800 and up, those of reasoning alone U+DC00 and up: the former end any value they stand in, the latter don't.
"""

import re
from collections.abc import Iterable

from app.tokenizing.tokenizer import Tokenizer

__all__ = ("ANY_MARKER", "CALL_MARKER", "Markers")

ANY_MARKER = re.compile("[\ud800-\udfff]")
SUFFIX = re.compile(r":[^\s<>:]+>$")
CALL_MARKER = re.compile("[\ud800-\udbff]")


class Markers:
    """The markers of one format pair in one vocabulary.

    Args:
        tokenizer: whose added tokens are looked for in the literals.
        calls: every literal of the tool format, heads included.
        reasoning: every literal of the reasoning format.
        suffixed: an added token counts without ``:word`` before its ``>``.
        spelled: calls' markers count however they are written. A grammar knows text and no tokens: what it makes a
            model write may be spelled in ordinary ones.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        calls: Iterable[str],
        reasoning: Iterable[str],
        *,
        suffixed: bool = False,
        spelled: bool = False,
    ) -> None:
        self.by_id: dict[int, str] = {}
        """Token id to its surrogate, or to its text where calls' markers are spelled."""
        self.text: dict[int, str] = {}
        """Token id to its text."""
        self._put_back: dict[str, str] = {}
        calls, reasoning = tuple(calls), tuple(reasoning)
        found: list[tuple[str, str]] = []
        for token_id, token in tokenizer.added_tokens.items():
            content = SUFFIX.sub(">", token.content) if suffixed else token.content
            if not content.strip():
                continue
            if any(content in literal for literal in calls):
                if spelled and not any(content in literal for literal in reasoning):
                    self.by_id[token_id], self.text[token_id] = content, token.content
                    continue
                base = 0xD800
            elif any(content in literal for literal in reasoning):
                base = 0xDC00
            else:
                continue
            mark = chr(base + len(self.by_id))
            self.by_id[token_id], self.text[token_id] = mark, token.content
            self._put_back[mark] = token.content
            found.append((content, mark))
        self._found = sorted(found, key=lambda pair: -len(pair[0]))

    def encode(self, literal: str) -> str:
        """``literal`` with every marker in it as its surrogate."""
        for content, mark in self._found:
            literal = literal.replace(content, mark)
        return literal

    def restore(self, text: str) -> str:
        """``text`` with every surrogate as the marker's own characters."""
        if text.isascii():
            return text
        return ANY_MARKER.sub(lambda found: self._put_back.get(found[0], "\ufffd"), text)
