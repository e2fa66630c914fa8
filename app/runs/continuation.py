"""A rendered prompt and the token ids of the turn before it to a prompt that goes on from those very ids.

A model's own words, tokenised anew, often get other ids than it sampled: its next turn then reads something it never
wrote, and the engine's prefix cache misses. Where the new prompt starts with exactly the bytes of the stored ids, and
a token of it ends there, the stored ids take the place of its beginning. Anything else leaves it as it was rendered.
"""

from collections.abc import Sequence

from app.store.exact import ExactIds
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("continued",)


def continued(prompt: list[int], before: ExactIds | None, tokenizer: Tokenizer) -> tuple[list[int], int]:
    """The ids to generate from, and how many of them are the stored ones.

    Returns either the stored ids with an end of ``prompt`` behind them (same bytes in all as ``prompt``), or ``prompt``
    itself and 0. The cost is that of what follows the first difference.
    """
    if before is None:
        return prompt, 0
    stored = [*before.prompt, *before.completion]
    if not stored:
        return prompt, 0
    same = _common(prompt, stored)
    if same == len(stored):
        return prompt, same
    pieces = [tokenizer.token_bytes(token) for token in stored[same:]]
    if not all(pieces):  # an id without bytes could stand anywhere
        return prompt, 0
    wanted = b"".join(pieces)
    seen = 0
    for place, token in enumerate(prompt[same:], same):
        if seen == len(wanted):
            return [*stored, *prompt[place:]], len(stored)
        piece = tokenizer.token_bytes(token)
        if not wanted.startswith(piece, seen) or not piece:
            return prompt, 0
        seen += len(piece)
    return prompt, 0


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    return next(
        (place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )
