"""A conversation's media and its encoded prompt to the prompt with full placeholders, and its features."""

from collections.abc import Sequence
from typing import Any

from app.errors import InvalidRequest
from app.multimodal.placeholders import place
from app.multimodal.preparation import MediaPreparation, PreparedItem
from app.protocol.generate import Features, Placeholder
from app.rendering.conversation import Media
from app.rendering.media import MediaPrompt
from app.rendering.request import TemplateOptions
from app.tokenizing.tokenizer import Encoded

__all__ = ("PreparedMedia",)


class PreparedMedia:
    """The :class:`app.rendering.media.MediaEncoder` of a model with a processor.

    Args:
        preparation: fetches, hashes and processes the model's media.
    """

    def __init__(self, preparation: MediaPreparation) -> None:
        self._preparation = preparation
        self._markers = preparation.processor.markers

    def placeholder(self, media: Media) -> str:
        """The text that stands for an item in a string."""
        marker = self._markers.get(media.modality)
        if marker is None:
            raise InvalidRequest(f"This model takes no {media.modality}.", param=media.param or "messages")
        return marker.text

    async def expand(self, media: Sequence[Media], prompt: Encoded, options: TemplateOptions) -> MediaPrompt:
        """Prepare the items and put their placeholders into the prompt."""
        items = await self._preparation.prepare(
            media,
            tensors=options.mm_payload == "tensors",
            options=options.mm_processor_kwargs,
            io_options=options.media_io_kwargs,
        )
        placed = place(prompt.ids, [(one.modality, one.expansion) for one in items], self._markers, prompt.offsets)
        growth = tuple(len(item.expansion.ids) - len(self._markers[item.modality].ids) for item in items)
        return MediaPrompt(placed.ids, placed.offsets, _features(items, placed.placeholders), growth)


def _features(items: Sequence[PreparedItem], placeholders: Sequence[Placeholder]) -> Features:
    """The items by modality, in the request's order; a modality without light fields is not in the metadata."""
    hashes: dict[str, list[str]] = {}
    places: dict[str, list[Placeholder]] = {}
    data: dict[str, list[Any]] = {}
    metadata: dict[str, list[Any]] = {}
    for item, where in zip(items, placeholders, strict=True):
        hashes.setdefault(item.modality, []).append(item.hash)
        places.setdefault(item.modality, []).append(where)
        if item.item is not None:
            data.setdefault(item.modality, []).append(item.item)
        if item.metadata is not None:
            metadata.setdefault(item.modality, []).append(item.metadata)
    return Features(mm_hashes=hashes, mm_placeholders=places, kwargs_data=data or None, mm_metadata=metadata or None)
