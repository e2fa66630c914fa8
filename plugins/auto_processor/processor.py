"""Images to whatever a model's own transformers ``AutoProcessor`` makes of them.

For models that no processor here knows. The placeholder is found by asking: the processor's image token is expanded for
an image of the size in question, and what came in its place is the expansion. That costs a run of the processor on a
blank image, once a size, where a family's own plugin computes a number.
"""

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from app.errors import InvalidRequest, StartupError
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

__all__ = ("TransformersProcessor",)

TEXT_OUTPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "position_ids"})
LIGHT_BYTES = 256
"""A field of at most so many bytes an item (a grid, a size, a count) is metadata, not an encoder's input."""
SIZES_KEPT = 1024


class TransformersProcessor(ImagesOnly):
    """Runs the processor that the model's directory names; needs transformers (``isthmus[multimodal]``)."""

    def __init__(self, context: ProcessorContext) -> None:
        self._source = context.source
        self._processor = _load(context.source)
        self._run_lock = threading.Lock()  # transformers' tokenizers are not safe under parallel use
        self._token, self._text = _image_token(self._processor, context)
        self.markers: Mapping[str, Marker] = {"image": Marker(self._text, (self._token,))}
        self._expansion = lru_cache(SIZES_KEPT)(self._expand)
        probe = self.process("image", Pixels(ItemSize(64, 64), [Image.new("RGB", (64, 64))]), {})
        self.metadata: frozenset[str] = frozenset(
            name for name, field in probe.items() if isinstance(field.kind, Batched) and field.kind.keep_on_cpu
        )

    def expand(self, modality: str, size: ItemSize, options: Mapping[str, Any]) -> Expansion:
        """What the processor puts in place of its image token."""
        refuse_options(options)
        return self._expansion(size.width, size.height)

    def process(self, modality: str, pixels: Pixels, options: Mapping[str, Any]) -> dict[str, Field]:
        """The processor's outputs without those of the text."""
        refuse_options(options)
        return {
            name: _field(np.asarray(value))
            for name, value in self._run(pixels.frames[0]).items()
            if name not in TEXT_OUTPUTS
        }

    def _expand(self, width: int, height: int) -> Expansion:
        ids = [int(token) for token in np.asarray(self._run(Image.new("RGB", (width, height)))["input_ids"])[0]]
        around = [int(token) for token in self._tokenize("x\n") + self._tokenize("\nx")]
        cut = len(self._tokenize("x\n"))
        if ids[:cut] != around[:cut] or ids[len(ids) - len(around) + cut :] != around[cut:]:
            raise InvalidRequest("This model's processor writes images in a way that is not understood here.")
        inner = tuple(ids[cut : len(ids) - len(around) + cut])
        embeds = frozenset({self._token}) & set(inner) or frozenset(inner)
        return Expansion(inner, 0, len(inner), frozenset(embeds))

    def _run(self, image: Image.Image) -> Mapping[str, Any]:
        # The lines around the token keep what stands before and after it from melting into the expansion.
        try:
            with self._run_lock:
                out: Mapping[str, Any] = self._processor(
                    text=[f"x\n{self._text}\nx"], images=[image], return_tensors="np", add_special_tokens=False
                )
                return out
        except (ValueError, TypeError, RuntimeError, ZeroDivisionError) as error:
            raise InvalidRequest(f"This model's processor refuses the image: {error}.") from None

    def _tokenize(self, text: str) -> list[int]:
        with self._run_lock:
            ids: list[int] = self._processor.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def _load(source: str) -> Any:
    try:
        import transformers

        make: Any = transformers.AutoProcessor.from_pretrained
        processor = make(source, local_files_only=True)
    except ImportError as error:
        raise StartupError(f"{source}: its processor needs a package that is missing: {error}") from None
    except Exception as error:  # transformers raises as it pleases on a directory that it does not understand
        raise StartupError(f"{source}: transformers loads no processor from it: {str(error).splitlines()[0]}") from None
    if getattr(processor, "image_processor", None) is None:
        raise StartupError(f"{source}: the processor that transformers loads from it takes no images")
    return processor


def _image_token(processor: Any, context: ProcessorContext) -> tuple[int, str]:
    text = getattr(processor, "image_token", None) or getattr(processor.tokenizer, "image_token", None)
    for key in ("image_token_id", "image_token_index"):
        found = context.config.get(key)
        if isinstance(found, int):
            return found, str(text or processor.tokenizer.convert_ids_to_tokens(found))
    if not text:
        raise StartupError(f"{context.source}: neither its config nor its processor names an image token")
    return context.token(str(text)), str(text)


def _field(value: np.ndarray[Any, Any]) -> Field:
    """One image's part of a batch of one: the batch's only element, or rows that are not counted by images."""
    if value.dtype == np.float64:
        value = value.astype(np.float32)
    if value.ndim and value.shape[0] == 1:
        light = value.nbytes <= LIGHT_BYTES
        return Field(Tensor.of(value[0]), Batched(keep_on_cpu=light))
    return Field(Tensor.of(value), Flat((((0, len(value), None),),)))
