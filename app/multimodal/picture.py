"""One image of a request to its hash, its size and its pixels."""

from msgspec import Struct

from app.multimodal.hashing import Leaf, encoded_leaf
from app.multimodal.image import decode_image, read_header
from app.multimodal.processor import ItemSize, Pixels

__all__ = ("Picture",)


class Picture(Struct, frozen=True):
    """An encoded image."""

    data: bytes

    def content(self, *, background: tuple[int, int, int], max_pixels: int, param: str) -> Leaf:
        """For the hash: its bytes, with the decode options where these change its pixels.

        Raises InvalidRequest where it is no image, or too large.
        """
        if read_header(self.data, max_pixels=max_pixels, param=param).plain:
            return encoded_leaf("image", self.data)
        options = {"image_mode": "RGB", "rgba_background_color": list(background)}
        return encoded_leaf("image", self.data, options=options)

    def size(self, *, max_pixels: int, param: str) -> ItemSize:
        """From its header; no pixel is decoded."""
        header = read_header(self.data, max_pixels=max_pixels, param=param)
        return ItemSize(header.width, header.height)

    def pixels(self, *, max_pixels: int, background: tuple[int, int, int], param: str) -> Pixels:
        """The decoded image, upright and RGB."""
        image = decode_image(self.data, max_pixels=max_pixels, background=background, param=param)
        return Pixels(ItemSize(*image.size), [image])
