"""A text to the added tokens in it and the plain text between them, as Hugging Face's tokenizers split it.

The reference is ``AddedVocabulary::extract_and_normalize`` of the ``tokenizers`` crate: added tokens that are not
``normalized`` are found in the text as it is, leftmost and longest first; then the others, in what is left, after the
normalizer. ``lstrip`` and ``rstrip`` take white space into the token, ``single_word`` asks for word boundaries.
"""

import re
import unicodedata
from collections.abc import Iterable

from app.tokenizing.literals import alternation
from app.tokenizing.tokenizer import AddedToken

__all__ = ("AddedTokenSplitter", "Span", "splits_at_once")

Span = tuple[int, int, int | None]
"""Start, end (characters) and the added token's id, or None for plain text."""

# Unicode's White_Space, which Rust's \s is; Python's also has U+001C to U+001F.
_SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_SPACE_AFTER = re.compile(f"{_SPACE}*")
_SPACE_BEFORE = re.compile(f"{_SPACE}+\\Z")
_ENCLOSED_LETTERS = re.compile("[\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189]")


def splits_at_once(tokens: Iterable[AddedToken], *, normalizing: bool) -> bool:
    """Whether one pass over a text finds the same tokens as the reference's two.

    Args:
        tokens: all added tokens.
        normalizing: whether the normalizer changes any text.
    """
    literal: set[str] = set()
    normalized: set[str] = set()
    looks_around = False
    for token in tokens:
        looks_around = looks_around or token.lstrip or token.rstrip or token.single_word
        (normalized if token.normalized else literal).add(token.content)
    if not normalized or not (literal or normalizing):
        return True
    return not (normalizing or looks_around or _hides(normalized, literal))


def _hides(normalized: set[str], literal: set[str]) -> bool:
    """Whether a literal token can begin within an occurrence of a normalized one.

    The reference finds literal tokens first, in the whole text; one pass from the left would read the normalized one
    and miss it. Where a literal token comes first, both read that, whatever it hides.
    """
    beginnings = {content[:length] for content in literal for length in range(1, len(content) + 1)}
    ends = (content[start:] for content in normalized for start in range(1, len(content)))
    whole = "\0".join(normalized)
    return any(end in beginnings for end in ends) or any(content in whole for content in literal)


def _in_word(character: str) -> bool:
    """Whether a character (or none) is one of Rust's ``\\w``: letters, marks, decimal digits, connectors, joiners.

    Python's own ``\\w`` has no marks, and has numbers that are no digits (UTS #18, annex C).
    """
    if not character:
        return False
    category = unicodedata.category(character)
    return (
        category[0] in "LM"
        or category in ("Nd", "Nl", "Pc")
        or character in "\u200c\u200d"
        or _ENCLOSED_LETTERS.match(character) is not None
    )


class AddedTokenSplitter:
    """Finds a set of added tokens in any text, in one pass.

    Args:
        tokens: them.
    """

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self._tokens = {token.content: token for token in tokens if token.content}
        self._ids = {content: token.id for content, token in self._tokens.items()}
        self._flagged = any(t.lstrip or t.rstrip or t.single_word for t in self._tokens.values())
        self._pattern = re.compile(f"({alternation(self._tokens)})")

    def split(self, text: str) -> tuple[list[str], list[int]]:
        """The plain texts (possibly empty), and the ids of the tokens between them: one less."""
        if self._flagged:
            return self._split_flagged(text)
        parts = self._pattern.split(text)
        return parts[::2], [self._ids[content] for content in parts[1::2]]

    def spans(self, text: str) -> list[Span]:
        """The same as places in ``text``; no empty spans."""
        spans: list[Span] = []
        done = 0
        for match in self._pattern.finditer(text):
            token, (start, end) = self._tokens[match[0]], match.span()
            if token.single_word and (_in_word(text[start - 1 : start]) or _in_word(text[end : end + 1])):
                continue
            if token.lstrip and (space := _SPACE_BEFORE.search(text, done, start)):
                start = space.start()
            if token.rstrip and (space := _SPACE_AFTER.match(text, end)):
                end = space.end()
            if done < start:
                spans.append((done, start, None))
            spans.append((start, end, token.id))
            done = end
        if done < len(text):
            spans.append((done, len(text), None))
        return spans

    def _split_flagged(self, text: str) -> tuple[list[str], list[int]]:
        texts, ids = [""], []
        for start, end, token_id in self.spans(text):
            if token_id is None:
                texts[-1] = text[start:end]
            else:
                ids.append(token_id)
                texts.append("")
        return texts, ids
