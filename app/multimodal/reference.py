"""A media item by reference, as a request names it."""

from typing import Literal

from msgspec import Struct

__all__ = ("Media",)


class Media(Struct, frozen=True):
    """An image, video or audio item.

    ``url`` is an http(s), data or file URL, or None where ``uuid`` names an item that is already known. ``frames`` are
    URLs of single frames where a video is given so. ``param`` is the request field it came from.
    """

    modality: Literal["image", "video", "audio"]
    url: str | None = None
    uuid: str | None = None
    detail: str | None = None
    frames: tuple[str, ...] = ()
    param: str = ""
