"""Encoded images to upright RGB pixels, or to their size alone from the header.

Sizes are in pixels as a viewer sees the image: the EXIF orientation is applied, in both paths by the same rule, so that
what is counted from a header is what is decoded later.
"""

import io
import struct
from typing import Any

import numpy as np
from msgspec import Struct
from PIL import Image, UnidentifiedImageError

from app.errors import InvalidRequest

__all__ = ("FORMATS", "ImageHeader", "decode_image", "read_header")

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
"""What is opened at all; other decoders that Pillow brings (EPS runs a program) are never reached."""

Image.MAX_IMAGE_PIXELS = None  # the limit of the settings is checked from the header, for every format, by read_header

_ORIENTATION = 0x0112
_TRANSPOSED = (5, 6, 7, 8)
_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_BROKEN = Exception
"""What Pillow's decoders raise on malformed files: it has no common base, and differs by format and by version."""


class ImageHeader(Struct, frozen=True):
    """An image before its pixels are decoded: upright width and height, format and raw pixel mode.

    ``plain`` says that it is opaque RGB as it stands, so that no decode option changes its pixels.
    """

    width: int
    height: int
    format: str
    mode: str
    orientation: int = 1
    plain: bool = True


def read_header(data: bytes, *, max_pixels: int, param: str) -> ImageHeader:
    """The header of an encoded image; no pixel is decoded.

    Raises:
        InvalidRequest: it is no image of a known format, or has more than ``max_pixels`` pixels.
    """
    with _open(data, param) as image:
        return _header(image, data, max_pixels, param)


def decode_image(
    data: bytes, *, max_pixels: int, background: tuple[int, int, int] = (255, 255, 255), param: str
) -> Image.Image:
    """The image upright in mode RGB: its first frame, transparency laid on ``background``, deep pixels scaled to 8 bit.

    Raises:
        InvalidRequest: it is no image, too large, or truncated.
    """
    with _open(data, param) as image:
        header = _header(image, data, max_pixels, param)
        try:
            image.load()
            rgb = _rgb(image, background)
            way = _TRANSPOSE.get(header.orientation)
            return rgb.transpose(way) if way is not None else rgb
        except _BROKEN as error:
            raise InvalidRequest(f"This image can't be decoded: {_reason(error)}.", param=param) from None


def _open(data: bytes, param: str) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise InvalidRequest(f"This is no image of a known format ({known}).", param=param) from None
    except _BROKEN as error:
        raise InvalidRequest(f"The header of this image is broken: {_reason(error)}.", param=param) from None


def _header(image: Image.Image, data: bytes, max_pixels: int, param: str) -> ImageHeader:
    width, height = image.size
    if width < 1 or height < 1:
        raise InvalidRequest("This image has no pixels.", param=param)
    if width * height > max_pixels:
        raise InvalidRequest(
            f"This image has {width} x {height} pixels; at most {max_pixels} are allowed.", param=param
        )
    orientation = _orientation(image, data)
    if orientation in _TRANSPOSED:
        width, height = height, width
    plain = image.mode == "RGB" and "transparency" not in image.info
    return ImageHeader(width, height, image.format or "", image.mode, orientation, plain)


def _orientation(image: Image.Image, data: bytes) -> int:
    """EXIF's orientation, 1 to 8, from the header alone.

    Pillow decodes a whole PNG in search of an EXIF chunk behind the pixels, so the chunks are walked here instead.
    """
    if image.format == "TIFF":
        return 1  # Pillow turns TIFF images itself, and their size says so already
    try:
        if image.format == "PNG" and "exif" not in image.info and "Raw profile type exif" not in image.info:
            block = _png_exif(data)
            if block is None:
                return 1
            exif = Image.Exif()
            exif.load(block)
        else:
            exif = image.getexif()
        value: Any = exif.get(_ORIENTATION, 1)
        return value if isinstance(value, int) and 1 <= value <= 8 else 1
    except _BROKEN:
        return 1  # a broken EXIF block does not make an image unreadable


def _png_exif(data: bytes) -> bytes | None:
    at = 8
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"eXIf":
            return b"Exif\x00\x00" + data[at + 8 : at + 8 + length]
        at += 12 + length
    return None


def _rgb(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        clear = image.info.get("transparency")
        solid = np.asarray(image) != clear if isinstance(clear, int) else None
        image = _eight_bit(image)
        if solid is not None:
            image.putalpha(Image.fromarray(solid.astype(np.uint8) * 255))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        canvas = Image.new("RGB", layer.size, background)
        canvas.paste(layer, mask=layer.getchannel("A"))
        return canvas
    return image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Deep grey pixels scaled to 0..255 by the range of their type: 16 bit, or 32 bit and floats by their own range."""
    values = np.asarray(image).astype(np.float64)
    if image.mode.startswith("I;16") or (values.size and values.min() >= 0 and 255 < values.max() <= 65535):
        values = values / 257.0
    elif values.size and not (values.min() >= 0 and values.max() <= 255):
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        values = (values - low) * (255.0 / (high - low) if high > low else 0.0)
    return Image.fromarray(np.nan_to_num(np.rint(values)).clip(0, 255).astype(np.uint8), "L")


def _reason(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__
