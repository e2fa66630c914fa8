"""A prompt's ids to what they left open: where output begins, and the rendered ``reasoning_ended``."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.parsing.format import ReasoningFormat
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("TAIL_TOKENS", "prompt_tail", "reasoning_ended", "starts_inside", "switched")

TAIL_TOKENS = 4096
"""How far back from the prompt's end the last header is looked for."""


def switched(format: ReasoningFormat, kwargs: Mapping[str, Any]) -> bool | None:
    """Whether the effective template kwargs switch thinking on or off; None where they say nothing."""
    values = [kwargs[key] for key in format.switches if kwargs.get(key) is not None]
    if any(value is False for value in values):
        return False
    return True if any(values) else None


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


def reasoning_ended(
    format: ReasoningFormat | None, tokenizer: Tokenizer, prompt_ids: Sequence[int], kwargs: Mapping[str, Any]
) -> bool | None:
    """The rendered ``reasoning_ended`` of a request whose reasoning is wanted; None without a reasoning format."""
    if format is None:
        return None
    if format.ended == "always":
        return True
    asked = switched(format, kwargs)
    if format.ended == "unless_asked":
        return asked is not True
    if format.ended == "closed_or_off" and asked is False:
        return True
    opens, closes = set(format.open), set(format.close)
    ids = {tokenizer.token_to_id(mark): mark for mark in opens | closes}
    added = tokenizer.added_tokens
    marks = {token_id: mark for token_id, mark in ids.items() if token_id is not None and token_id in added}
    tail = prompt_tail(tokenizer, prompt_ids, marks, None)
    for token_id in reversed(tail):
        if token_id in marks:
            return marks[token_id] in closes
    text = tokenizer.decode(tail)
    closed, opened = (max((text.rfind(mark) for mark in found), default=-1) for found in (closes, opens))
    return closed > opened
