"""A picture's size to the size that Qwen's vision encoder sees.

The rule is that of the Qwen-VL image and video processors: both sides become multiples of ``factor`` (patch size times
merge size, pixels), the pixel count comes to lie between two bounds, and the ratio is kept as well as that allows.
"""

import math

from app.errors import InvalidRequest

__all__ = ("fit_image", "fit_video")

MAX_RATIO = 200


def fit_image(height: int, width: int, *, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """Height and width after resizing, for an image or one frame of Qwen2-VL's videos.

    Raises:
        InvalidRequest: one side is more than 200 times the other.
    """
    _check_ratio(height, width)
    return _fit(height, width, 1, 1, factor, min_pixels, max_pixels)


def fit_video(
    frames: int, height: int, width: int, *, temporal: int, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """Height and width of Qwen3-VL's video frames; the bounds are on the pixels of all ``frames`` together."""
    if height < factor or width < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    _check_ratio(height, width)
    return _fit(height, width, frames, round(frames / temporal) * temporal, factor, min_pixels, max_pixels)


def _fit(
    height: int, width: int, frames: int, even_frames: int, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """``even_frames`` (a multiple of the temporal patch) decides whether a bound is hit, ``frames`` by how much."""
    fitted = round(height / factor) * factor, round(width / factor) * factor
    count = even_frames * fitted[0] * fitted[1]
    if count > max_pixels:
        shrink = math.sqrt(frames * height * width / max_pixels)
        return (
            max(factor, math.floor(height / shrink / factor) * factor),
            max(factor, math.floor(width / shrink / factor) * factor),
        )
    if count < min_pixels:
        grow = math.sqrt(min_pixels / (frames * height * width))
        return math.ceil(height * grow / factor) * factor, math.ceil(width * grow / factor) * factor
    return fitted


def _check_ratio(height: int, width: int) -> None:
    if max(height, width) > MAX_RATIO * min(height, width):
        raise InvalidRequest(
            f"An image or video of {width} x {height} pixels is too long for this model: "
            f"one side may be at most {MAX_RATIO} times the other."
        )
