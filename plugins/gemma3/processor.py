"""Images to Gemma 3's squares and soft tokens."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from app.errors import StartupError
from app.multimodal.processor import (
    Batched,
    Expansion,
    Field,
    Flat,
    ImagesOnly,
    ItemSize,
    Marker,
    Pixels,
    ProcessorContext,
    Tensor,
    refuse_options,
)
from app.multimodal.transforms import PixelTransform, resize

__all__ = ("Gemma3Processor",)


class Gemma3Processor(ImagesOnly):
    """One square an image, whatever its ratio (pan and scan is off, as in the model's own config).

    The image's block begins and ends with an empty line, whose newlines the tokenizer writes as one token with those
    that stand beside it.
    """

    metadata: frozenset[str] = frozenset({"num_patches"})

    def __init__(self, context: ProcessorContext) -> None:
        if context.image.get("do_pan_and_scan"):
            raise StartupError("preprocessor_config.json switches on pan and scan, which is not served here")
        config = context.config
        count = context.processor.get("image_seq_length") or config.get("mm_tokens_per_image") or 256
        size = context.image.get("size") or {}
        self.height, self.width = int(size.get("height") or 896), int(size.get("width") or 896)
        self.resample = int(context.image.get("resample") or Image.Resampling.BILINEAR)
        self.pixels = PixelTransform.read(context.image)
        start, soft, end = (
            context.token(text, key)
            for key, text in (
                ("boi_token_index", "<start_of_image>"),
                ("image_token_index", "<image_soft_token>"),
                ("eoi_token_index", "<end_of_image>"),
            )
        )
        lines = {n: token for n in range(1, 32) if (token := context.token_id("\n" * n)) is not None}
        merges = {(a, b): lines[n + m] for n, a in lines.items() for m, b in lines.items() if n + m in lines}
        self.markers: Mapping[str, Marker] = {"image": Marker("<start_of_image>", (start,), merges)}
        blank = tuple(context.encode("\n\n"))
        self._expansion = Expansion(
            (*blank, start, *(soft,) * int(count), end, *blank), len(blank) + 1, int(count), frozenset({soft})
        )

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """The same for every image; the placeholder is the run of soft tokens."""
        refuse_options(options)
        return self._expansion

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """``pixel_values`` float32 ``[1, 3, height, width]`` and ``num_patches`` int64, one square an image."""
        refuse_options(options)
        values = self.pixels.values(resize(pixels.frames[0], self.height, self.width, self.resample))[None]
        return {
            "pixel_values": Field(Tensor.of(values), Flat((((0, 1, None),),))),
            "num_patches": Field(Tensor.of(np.array(1, np.int64)), Batched(keep_on_cpu=True)),
        }
