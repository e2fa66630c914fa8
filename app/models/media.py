"""A served model's files and settings to its multimodal processor and its way with media.

Imported only where a model takes media: it brings numpy and pillow.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from app.errors import StartupError
from app.models.formats import Plugins
from app.models.served import ServedModel
from app.multimodal.fetch import Fetcher
from app.multimodal.preparation import MediaPreparation
from app.multimodal.processor import Processor, ProcessorContext
from app.rendering.media_prompt import PreparedMedia
from app.settings import Settings
from app.tokenizing.files import read_json

__all__ = ("make_media", "make_processor")

GROUP = "isthmus.processors"
PIXEL_WORK = ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="pixels")
"""Decoding and cutting pixels must not wait behind tokenizing, nor the other way round."""


def make_processor(model: ServedModel, name: str, plugins: Plugins) -> Processor:
    """The processor registered under ``name``, for this model.

    Raises:
        StartupError: it is not there, or the model's files are not what it needs.
    """
    make: Callable[[ProcessorContext], Processor] = plugins.get(GROUP, name)

    def read(file: str) -> dict[str, Any]:
        value = read_json(model.source / file)
        return value if isinstance(value, dict) else {}

    tokenizer = model.tokenizer
    return make(
        ProcessorContext(
            config=model.config,
            image=read("preprocessor_config.json"),
            video=read("video_preprocessor_config.json"),
            processor=read("processor_config.json"),
            source=str(model.source),
            token_id=tokenizer.token_to_id,
            encode=lambda text: tokenizer.encode(text).ids,
        )
    )


def make_media(model: ServedModel, settings: Settings, processor: Processor, fetcher: Fetcher) -> PreparedMedia:
    """How the model's renderer takes media."""
    for modality, marker in processor.markers.items():
        if not marker.ids:
            raise StartupError(f"processor of {model.name}: no token stands for a {modality}")
    # The hash names the model as it was started, so that only servers of one model agree on it.
    preparation = MediaPreparation(processor, fetcher, settings.media, model.settings.source, PIXEL_WORK)
    return PreparedMedia(preparation)
