"""A prompt with one marker per media item to the prompt with every item's placeholder in it."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from app.errors import InvalidRequest
from app.multimodal.processor import Expansion, Marker
from app.protocol.generate import Placeholder

__all__ = ("Placed", "embed_mask", "place")


class Placed(Struct, frozen=True):
    """A prompt whose placeholders have their full length.

    ``placeholders`` are in the order of the items; every token of an expansion has its marker's offsets.
    """

    ids: list[int]
    placeholders: list[Placeholder]
    offsets: list[tuple[int, int]] | None = None


def place(
    ids: Sequence[int],
    items: Sequence[tuple[str, Expansion]],
    markers: Mapping[str, Marker],
    offsets: Sequence[tuple[int, int]] | None = None,
) -> Placed:
    """Replace the markers in ``ids`` by the items' expansions, in order within each modality.

    Args:
        ids: the encoded prompt.
        items: modality and expansion of each item, in the request's order.
        markers: what stands for an item of each modality in ``ids``.
        offsets: character offsets of ``ids``, where they are wanted.

    Raises:
        InvalidRequest: the prompt has more or fewer markers than the request has items.
    """
    queues: dict[str, list[int]] = {modality: [] for modality in markers}
    for position, (modality, _) in enumerate(items):
        queues[modality].append(position)
    found: list[Placeholder | None] = [None] * len(items)
    done = dict.fromkeys(markers, 0)
    out: list[int] = []
    spans: list[tuple[int, int]] = []
    copied = 0
    for at, modality in _occurrences(ids, markers):
        marker = markers[modality]
        if done[modality] == len(queues[modality]):
            raise _mismatch(modality, "more", len(queues[modality]))
        position = queues[modality][done[modality]]
        done[modality] += 1
        expansion = items[position][1]
        out += ids[copied:at]
        end = at + len(marker.ids)
        if offsets is not None:
            spans += offsets[copied:at]
        first = marker.merges.get((out[-1], expansion.ids[0])) if out and marker.merges else None
        if first is not None:
            out.pop()
            spans[-1:] = []
        found[position] = Placeholder(len(out) + expansion.start, expansion.length)
        out += expansion.ids if first is None else (first, *expansion.ids[1:])
        if offsets is not None:
            spans += [(offsets[at][0], offsets[end - 1][1])] * len(expansion.ids)
        last = marker.merges.get((out[-1], ids[end])) if end < len(ids) and marker.merges else None
        if last is not None:
            out[-1] = last
            end += 1
        copied = end
    out += ids[copied:]
    for modality, queue in queues.items():
        if done[modality] < len(queue):
            raise _mismatch(modality, "fewer", len(queue))
    whole = [*spans, *offsets[copied:]] if offsets is not None else None
    return Placed(out, [one for one in found if one is not None], whole)


def embed_mask(ids: Sequence[int], placeholder: Placeholder, embed_ids: frozenset[int]) -> list[bool]:
    """Which positions of a placeholder take an embedding, from the prompt's ids alone."""
    return [token in embed_ids for token in ids[placeholder.offset : placeholder.offset + placeholder.length]]


def _occurrences(ids: Sequence[int], markers: Mapping[str, Marker]) -> list[tuple[int, str]]:
    """Where each marker stands, from the left, without overlap."""
    found: list[tuple[int, str]] = []
    for modality, marker in markers.items():
        first, length, at = marker.ids[0], len(marker.ids), -1
        try:
            while True:
                at = ids.index(first, at + 1)
                if length == 1 or tuple(ids[at : at + length]) == marker.ids:
                    found.append((at, modality))
                    at += length - 1
        except ValueError:
            pass
    return sorted(found)


def _mismatch(modality: str, which: str, items: int) -> InvalidRequest:
    return InvalidRequest(
        f"The prompt has {which} places for {modality} items than the request has items ({items}).", param="messages"
    )
