"""A prompt's ids to what they left open: where output begins, and the rendered ``reasoning_ended``."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.parsing.format import ReasoningFormat
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("TAIL_TOKENS", "ReasoningEnd", "prompt_tail", "starts_inside", "switched")

TAIL_TOKENS = 4096
"""How far back from the prompt's end the last header is looked for."""
HEADER_TOKENS = 16
"""A tail this long is the end of an assistant header, the same in nearly every request."""
KNOWN_TAILS = 256
OFF = ("none", "no_think")
"""Words for no thinking at all, where a kwarg is a word."""


def switched(format: ReasoningFormat, kwargs: Mapping[str, Any]) -> bool | None:
    """Whether the effective template kwargs switch thinking on or off; None where they say nothing."""
    asked: bool | None = None
    for key in format.switches:
        value = kwargs.get(key)
        if value is False or value in OFF:
            return False
        asked = True if value else asked
    return asked


def starts_inside(format: ReasoningFormat, kwargs: Mapping[str, Any]) -> bool:
    """Whether output begins inside reasoning where the prompt holds no marker after its last header."""
    asked = switched(format, kwargs)
    if asked is False:
        return False
    return format.starts == "inside" or (format.starts == "asked" and asked is True)


def prompt_tail(tokenizer: Tokenizer, ids: Sequence[int], markers: Mapping[int, str], start: int | None) -> list[int]:
    """What of the prompt belongs to the turn that is being written.

    That is what follows the last added token that is none of the formats' markers (an assistant header's last), or
    what begins with the last ``start`` token where a format has one. Empty where neither is found within
    :data:`TAIL_TOKENS`, or where it is the begin-of-text token: then the tail could be anyone's text.
    """
    added = tokenizer.added_tokens
    for at in range(len(ids) - 1, max(-1, len(ids) - 1 - TAIL_TOKENS), -1):
        token_id = ids[at]
        if start is not None:
            if token_id == start:
                return list(ids[at:])
        elif token_id in added and token_id not in markers:
            return [] if added[token_id].content == tokenizer.bos_token else list(ids[at + 1 :])
    return []


class ReasoningEnd:
    """Gives the rendered ``reasoning_ended`` of prompts, for one model.

    Args:
        format: the model's reasoning format; None for none.
        tokenizer: the model's.
    """

    def __init__(self, format: ReasoningFormat | None, tokenizer: Tokenizer) -> None:
        self.format = format
        self.tokenizer = tokenizer
        added = tokenizer.added_tokens
        self.opens, self.closes = (set(format.open), set(format.close)) if format is not None else (set(), set())
        ids = {tokenizer.token_to_id(mark): mark for mark in self.opens | self.closes}
        self.marks = {token_id: mark for token_id, mark in ids.items() if token_id is not None and token_id in added}
        self.closed_in_text = lru_cache(KNOWN_TAILS)(self._closed_in_text)

    def of(self, prompt_ids: Sequence[int], kwargs: Mapping[str, Any]) -> bool | None:
        """For a request whose reasoning is wanted; None without a reasoning format.

        Args:
            prompt_ids: the prompt.
            kwargs: the effective template kwargs.
        """
        format = self.format
        if format is None:
            return None
        if format.ended == "always":
            return True
        asked = switched(format, kwargs)
        if format.ended == "unless_asked":
            return asked is not True
        if format.ended == "closed_or_off" and asked is False:
            return True
        tail = prompt_tail(self.tokenizer, prompt_ids, self.marks, None)
        for token_id in reversed(tail):
            if token_id in self.marks:
                return self.marks[token_id] in self.closes
        if len(tail) <= HEADER_TOKENS:
            return self.closed_in_text(tuple(tail))
        return self._closed_in_text(tail)

    def _closed_in_text(self, tail: Sequence[int]) -> bool:
        """Whether the last marker that is spelled out in plain tokens is a close."""
        text = self.tokenizer.decode(tail)
        closed, opened = (max((text.rfind(mark) for mark in found), default=-1) for found in (self.closes, self.opens))
        return closed > opened
