"""The processor contract: how one model family turns an image or video into placeholders and tensors.

A processor plugin registers, in the entry point group ``isthmus.processors`` and under a config's ``model_type``,
a callable ``(ProcessorContext) -> Processor``. It needs numpy and pillow at most; whatever else it imports, it imports
lazily, when the first pixel is processed. Placeholders are counted from width and height alone, so that a router's
request never decodes a pixel.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from PIL import Image

from app.errors import InvalidRequest, StartupError
from app.multimodal.items import Batched, Field, Flat, Shared, Tensor

__all__ = (
    "Batched",
    "Expansion",
    "Field",
    "Flat",
    "ImagesOnly",
    "ItemSize",
    "Marker",
    "Pixels",
    "Processor",
    "ProcessorContext",
    "Shared",
    "Tensor",
    "refuse_options",
)


class ProcessorContext(Struct, frozen=True, kw_only=True):
    """What a processor is made from: the model's own files as parsed JSON, and its tokenizer's two look-ups.

    ``config`` is config.json, ``image`` preprocessor_config.json, ``video`` video_preprocessor_config.json and
    ``processor`` processor_config.json; a missing file is ``{}``. ``source`` is the directory, for a processor that
    reads more.
    """

    config: Mapping[str, Any]
    image: Mapping[str, Any] = {}
    video: Mapping[str, Any] = {}
    processor: Mapping[str, Any] = {}
    source: str = ""
    token_id: Callable[[str], int | None]
    encode: Callable[[str], Sequence[int]]

    def token(self, text: str, *keys: str) -> int:
        """The id that config.json gives under one of ``keys``, else the vocabulary's for ``text``.

        Raises:
            StartupError: there is neither.
        """
        for found in (*(self.config.get(key) for key in keys), self.token_id(text)):
            if isinstance(found, int):
                return found
        raise StartupError(f"the tokenizer has no {text}, which this model's media need")


class Marker(Struct, frozen=True):
    """How a prompt shows one item before it is expanded.

    ``text`` is what is written for the item where the template takes plain strings; ``ids`` are the token ids that
    stand for one item in the encoded prompt. ``merges`` are pairs of tokens that the tokenizer would have written as
    one, to be joined where an expansion meets the text around it (Gemma's runs of newlines).
    """

    text: str
    ids: tuple[int, ...]
    merges: Mapping[tuple[int, int], int] = {}


class ItemSize(Struct, frozen=True):
    """An item as known from headers: upright width and height in pixels; for a video its sampled frames too.

    ``fps`` are the source's frames per second and ``indices`` the positions of the sampled frames in it.
    """

    width: int
    height: int
    frames: int = 1
    fps: float = 1.0
    indices: tuple[int, ...] = ()


class Pixels(Struct, frozen=True):
    """An item's decoded content: one RGB image, or a video's frames of one size, and its size."""

    size: ItemSize
    frames: Sequence[Image.Image]

    def array(self) -> np.ndarray[Any, Any]:
        """uint8 values, shape ``[frames, height, width, 3]``."""
        return np.stack([np.asarray(frame) for frame in self.frames])


class Expansion(Struct, frozen=True):
    """What replaces a marker's ids in the prompt.

    ``ids[start : start + length]`` is the placeholder, the range that the wire calls offset and length. Where only
    some of its positions take an embedding, those are the positions of ``embed_ids``; the engine derives the mask again
    from the ids, since the wire has none.
    """

    ids: tuple[int, ...]
    start: int
    length: int
    embed_ids: frozenset[int]


def refuse_options(options: Mapping[str, Any], known: str = "none") -> None:
    """Raise :class:`InvalidRequest` that names the first of these processor options, which nobody knows."""
    for name in sorted(options):
        raise InvalidRequest(
            f"This model's processor has no such option `{name}`, or not with this value (it has {known}).",
            param=f"mm_processor_kwargs.{name}",
        )


class Processor(Protocol):
    """One model family's media handling, bound to one model. Methods run in worker threads and keep no state.

    ``options`` are a trusted request's ``mm_processor_kwargs``; a key that a processor does not know is
    :class:`app.errors.InvalidRequest`. ``metadata`` names the fields that a prefill without tensors needs.
    """

    markers: Mapping[str, Marker]
    """By modality ("image", "video"); a modality that is not here is refused."""
    metadata: frozenset[str]
    max_items: Mapping[str, int]
    """Most items of a modality in one prompt, where the model has a limit."""

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """The placeholder of an item of this size; raises InvalidRequest for one that the model can't take."""

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """The item's tensors by field name, in the wire's order."""

    def sample(self, total: int, fps: float, options: Mapping[str, Any]) -> list[int]:
        """Which of a video file's ``total`` frames (at ``fps`` frames per second) the model sees."""


class ImagesOnly:
    """A base for processors of families that take no videos and no bounded number of images."""

    max_items: Mapping[str, int] = {}

    def sample(self, total: int, fps: float, options: Mapping[str, Any]) -> list[int]:
        """Never asked, as there is no video marker."""
        raise InvalidRequest("This model takes no video.")
