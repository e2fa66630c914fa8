"""Images to the tiles of Idefics3 and SmolVLM and to their rows and columns of image tokens."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from PIL import Image

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

__all__ = ("Idefics3Processor",)

MAX_EDGE = 4096
"""Pixels of the longer side, whatever the config says."""


class Tiling(Struct, frozen=True):
    """An image's size after the first and the second resize, and its tiles; 0 rows and columns: it is its one tile."""

    first: tuple[int, int]
    second: tuple[int, int]
    rows: int
    columns: int


class Idefics3Processor(ImagesOnly):
    """The longer side is brought to one length, both sides to multiples of the tile; then come the tiles, row by row,
    and last the whole image as one tile."""

    metadata: frozenset[str] = frozenset({"num_patches"})

    def __init__(self, context: ProcessorContext) -> None:
        vision = context.config.get("vision_config") or {}
        size, tile = context.image.get("size") or {}, context.image.get("max_image_size") or {}
        self.tile = int(tile.get("longest_edge") or vision.get("image_size") or 364)
        self.longest = int(size.get("longest_edge") or 4 * self.tile)
        self.splits = context.image.get("do_image_splitting", True) is not False
        self.resample = int(context.image.get("resample") or Image.Resampling.LANCZOS)
        self.pixels = PixelTransform.read(context.image)
        scale = int(context.config.get("scale_factor") or 2)
        patches = self.tile // int(vision.get("patch_size") or 14)
        self.length = int(context.processor.get("image_seq_len") or patches**2 // scale**2)
        self.image = context.token("<image>", "image_token_id")
        self.fake = context.token("<fake_token_around_image>")
        self.whole = tuple(context.encode("<global-img>"))
        self._encode = context.encode
        self.markers: Mapping[str, Marker] = {"image": Marker("<image>", (self.image,))}

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """Each tile announces its row and column; a row of tiles ends with a line break."""
        tiling = self._tiling(size.height, size.width, options)
        pads = (self.image,) * self.length
        ids: list[int] = []
        for row in range(tiling.rows):
            for column in range(tiling.columns):
                ids += (self.fake, *self._encode(f"<row_{row + 1}_col_{column + 1}>"), *pads)
            # the last row's break and the empty line before the whole image are one run of text
            ids += self._encode("\n" if row + 1 < tiling.rows else "\n\n")
        ids += (self.fake, *self.whole, *pads, self.fake)
        return Expansion(tuple(ids), 0, len(ids), frozenset({self.image}))

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """``pixel_values`` float32 ``[tiles, 3, tile, tile]``, its ``pixel_attention_mask`` and ``num_patches``."""
        image = pixels.frames[0]
        tiling = self._tiling(image.height, image.width, options)
        fitted = resize(resize(image, *tiling.first, self.resample), *tiling.second, self.resample)
        side = self.tile
        tiles = [
            fitted.crop((column * side, row * side, (column + 1) * side, (row + 1) * side))
            for row in range(tiling.rows)
            for column in range(tiling.columns)
        ]
        tiles.append(resize(fitted, side, side, self.resample))
        values = np.stack([self.pixels.values(tile) for tile in tiles])
        mask = np.ones((len(tiles), side, side), np.int64)
        slices = (((0, len(tiles), None),),)
        return {
            "pixel_values": Field(Tensor.of(values), Flat(slices)),
            "pixel_attention_mask": Field(Tensor.of(mask), Flat(slices)),
            "num_patches": Field(Tensor.of(np.array(len(tiles), np.int64)), Batched(keep_on_cpu=True)),
        }

    def _tiling(self, height: int, width: int, options: Mapping[str, Any]) -> Tiling:
        longest, splits = self._options(options)
        first = _below(*_longest_edge(height, width, longest), MAX_EDGE)
        side = self.tile
        if not splits:
            return Tiling(first, (side, side), 0, 0)
        rows, columns = _whole_tiles(*first, side)
        if rows == columns == 1:
            return Tiling(first, (side, side), 0, 0)
        return Tiling(first, (rows * side, columns * side), rows, columns)

    def _options(self, options: Mapping[str, Any]) -> tuple[int, bool]:
        longest, splits = self.longest, self.splits
        for name, value in options.items():
            if name == "do_image_splitting" and isinstance(value, bool):
                splits = value
            elif name == "size" and isinstance(value, Mapping) and isinstance(value.get("longest_edge"), int):
                longest = max(1, min(value["longest_edge"], MAX_EDGE))
            else:
                refuse_options({name: value}, "`size` with `longest_edge`, and `do_image_splitting`")
        return longest, splits


def _longest_edge(height: int, width: int, edge: int) -> tuple[int, int]:
    """The longer side becomes ``edge``, the shorter one even."""
    if width >= height:
        shorter = int(edge / (width / height))
        return max(shorter + shorter % 2, 1), edge
    shorter = int(edge * (width / height))
    return edge, max(shorter + shorter % 2, 1)


def _below(height: int, width: int, edge: int) -> tuple[int, int]:
    ratio = width / height
    if width >= height and width > edge:
        return max(int(edge / ratio), 1), edge
    if height > width and height > edge:
        return edge, max(int(edge * ratio), 1)
    return height, width


def _whole_tiles(height: int, width: int, side: int) -> tuple[int, int]:
    """Rows and columns of tiles; the shorter side follows the longer one's rounding, then is rounded up itself."""
    ratio = width / height
    if width >= height:
        columns = math.ceil(width / side)
        return math.ceil(int(columns * side / ratio) / side), columns
    rows = math.ceil(height / side)
    return rows, math.ceil(int(rows * side * ratio) / side)
