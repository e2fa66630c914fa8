"""Images and video frames to the patches, grids and placeholders of the Qwen-VL families."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from PIL import Image

from app.errors import InvalidRequest
from app.multimodal.processor import (
    Batched,
    Expansion,
    Field,
    Flat,
    ItemSize,
    Marker,
    Pixels,
    ProcessorContext,
    Tensor,
    refuse_options,
)
from app.multimodal.transforms import resize
from plugins.qwen_vl.resize import fit_image, fit_video

__all__ = ("Qwen2VLProcessor", "Qwen3VLProcessor", "Qwen25VLProcessor")

OPTIONS = frozenset({"min_pixels", "max_pixels", "size", "fps", "num_frames"})


class Geometry(Struct, frozen=True):
    """Patch sizes in pixels and frames, and the bounds on the pixels of an image or video."""

    patch: int
    temporal: int
    merge: int
    min_pixels: int
    max_pixels: int

    @property
    def factor(self) -> int:
        """Both sides of a resized picture are multiples of this, in pixels."""
        return self.patch * self.merge

    @classmethod
    def read(cls, config: Mapping[str, Any], default: "Geometry") -> "Geometry":
        """From a preprocessor config; ``size`` with its two edges and ``min_pixels``/``max_pixels`` say the same."""
        size = config.get("size") or {}
        return cls(
            patch=config.get("patch_size") or default.patch,
            temporal=config.get("temporal_patch_size") or default.temporal,
            merge=config.get("merge_size") or default.merge,
            min_pixels=config.get("min_pixels") or size.get("shortest_edge") or default.min_pixels,
            max_pixels=config.get("max_pixels") or size.get("longest_edge") or default.max_pixels,
        )

    def under(self, options: Mapping[str, Any]) -> "Geometry":
        """With a request's own bounds; raises InvalidRequest where they make no sense."""
        bounds = {key: value for key, value in options.items() if key in ("min_pixels", "max_pixels", "size")}
        if not bounds:
            return self
        size = bounds.get("size") or {}
        if not isinstance(size, Mapping) or not all(isinstance(v, int) and v > 0 for v in size.values()):
            raise InvalidRequest("`size` must map edges to positive numbers of pixels.", param="mm_processor_kwargs")
        edges = {**bounds, "size": size}
        for key in ("min_pixels", "max_pixels"):
            if edges.get(key) is not None and not (isinstance(edges[key], int) and edges[key] > 0):
                raise InvalidRequest(f"`{key}` must be a positive number of pixels.", param="mm_processor_kwargs")
        found = Geometry.read(edges, self)
        both = {"min_pixels", "max_pixels"} <= bounds.keys() or {"shortest_edge", "longest_edge"} <= size.keys()
        if both and found.min_pixels > found.max_pixels:
            raise InvalidRequest("`min_pixels` is above `max_pixels`.", param="mm_processor_kwargs")
        return found


class Qwen2VLProcessor:
    """Qwen2-VL. Pixels travel as uint8 patches; the engine rescales and normalises them on its device."""

    image_default = Geometry(14, 2, 2, 56 * 56, 28 * 28 * 1280)
    video_default = Geometry(14, 2, 2, 128 * 28 * 28, 28 * 28 * 768)
    default_fps = 2.0
    min_frames = 4
    max_frames = 768

    metadata: frozenset[str] = frozenset({"image_grid_thw", "video_grid_thw", "second_per_grid_ts", "timestamps"})
    max_items: Mapping[str, int] = {}

    def __init__(self, context: ProcessorContext) -> None:
        self._image = Geometry.read(context.image, self.image_default)
        self._video = Geometry.read(context.video or context.image, self.video_default)
        self._fps = float(context.video.get("fps") or self.default_fps)
        self._min_frames = int(context.video.get("min_frames") or self.min_frames)
        self._max_frames = int(context.video.get("max_frames") or self.max_frames)
        self._encode = context.encode
        self._start, self._end, image, video = (
            context.token(text, key)
            for key, text in (
                ("vision_start_token_id", "<|vision_start|>"),
                ("vision_end_token_id", "<|vision_end|>"),
                ("image_token_id", "<|image_pad|>"),
                ("video_token_id", "<|video_pad|>"),
            )
        )
        self.markers: Mapping[str, Marker] = {
            "image": Marker("<|vision_start|><|image_pad|><|vision_end|>", (image,)),
            "video": Marker("<|vision_start|><|video_pad|><|vision_end|>", (video,)),
        }

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """One pad token for each merged patch."""
        pad = self.markers[modality].ids[0]
        _, t, h, w = self._grid(modality, size, options)
        count = t * h * w // self._geometry(modality, options).merge ** 2
        return Expansion((pad,) * count, 0, count, frozenset({pad}))

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """Patches ``[t * h * w, 3 * temporal * patch * patch]`` uint8 and the grid ``[t, h, w]`` int64."""
        geometry, t, h, w = self._grid(modality, pixels.size, options)
        side = geometry.patch
        frames = [resize(frame, h * side, w * side) for frame in pixels.frames]
        if modality == "video":
            frames += [frames[-1]] * (t * geometry.temporal - len(frames))
        patches = patchify(frames, geometry)
        name, grid_name = (
            ("pixel_values", "image_grid_thw") if modality == "image" else ("pixel_values_videos", "video_grid_thw")
        )
        fields = {
            name: Field(Tensor.of(patches), Flat((((0, len(patches), None),),))),
            grid_name: Field(Tensor.of(np.array([t, h, w], np.int64)), Batched(keep_on_cpu=True)),
        }
        return fields if modality == "image" else self._timed(fields, pixels.size, geometry)

    def sample(self, total: int, fps: float, options: Mapping[str, Any]) -> list[int]:
        """Frames spread evenly at the processor's own rate, an even number of them where there are enough."""
        wanted = options.get("num_frames") or int(total / (fps or 24.0) * float(options.get("fps") or self._fps))
        count = max(1, min(max(wanted, self._min_frames), self._max_frames, total))
        return [int(i) for i in np.linspace(0, total - 1, count).round()]

    def _timed(self, fields: dict[str, Field], size: ItemSize, geometry: Geometry) -> dict[str, Field]:
        """A video's fields with those that say when its frames were."""
        return fields

    def _geometry(self, modality: str, options: Mapping[str, Any]) -> Geometry:
        refuse_options({key: options[key] for key in options if key not in OPTIONS}, ", ".join(sorted(OPTIONS)))
        return (self._image if modality == "image" else self._video).under(options)

    def _grid(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> tuple[Geometry, int, int, int]:
        geometry = self._geometry(modality, options)
        height, width = self._fit(modality, size, geometry)
        frames = size.frames if modality == "video" else 1
        return geometry, -(-frames // geometry.temporal), height // geometry.patch, width // geometry.patch

    def _fit(self, modality: str, size: ItemSize, geometry: Geometry) -> tuple[int, int]:
        return fit_image(
            size.height,
            size.width,
            factor=geometry.factor,
            min_pixels=geometry.min_pixels,
            max_pixels=geometry.max_pixels,
        )


class Qwen25VLProcessor(Qwen2VLProcessor):
    """Qwen2.5-VL: as Qwen2-VL, and videos say how many seconds a step of their grid lasts."""

    def _timed(self, fields: dict[str, Field], size: ItemSize, geometry: Geometry) -> dict[str, Field]:
        seconds = np.array(geometry.temporal / (size.fps or 24.0), "<f4")
        return fields | {"second_per_grid_ts": Field(_bfloat16(seconds), Batched(keep_on_cpu=True))}


class Qwen3VLProcessor(Qwen2VLProcessor):
    """Qwen3-VL: larger patches, and each step of a video is announced by its time."""

    image_default = Geometry(16, 2, 2, 65536, 16777216)
    video_default = Geometry(16, 2, 2, 128 * 32 * 32, 32 * 32 * 768)

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """A video's placeholder covers ``<0.5 seconds>``, the vision markers and the pads of every step."""
        if modality == "image":
            return super().expand(modality, size, options)
        pad = self.markers["video"].ids[0]
        geometry, t, h, w = self._grid(modality, size, options)
        step = (self._start, *(pad,) * (h * w // geometry.merge**2), self._end)
        ids: list[int] = []
        for seconds in timestamps(size, t, geometry.temporal):
            ids += self._encode(f"<{seconds:.1f} seconds>")
            ids += step
        return Expansion(tuple(ids), 0, len(ids), frozenset({pad}))

    def _fit(self, modality: str, size: ItemSize, geometry: Geometry) -> tuple[int, int]:
        if modality == "image":
            return super()._fit(modality, size, geometry)
        return fit_video(
            size.frames,
            size.height,
            size.width,
            temporal=geometry.temporal,
            factor=geometry.factor,
            min_pixels=geometry.min_pixels,
            max_pixels=geometry.max_pixels,
        )

    def _timed(self, fields: dict[str, Field], size: ItemSize, geometry: Geometry) -> dict[str, Field]:
        steps = -(-size.frames // geometry.temporal)
        return {"timestamps": Field(timestamps(size, steps, geometry.temporal), Batched(keep_on_cpu=True)), **fields}


def timestamps(size: ItemSize, steps: int, temporal: int) -> list[float]:
    """The middle of each step's first and last frame, in seconds."""
    indices = list(size.indices or range(size.frames))
    indices += [indices[-1]] * (steps * temporal - len(indices))
    fps = size.fps or 24.0
    return [(indices[i] / fps + indices[i + temporal - 1] / fps) / 2 for i in range(0, steps * temporal, temporal)]


def patchify(frames: Sequence[Image.Image], geometry: Geometry) -> np.ndarray[Any, Any]:
    """RGB frames of one size to uint8 patches ``[t * h * w, 3 * temporal * patch * patch]``.

    One frame alone stands for every frame of its temporal patch. The patches of a merged square lie together.
    """
    side, merge, temporal = geometry.patch, geometry.merge, geometry.temporal
    width, height = frames[0].size
    h, w, t = height // side, width // side, max(1, len(frames) // temporal)
    # A patch's pixels of one row and channel are copied as one item: byte by byte numpy takes twice as long.
    run = np.dtype((np.void, side))
    out = np.empty((t, h // merge, w // merge, merge, merge, 3, temporal, side), run)
    for at, frame in enumerate(frames):
        for channel, band in enumerate(frame.split()):
            rows = np.frombuffer(band.tobytes(), run).reshape(h // merge, merge, side, w // merge, merge)
            out[at // temporal, ..., channel, at % temporal, :] = rows.transpose(0, 3, 1, 4, 2)
    if len(frames) == 1:
        planes = out.view(np.dtype((np.void, side * side)))
        planes[..., 1:, :] = planes[..., :1, :]
    return out.view(np.uint8).reshape(t * h * w, 3 * temporal * side * side)


def _bfloat16(value: np.ndarray[Any, Any]) -> Tensor:
    """A float32 scalar rounded to nearest even bfloat16."""
    bits = int(value.view("<u4"))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return Tensor("bfloat16", (), bits.to_bytes(2, "little"))
