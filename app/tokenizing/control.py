"""Text that came from outside to text in which no control token can be read (law 6).

A *protected* token is an added token that only the server may write: every special one, every one that the chat
template or the model's output formats spell out, every media placeholder. Before a text from a user, a tool, a system
message or a document enters a template, :meth:`ControlTokens.shield` puts a *stand-in* in the place of the first
character of each protected token in it. Stand-ins are lone surrogate code points, which no JSON body can hold, so that
they collide with nothing; each stands for one character, so that lengths stay as they are. The template is rendered,
the tokenizer splits the text at the genuine control tokens, puts the characters back, and encodes what lies between as
ordinary text.
"""

import re
from collections.abc import Iterable

from app.tokenizing.literals import alternation, first_character

__all__ = ("ControlTokens", "holds_stand_ins", "is_control_text")

_SURROGATES = range(0xDC00, 0xE000)
_ANY_SURROGATE = re.compile("[\ud800-\udfff]")


def holds_stand_ins(text: str) -> bool:
    """Whether a stand-in is in ``text``."""
    return not text.isascii() and _ANY_SURROGATE.search(text) is not None


def is_control_text(content: str) -> bool:
    """Whether an added token's content can be a control token: white space alone (Gemma has such tokens) is none."""
    return bool(content.strip())


def _suffixes(literals: Iterable[str]) -> set[str]:
    """Proper suffixes that are not only letters and digits: no template writes a token but for its last letters."""
    return {
        suffix
        for literal in literals
        for start in range(1, len(literal))
        if not (suffix := literal[start:]).isalnum() and is_control_text(suffix)
    }


class ControlTokens:
    """The protected tokens of one served model.

    Args:
        contents: the tokens' texts, as the tokenizer file has them.
    """

    def __init__(self, contents: Iterable[str] = ()) -> None:
        self.contents = frozenset(content for content in contents if is_control_text(content))
        # A token that another text completes is broken too: this one ends with its beginning, or starts with its end.
        # The pattern begins with a literal at its top level, so that it is searched for at the speed of memchr.
        self._opened = re.compile(first_character(self.contents))
        self._closing = re.compile(alternation(_suffixes(self.contents)))
        characters = sorted({character for content in self.contents for character in content})
        if len(characters) > len(_SURROGATES):
            raise ValueError(f"protected tokens are written with over {len(_SURROGATES)} characters")
        self._stand_ins = {character: chr(code) for code, character in zip(_SURROGATES, characters, strict=False)}
        self._characters = {stand_in: character for character, stand_in in self._stand_ins.items()}

    def shield(self, text: str) -> str:
        """``text`` with the first character of each protected token in it replaced by its stand-in.

        Also where ``text`` ends with the beginning of a protected token, or begins with the end of one: two adjacent
        texts must not make one together. Of the same length; the same object where nothing had to be replaced.
        """
        shielded = self._opened.sub(self._stand_in, text)
        if self._closing.match(text):
            return self._stand_ins[text[0]] + shielded[1:]
        return shielded

    def _stand_in(self, match: re.Match[str]) -> str:
        return self._stand_ins[match[0]]

    def restore(self, text: str) -> str:
        """``text`` with every stand-in replaced by its character; a surrogate that stands for none by U+FFFD."""
        if not holds_stand_ins(text):
            return text
        return _ANY_SURROGATE.sub(self._character, text)

    def _character(self, match: re.Match[str]) -> str:
        return self._characters.get(match[0], "\ufffd")
