"""A prompt that may be cut to the prompt that fits: tokens off one end, or whole items off the beginning."""

from collections.abc import Sequence
from typing import Literal

from app.errors import InvalidRequest
from app.protocol.generate import Features, Placeholder
from app.rendering.conversation import Message

__all__ = ("droppable", "kept_ranges", "kept_tokens", "shifted", "without_oldest")


def kept_tokens(truncate_prompt_tokens: int | None, max_model_len: int) -> int | None:
    """How many tokens stay at most; None for all. -1 leaves room for one output token."""
    if truncate_prompt_tokens is None:
        return None
    if truncate_prompt_tokens < 0:
        return max_model_len - 1
    if truncate_prompt_tokens > max_model_len:
        raise InvalidRequest(
            f"`truncate_prompt_tokens` is {truncate_prompt_tokens}; this model's context has {max_model_len} tokens.",
            param="truncate_prompt_tokens",
        )
    return truncate_prompt_tokens


def kept_ranges(
    length: int, keep: int, side: Literal["left", "right"] | None, *, first: int = 0, last: int = 0
) -> list[tuple[int, int]]:
    """``[start, end)`` of the tokens that stay, out of ``length``, which is more than ``keep``.

    ``side`` is where tokens go; unset: left, so that the tail stays. The ``first`` and ``last`` special tokens that the
    tokenizer put around the text stay, if there is room for more than these.
    """
    if keep <= first + last:
        first = last = 0
    inner = keep - first - last
    start, end = (first, first + inner) if side == "right" else (length - last - inner, length - last)
    return [(0, first), (start, end), (length - last, length)]


def shifted(features: Features | None, ranges: Sequence[tuple[int, int]]) -> Features | None:
    """Features for the tokens in ``ranges``; a placeholder that is not wholly in one of them is refused."""
    if features is None:
        return None
    moved = {
        modality: [Placeholder(moved_to(place, ranges, modality), place.length) for place in places]
        for modality, places in features.mm_placeholders.items()
    }
    return Features(
        mm_hashes=features.mm_hashes,
        mm_placeholders=moved,
        kwargs_data=features.kwargs_data,
        mm_metadata=features.mm_metadata,
    )


def moved_to(place: Placeholder, ranges: Sequence[tuple[int, int]], modality: str) -> int:
    """A placeholder's offset in the tokens that stay."""
    before = 0
    for start, end in ranges:
        if start <= place.offset and place.offset + place.length <= end:
            return before + place.offset - start
        before += end - start
    raise InvalidRequest(
        f"Truncation would cut the tokens of the {modality} at {place.offset}.", param="truncate_prompt_tokens"
    )


def droppable(messages: Sequence[Message]) -> list[int]:
    """Where a conversation may begin, nearest first: indices into ``messages``.

    System and developer messages are no place to begin and stay whatever goes. No call may lose its result, and no
    result its call: between a call and the last of its results is no place to begin either.
    """
    forbidden: set[int] = set()
    calls: dict[str, int] = {}
    for at, message in enumerate(messages):
        for call in message.tool_calls:
            if call.id is not None:
                calls[call.id] = at
        if message.role in ("tool", "function"):
            start = calls.get(message.tool_call_id or "", at - 1)
            forbidden.update(range(start + 1, at + 1))
    return [
        at
        for at, message in enumerate(messages)
        if at and at not in forbidden and message.role not in ("system", "developer")
    ]


def without_oldest(messages: Sequence[Message], start: int) -> list[Message]:
    """The messages from ``start`` on, behind the system and developer messages that stood before it."""
    head = [message for message in messages[:start] if message.role in ("system", "developer")]
    return [*head, *messages[start:]]
