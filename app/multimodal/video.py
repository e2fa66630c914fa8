"""Encoded videos to frames: sequences of images, and video files by PyAV where it is installed.

A sequence is a data URL of type ``video/jpeg`` (or png, webp) whose base64 frames are separated by commas; it counts as
one frame a second, sampled already.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pybase64
from msgspec import Struct
from PIL import Image

from app.errors import InvalidRequest, Unsupported
from app.multimodal import data_url
from app.multimodal.hashing import Leaf, array_leaf, encoded_leaf
from app.multimodal.image import decode_image, read_header
from app.multimodal.processor import ItemSize, Pixels

__all__ = ("FrameSequence", "Sample", "VideoFile", "frame_sequence", "is_frame_sequence")

SEQUENCE_TYPES = frozenset({"video/jpeg", "video/png", "video/webp"})
MAX_FRAMES = 4096
Sample = Callable[[int, float], Sequence[int]]
"""``(frames in the file, frames per second)`` to the indices of the frames to keep."""


def is_frame_sequence(url: str) -> bool:
    """Whether a URL is a data URL of single frames."""
    return data_url.is_data_url(url) and url[5:].split(";", 1)[0].strip().lower() in SEQUENCE_TYPES


class FrameSequence(Struct, frozen=True):
    """Encoded frames, in order, at ``fps`` frames per second."""

    frames: tuple[bytes, ...]
    fps: float = 1.0

    def content(self, *, background: tuple[int, int, int], max_pixels: int, param: str) -> list[Any]:
        """For the hash: the frames as comma-joined base64, or their pixels where those are smaller; and their times."""
        text = b",".join(pybase64.b64encode(frame) for frame in self.frames)
        size = self.size(max_pixels=max_pixels, param=param)
        leaf = encoded_leaf("video", text)
        if size.frames * size.height * size.width * 3 < len(text):
            pixels = self.pixels(max_pixels=max_pixels, background=background, param=param)
            leaf = array_leaf(pixels.array(), kind="video")
        count = len(self.frames)
        times = {
            "total_num_frames": count,
            "fps": float(self.fps),
            "duration": count / self.fps,
            "video_backend": "jpeg_sequence",
            "frames_indices": list(range(count)),
            "do_sample_frames": False,
        }
        return [leaf, times]

    def size(self, *, max_pixels: int, param: str) -> ItemSize:
        """From the frames' headers; raises InvalidRequest where they differ in size."""
        headers = [read_header(frame, max_pixels=max_pixels, param=param) for frame in self.frames]
        if len({(one.width, one.height) for one in headers}) != 1:
            raise InvalidRequest("The frames of a video must be of one size.", param=param)
        if headers[0].width * headers[0].height * len(headers) > max_pixels:
            raise InvalidRequest(f"This video has more than {max_pixels} pixels in all its frames.", param=param)
        return ItemSize(headers[0].width, headers[0].height, len(headers), self.fps, tuple(range(len(headers))))

    def pixels(self, *, max_pixels: int, background: tuple[int, int, int], param: str) -> Pixels:
        """The decoded frames."""
        size = self.size(max_pixels=max_pixels, param=param)
        return Pixels(
            size,
            [decode_image(frame, max_pixels=max_pixels, background=background, param=param) for frame in self.frames],
        )


def frame_sequence(
    url: str, *, max_bytes: int, param: str, count: int | None = None, fps: float | None = None
) -> FrameSequence:
    """The frames of a ``data:video/jpeg`` URL, the first ``count`` of them, at ``fps`` frames per second.

    Raises:
        InvalidRequest: a frame is no base64, or there are too many.
        BadMedia: they have more than ``max_bytes`` bytes in all.
    """
    _, payload = data_url.split(url, param=param)
    parts = payload.split(",")[:count]
    if len(parts) > MAX_FRAMES:
        raise InvalidRequest(f"A video may have at most {MAX_FRAMES} frames.", param=param)
    frames = []
    for part in parts:
        frames.append(data_url.decode_base64(part, max_bytes=max_bytes, param=param))
        max_bytes -= len(frames[-1])
    return FrameSequence(tuple(frames), fps or 1.0)


class VideoFile(Struct, frozen=True):
    """An encoded video file and which of its frames are wanted."""

    data: bytes
    sample: Sample

    def content(self, *, background: tuple[int, int, int], max_pixels: int, param: str) -> Leaf:
        """For the hash: the file as it was sent."""
        return encoded_leaf("video", self.data)

    def size(self, *, max_pixels: int, param: str) -> ItemSize:
        """From the container's headers where they count the frames; no frame is decoded then."""
        with _container(self.data, param) as container:
            return self._plan(container, max_pixels, param)

    def pixels(self, *, max_pixels: int, background: tuple[int, int, int], param: str) -> Pixels:
        """The sampled frames, upright and RGB; decoding ends at the last one wanted."""
        with _container(self.data, param) as container:
            size = self._plan(container, max_pixels, param)
            wanted = set(size.indices)
            kept: dict[int, Image.Image] = {}
            try:
                for position, frame in enumerate(container.decode(video=0)):
                    if position in wanted:
                        kept[position] = frame.to_image()
                    if position >= size.indices[-1]:
                        break
            except Exception as error:  # PyAV's errors have no base that its versions share
                raise InvalidRequest(f"This video can't be decoded: {error}.", param=param) from None
        if len(kept) < len(wanted):
            raise InvalidRequest("This video has fewer frames than its header says.", param=param)
        return Pixels(size, [kept[index] for index in size.indices])

    def _plan(self, container: Any, max_pixels: int, param: str) -> ItemSize:
        stream = container.streams.video[0]
        fps = float(stream.average_rate or stream.guessed_rate or 24)
        total = stream.frames or int(float(container.duration or 0) / 1_000_000 * fps)
        if total < 1 or stream.width < 1 or stream.height < 1:
            raise InvalidRequest("The header of this video does not say its size and length.", param=param)
        indices = tuple(self.sample(total, fps))
        if stream.width * stream.height * len(indices) > max_pixels:
            raise InvalidRequest(f"This video has more than {max_pixels} pixels in its sampled frames.", param=param)
        return ItemSize(stream.width, stream.height, len(indices), fps, indices)


def _container(data: bytes, param: str) -> Any:
    try:
        import av
    except ImportError:
        raise Unsupported("This server reads no video files: install isthmus[video].", param=param) from None
    try:
        container = av.open(io.BytesIO(data), "r")
    except Exception as error:  # as above
        raise InvalidRequest(f"This is no video of a known format: {error}.", param=param) from None
    if not container.streams.video:
        container.close()
        raise InvalidRequest("This file has no video stream.", param=param)
    return container
