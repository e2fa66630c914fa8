"""A request's media references to what its prompt and its wire need: hashes, expansions, encoded items.

Every item is fetched (within limits), hashed by its encoded bytes and counted from its header. Only where tensors are
wanted are pixels decoded, in worker threads; a processed item is kept in a cache under its hash.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from msgspec import Struct

from app.errors import InvalidRequest
from app.multimodal import video
from app.multimodal.cache import ByteCache
from app.multimodal.encoded import EncodedItem
from app.multimodal.fetch import Fetcher
from app.multimodal.hashing import item_hash
from app.multimodal.items import encode_pieces
from app.multimodal.picture import Picture
from app.multimodal.processor import Expansion, Processor
from app.multimodal.reference import Media
from app.settings import MediaSettings

__all__ = ("MediaPreparation", "PreparedItem")

Source = Picture | video.FrameSequence | video.VideoFile
IO_OPTIONS = {"image": frozenset({"rgba_background_color"}), "video": frozenset({"num_frames", "fps"})}


class PreparedItem(Struct, frozen=True):
    """One item. ``item`` is None where no tensors were wanted, ``metadata`` also where a model has no light fields."""

    modality: str
    hash: str
    expansion: Expansion
    item: EncodedItem | None = None
    metadata: EncodedItem | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that it holds in a cache, base64 included."""
        parts = [one for one in (self.item, self.metadata) if one is not None]
        return 512 + 8 * len(self.expansion.ids) + sum(one.size + one.text_size for one in parts)


class MediaPreparation:
    """Prepares the media of one served model.

    Args:
        processor: the model's.
        fetcher: shared by all models.
        settings: limits.
        model_id: what the model was started as; a part of every hash.
        executor: where pixels are decoded.
    """

    def __init__(
        self, processor: Processor, fetcher: Fetcher, settings: MediaSettings, model_id: str, executor: Executor
    ) -> None:
        self.processor = processor
        self._fetcher = fetcher
        self._settings = settings
        self._model_id = model_id
        self._executor = executor
        self._cache: ByteCache[PreparedItem] = ByteCache(settings.cache_bytes, lambda one: one.nbytes)

    async def prepare(
        self,
        media: Sequence[Media],
        *,
        tensors: bool = True,
        options: Mapping[str, Any] | None = None,
        io_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[PreparedItem]:
        """The items of a request, in its order.

        Args:
            media: references, with the request fields that they stand in.
            tensors: whether pixels are wanted; without, no pixel is decoded.
            options: a trusted request's ``mm_processor_kwargs``.
            io_options: a trusted request's ``media_io_kwargs``, by modality.

        Raises:
            InvalidRequest: an item is broken, too large, too many, or of a modality that the model does not take.
            BadMedia: an item could not be fetched.
        """
        self._check_counts(media)
        self._check_io_options(io_options or {})
        if len(media) == 1:
            io = dict((io_options or {}).get(media[0].modality) or {})
            return [await self._one(media[0], tensors, dict(options or {}), io)]
        prepared: dict[tuple[str | None, str | None, tuple[str, ...]], asyncio.Task[PreparedItem]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                tasks = []
                for one in media:
                    key = (one.url, one.uuid, one.frames)
                    if key not in prepared:
                        io = dict((io_options or {}).get(one.modality) or {})
                        prepared[key] = group.create_task(self._one(one, tensors, dict(options or {}), io))
                    tasks.append(prepared[key])
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(self, media: Media, tensors: bool, options: dict[str, Any], io: dict[str, Any]) -> PreparedItem:
        if not media.url and not media.frames:
            return self._known(media, tensors, options, io)
        source = await self._source(media, options, io)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._prepared, media, source, tensors, options, io)

    def _prepared(
        self, media: Media, source: Source, tensors: bool, options: Mapping[str, Any], io: Mapping[str, Any]
    ) -> PreparedItem:
        """The item of a source, from the cache where that has it. Runs in a worker thread."""
        digest = self._hash(media, source, options, io)
        known = self._cache.get((digest, tensors))
        if known is None:
            known = self._process(media, source, digest, tensors, options, io)
            self._cache.put((digest, tensors), known)
        return known

    def _known(self, media: Media, tensors: bool, options: dict[str, Any], io: dict[str, Any]) -> PreparedItem:
        """An item that the caller only names: it must have been here before."""
        if not media.uuid:
            raise InvalidRequest(f"This {media.modality} part has no URL.", param=media.param)
        digest = item_hash(
            media.modality, media.uuid, model_id=self._model_id, media_io_kwargs=io, mm_processor_kwargs=options
        )
        known = self._cache.get((digest, tensors)) or self._cache.get((digest, not tensors))
        if known is None:
            raise InvalidRequest(
                f"No {media.modality} with the uuid {media.uuid!r} is known here; send it with its URL.",
                param=media.param,
            )
        return known if tensors else PreparedItem(known.modality, known.hash, known.expansion)

    async def _source(self, media: Media, options: Mapping[str, Any], io: Mapping[str, Any]) -> Source:
        limit, param = self._settings.max_bytes, media.param
        count, fps = (int(io["num_frames"]) if "num_frames" in io else None), io.get("fps")
        if media.frames:
            urls = media.frames[:count]
            frames = await asyncio.gather(*(self._fetcher.fetch(url, param=param) for url in urls))
            return video.FrameSequence(tuple(frames), fps or 1.0)
        url = media.url or ""
        if media.modality == "video" and video.is_frame_sequence(url):
            run = asyncio.get_running_loop().run_in_executor
            read = partial(video.frame_sequence, url, max_bytes=limit, param=param, count=count, fps=fps)
            return await run(self._executor, read)
        data = await self._fetcher.fetch(url, param=param)
        if media.modality == "video":
            wanted = {**options, **io}
            return video.VideoFile(data, lambda total, rate: self.processor.sample(total, rate, wanted))
        return Picture(data)

    def _hash(self, media: Media, source: Source, options: Mapping[str, Any], io: Mapping[str, Any]) -> str:
        content = media.uuid or source.content(
            background=self._background(io), max_pixels=self._settings.max_pixels, param=media.param
        )
        return item_hash(
            media.modality, content, model_id=self._model_id, media_io_kwargs=io, mm_processor_kwargs=options
        )

    def _process(
        self,
        media: Media,
        source: Source,
        digest: str,
        tensors: bool,
        options: Mapping[str, Any],
        io: Mapping[str, Any],
    ) -> PreparedItem:
        limit, param = self._settings.max_pixels, media.param
        try:
            if not tensors:
                size = source.size(max_pixels=limit, param=param)
                return PreparedItem(media.modality, digest, self.processor.expand(media.modality, size, options))
            pixels = source.pixels(max_pixels=limit, background=self._background(io), param=param)
            expansion = self.processor.expand(media.modality, pixels.size, options)
            fields = self.processor.process(media.modality, pixels, options)
        except InvalidRequest as error:
            if error.param is None:  # a processor knows no request field
                raise InvalidRequest(error.message, param=media.param) from None
            raise
        item = EncodedItem(encode_pieces(fields))
        light = {name: field for name, field in fields.items() if name in self.processor.metadata}
        metadata = EncodedItem(encode_pieces(light)) if light else None
        return PreparedItem(media.modality, digest, expansion, item, metadata)

    def _background(self, io: Mapping[str, Any]) -> tuple[int, int, int]:
        red, green, blue = io.get("rgba_background_color") or self._settings.alpha_background
        return red, green, blue

    def _check_counts(self, media: Sequence[Media]) -> None:
        counts: dict[str, int] = {}
        for one in media:
            counts[one.modality] = counts.get(one.modality, 0) + 1
            if one.modality not in self.processor.markers:
                raise InvalidRequest(f"This model takes no {one.modality}.", param=one.param)
            most = min(self._settings.max_items, self.processor.max_items.get(one.modality, self._settings.max_items))
            if counts[one.modality] > most:
                raise InvalidRequest(f"A prompt may have at most {most} {one.modality} items.", param=one.param)

    @staticmethod
    def _check_io_options(io_options: Mapping[str, Mapping[str, Any]]) -> None:
        for modality, options in io_options.items():
            for name, value in options.items():
                param = f"media_io_kwargs.{modality}.{name}"
                if name not in IO_OPTIONS.get(modality, ()):
                    raise InvalidRequest(f"There is no option {name!r} for reading a {modality}.", param=param)
                if name == "rgba_background_color":
                    good = isinstance(value, list) and len(value) == 3
                    good = good and all(isinstance(part, int) and 0 <= part <= 255 for part in value)
                else:
                    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
                if not good:
                    raise InvalidRequest(f"This is no value for {name}.", param=param)
