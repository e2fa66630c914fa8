"""Images to the square picture of LLaVA 1.5, or to the tiles of LLaVA-NeXT."""

from collections.abc import Mapping, Sequence
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
from app.multimodal.transforms import CLIP_MEAN, CLIP_STD, PixelTransform, center_crop, resize, shortest_edge
from plugins.pixtral.processor import PixtralProcessor

__all__ = ("LlavaNextProcessor", "LlavaProcessor", "llava")


def llava(context: ProcessorContext) -> "LlavaProcessor | PixtralProcessor":
    """The processor of a model of type ``llava``, which Pixtral's checkpoints call themselves too."""
    vision = context.config.get("vision_config") or {}
    return PixtralProcessor(context) if vision.get("model_type") == "pixtral" else LlavaProcessor(context)


PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))


class LlavaProcessor(ImagesOnly):
    """LLaVA 1.5: every image becomes one square, so every placeholder has one length."""

    metadata: frozenset[str] = frozenset()

    def __init__(self, context: ProcessorContext) -> None:
        vision = context.config.get("vision_config") or {}
        self.token = context.token("<image>", "image_token_index", "image_token_id")
        self.markers: Mapping[str, Marker] = {"image": Marker("<image>", (self.token,))}
        self.patch = int(vision.get("patch_size") or context.processor.get("patch_size") or 14)
        self.crop = _edges(context.image.get("crop_size")) or _edges(context.image.get("size")) or (224, 224)
        self.size = context.image.get("size") or {"shortest_edge": 224}
        self.resample = int(context.image.get("resample") or Image.Resampling.BICUBIC)
        self.pixels = PixelTransform.read(context.image, CLIP_MEAN, CLIP_STD)
        full = context.config.get("vision_feature_select_strategy", "default") == "full"
        self.extra = 1 if full else 0
        """The class token, where the model keeps it."""

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """One token for each patch."""
        refuse_options(options)
        return self._pads(self._base_patches() + self.extra)

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """``pixel_values`` float32 ``[3, height, width]``."""
        refuse_options(options)
        return {"pixel_values": Field(Tensor.of(self._square(pixels.frames[0])), Batched())}

    def _square(self, image: Image.Image) -> np.ndarray[Any, Any]:
        edge = self.size.get("shortest_edge")
        target = (
            shortest_edge(image.height, image.width, int(edge))
            if edge
            else (int(self.size["height"]), int(self.size["width"]))
        )
        return self.pixels.values(center_crop(resize(image, *target, self.resample), *self.crop))

    def _base_patches(self) -> int:
        return (self.crop[0] // self.patch) * (self.crop[1] // self.patch)

    def _pads(self, count: int) -> Expansion:
        return Expansion((self.token,) * count, 0, count, frozenset({self.token}))


class LlavaNextProcessor(LlavaProcessor):
    """LLaVA-NeXT: the whole image small, and tiles of it in the best of a few resolutions."""

    metadata = frozenset({"image_sizes"})

    def __init__(self, context: ProcessorContext) -> None:
        super().__init__(context)
        points = context.image.get("image_grid_pinpoints") or context.config.get("image_grid_pinpoints") or PINPOINTS
        self.pinpoints: Sequence[tuple[int, int]] = [(int(h), int(w)) for h, w in points]

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """The small image's patches, and those of the tiles without their padding, with a token after every row."""
        refuse_options(options)
        best_height, best_width = self._best(size.height, size.width)
        side = self.crop[0] // self.patch, self.crop[1] // self.patch
        rows, columns = side[0] * (best_height // self.crop[0]), side[1] * (best_width // self.crop[1])
        if size.width / size.height > columns / rows:
            rows -= (rows - int(round(size.height * (columns / size.width), 7))) // 2 * 2
        else:
            columns -= (columns - int(round(size.width * (rows / size.height), 7))) // 2 * 2
        return self._pads(rows * columns + rows + self._base_patches() + self.extra)

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """``pixel_values`` float32 ``[1 + tiles, 3, height, width]`` and ``image_sizes`` int64 ``[height, width]``."""
        refuse_options(options)
        image = pixels.frames[0]
        edge = int(self.size.get("shortest_edge") or 0)
        whole = resize(image, edge or int(self.size["height"]), edge or int(self.size["width"]), self.resample)
        values = [self._square(tile) for tile in (whole, *self._tiles(image))]
        return {
            "pixel_values": Field(Tensor.of(np.stack(values)), Batched()),
            "image_sizes": Field(Tensor.of(np.array([image.height, image.width], np.int64)), Batched(keep_on_cpu=True)),
        }

    def _best(self, height: int, width: int) -> tuple[int, int]:
        """The resolution that keeps most of the image's pixels, and among those wastes least."""

        def merit(point: tuple[int, int]) -> tuple[int, int]:
            scale = min(point[1] / width, point[0] / height)
            kept = min(int(width * scale) * int(height * scale), width * height)
            return kept, kept - point[0] * point[1]

        return max(self.pinpoints, key=merit)

    def _tiles(self, image: Image.Image) -> list[Image.Image]:
        height, width = self._best(image.height, image.width)
        scale_width, scale_height = width / image.width, height / image.height
        if scale_width < scale_height:
            fitted = min(-(-image.height * width // image.width), height), width
        else:
            fitted = height, min(-(-image.width * height // image.height), width)
        canvas = Image.new("RGB", (width, height))
        canvas.paste(resize(image, *fitted, self.resample), ((width - fitted[1]) // 2, (height - fitted[0]) // 2))
        step = self.crop[0]
        return [canvas.crop((x, y, x + step, y + step)) for y in range(0, height, step) for x in range(0, width, step)]


def _edges(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    if isinstance(size, Mapping) and size.get("height"):
        return int(size["height"]), int(size["width"])
    if isinstance(size, Mapping) and size.get("shortest_edge"):
        return int(size["shortest_edge"]), int(size["shortest_edge"])
    return None
