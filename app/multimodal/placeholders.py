"""A prompt with one marker per media item to the prompt with every item's placeholder in it."""

from collections.abc import Mapping, Sequence

from app.errors import InvalidRequest
from app.multimodal.processor import Expansion, Marker
from app.protocol.generate import Placeholder

__all__ = ("embed_mask", "place")


def place(
    ids: Sequence[int], items: Sequence[tuple[str, Expansion]], markers: Mapping[str, Marker]
) -> tuple[list[int], list[Placeholder]]:
    """Replace the markers in ``ids`` by the items' expansions, in order within each modality.

    Args:
        ids: the encoded prompt.
        items: modality and expansion of each item, in the request's order.
        markers: what stands for an item of each modality in ``ids``.

    Returns:
        The expanded ids, and each item's placeholder in the order of ``items``.

    Raises:
        InvalidRequest: the prompt has more or fewer markers than the request has items.
    """
    queues: dict[str, list[tuple[int, Expansion]]] = {modality: [] for modality in markers}
    for position, (modality, expansion) in enumerate(items):
        queues[modality].append((position, expansion))
    firsts: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    for modality, marker in markers.items():
        firsts.setdefault(marker.ids[0], []).append((modality, marker.ids))
    done = dict.fromkeys(markers, 0)
    found: list[Placeholder | None] = [None] * len(items)
    out: list[int] = []
    at = copied = 0
    while at < len(ids):
        for modality, wanted in firsts.get(ids[at], ()):
            if tuple(ids[at : at + len(wanted)]) != wanted:
                continue
            if done[modality] == len(queues[modality]):
                raise _mismatch(modality, "more", len(queues[modality]))
            position, expansion = queues[modality][done[modality]]
            done[modality] += 1
            out += ids[copied:at]
            found[position] = Placeholder(len(out) + expansion.start, expansion.length)
            out += expansion.ids
            at += len(wanted)
            copied = at
            break
        else:
            at += 1
    out += ids[copied:]
    for modality, queue in queues.items():
        if done[modality] < len(queue):
            raise _mismatch(modality, "fewer", len(queue))
    return out, [one for one in found if one is not None]


def embed_mask(ids: Sequence[int], placeholder: Placeholder, embed_ids: frozenset[int]) -> list[bool]:
    """Which positions of a placeholder take an embedding, from the prompt's ids alone."""
    return [token in embed_ids for token in ids[placeholder.offset : placeholder.offset + placeholder.length]]


def _mismatch(modality: str, which: str, items: int) -> InvalidRequest:
    return InvalidRequest(
        f"The prompt has {which} places for {modality} items than the request has items ({items}).", param="messages"
    )
