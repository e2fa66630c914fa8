"""Images to the pixels of Pixtral and Mistral 3, and to their rows of image tokens."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from app.multimodal.processor import (
    Batched,
    Expansion,
    Field,
    ImagesOnly,
    ItemSize,
    Marker,
    Pixels,
    ProcessorContext,
    Tensor,
    refuse_options,
)
from app.multimodal.transforms import CLIP_MEAN, CLIP_STD, PixelTransform, resize

__all__ = ("Mistral3Processor", "PixtralProcessor")


class PixtralProcessor(ImagesOnly):
    """An image keeps its ratio; its longer side is bounded, both sides become multiples of the merged patch."""

    metadata: frozenset[str] = frozenset()

    def __init__(self, context: ProcessorContext) -> None:
        vision = context.config.get("vision_config") or {}
        patch = context.processor.get("patch_size") or vision.get("patch_size") or _side(context.image) or 16
        merge = context.processor.get("spatial_merge_size") or context.config.get("spatial_merge_size") or 1
        self.patch = int(patch) * int(merge)
        size = context.image.get("size") or {}
        self.longest = int(size.get("longest_edge") or vision.get("image_size") or 1024)
        self.resample = int(context.image.get("resample") or Image.Resampling.BICUBIC)
        self.pixels = PixelTransform.read(context.image, CLIP_MEAN, CLIP_STD)
        self.image, self.row_end, self.image_end = (
            context.token(text) for text in ("[IMG]", "[IMG_BREAK]", "[IMG_END]")
        )
        self.markers: Mapping[str, Marker] = {"image": Marker("[IMG]", (self.image,))}

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """A token for each patch, one after each row; the last row's says that the image ends."""
        height, width = self._fit(size.height, size.width, options)
        row = (*(self.image,) * (width // self.patch), self.row_end)
        ids = (*(row * (height // self.patch))[:-1], self.image_end)
        return Expansion(ids, 0, len(ids), frozenset({self.image}))

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """``pixel_values`` float32 ``[3, height, width]``, without padding to other images' sizes."""
        return {"pixel_values": Field(Tensor.of(self.pixels.values(self._fitted(pixels, options))), Batched())}

    def _fitted(self, pixels: Pixels, options: Mapping[str, Any]) -> Image.Image:
        image = pixels.frames[0]
        return resize(image, *self._fit(image.height, image.width, options), self.resample)

    def _fit(self, height: int, width: int, options: Mapping[str, Any]) -> tuple[int, int]:
        longest = self._longest(options)
        ratio = max(height / longest, width / longest)
        if ratio > 1:
            height, width = int(height / ratio), int(width / ratio)
        return (max(height - 1, 0) // self.patch + 1) * self.patch, (max(width - 1, 0) // self.patch + 1) * self.patch

    def _longest(self, options: Mapping[str, Any]) -> int:
        for name, value in options.items():
            edge = value.get("longest_edge") if name == "size" and isinstance(value, Mapping) else None
            if not isinstance(edge, int) or edge < 1:
                refuse_options({name: value}, "`size` with a positive `longest_edge`")
            else:
                return min(edge, self.longest)
        return self.longest


class Mistral3Processor(PixtralProcessor):
    """Mistral 3: as Pixtral, but pixels travel as uint8; the engine rescales and normalises them on its device."""

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """``pixel_values`` uint8 ``[3, height, width]``."""
        values = np.asarray(self._fitted(pixels, options)).transpose(2, 0, 1)
        return {"pixel_values": Field(Tensor.of(values), Batched())}


def _side(config: Mapping[str, Any]) -> int | None:
    patch = config.get("patch_size")
    if isinstance(patch, Mapping):
        patch = patch.get("height")
    return patch if isinstance(patch, int) else None
