"""A request's features to its media input: tensors through the vision tower, or embeddings that another has made.

Embeddings are kept by the digest of the item they were made of, never by the hash that a request claims, so that nobody
can put a picture under another's name. An item without tensors is looked up: by what ``ec_transfer_params`` say of its
hash, else by the hash that a request of the same cache salt gave to tensors here before.

An encode server hands its embeddings on in a folder that the prefill servers read too (``transfer_path``), as files of
the wire's own item layout; ``ec_transfer_params`` are ``{"ec_items": [{"mm_hash": …, "embedding": file name}]}``.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from blake3 import blake3

from app.engines.local.transfer import TransferFolder
from app.engines.local.vision import Embedding, MediaInput, PlacedItem, VisionModel
from app.errors import InvalidRequest
from app.multimodal.cache import ByteCache
from app.multimodal.encoded import EncodedItem
from app.multimodal.items import Batched, Field, Tensor, decode_item, encode_pieces, raw_item
from app.protocol.generate import Features, GenerateRequest

__all__ = ("MediaReader",)

DIGEST = re.compile(r"[0-9a-f]{64}")
NAMES = 65_536
"""Claimed hashes that are remembered."""


class MediaReader:
    """Runs in one thread of its own.

    Args:
        vision: the model's vision side.
        cache_bytes: of embeddings kept here.
        folder: where embeddings are handed on; None: nowhere.
    """

    def __init__(self, vision: VisionModel, cache_bytes: int, folder: TransferFolder | None) -> None:
        self._vision = vision
        self._folder = folder
        self._cache: ByteCache[Embedding] = ByteCache(cache_bytes, lambda one: one.nbytes)
        self._names: ByteCache[str] = ByteCache(NAMES, lambda _: 1)

    def read(self, request: GenerateRequest) -> tuple[MediaInput, dict[str, Any] | None]:
        """The request's media, and its ``ec_transfer_params`` where embeddings are handed on.

        Raises:
            InvalidRequest: an item is none of this model's, or has no tensors and is not known here.
        """
        features = request.features
        assert features is not None
        handed = _handed(request.ec_transfer_params)
        items: list[PlacedItem] = []
        digests: list[str] = []
        published: list[dict[str, str]] = []
        for modality, hashes in features.mm_hashes.items():
            for at, claimed in enumerate(hashes):
                digest, embedding = self._item(features, modality, at, request.cache_salt, handed)
                param = f"features.mm_placeholders.{modality}[{at}]"
                items.append(PlacedItem(modality, embedding, features.mm_placeholders[modality][at], param))
                digests.append(digest)
                published.append({"mm_hash": claimed, "embedding": digest})
        media = self._vision.place(request.token_ids, items, ",".join(digests))
        return media, {"ec_items": published} if self._folder is not None else None

    def _item(
        self, features: Features, modality: str, at: int, salt: str | None, handed: Mapping[str, str]
    ) -> tuple[str, Embedding]:
        claimed = features.mm_hashes[modality][at]
        tensors = _at(features.kwargs_data, modality, at)
        if tensors is not None:
            param = f"features.kwargs_data.{modality}[{at}]"
            raw = raw_item(tensors, param=param)
            digest = blake3(raw).hexdigest()
            embedding = self._known(digest)
            if embedding is None:
                embedding = self._vision.embed(modality, decode_item(raw, param=param), param=param)
                self._cache.put(digest, embedding)
                if self._folder is not None:
                    self._folder.publish(digest, _written(embedding))
            self._names.put((salt, claimed), digest)
            return digest, embedding
        digest = handed.get(claimed) or self._names.get((salt, claimed)) or ""
        found = self._known(digest) if digest else None
        if found is None:
            raise InvalidRequest(
                f"No embeddings of the {modality} {claimed!r} are known here; send its tensors (`kwargs_data`).",
                param="ec_transfer_params" if claimed in handed else f"features.mm_hashes.{modality}[{at}]",
            )
        light = _at(features.mm_metadata, modality, at)
        if light is not None:
            param = f"features.mm_metadata.{modality}[{at}]"
            said = self._vision.layout(modality, decode_item(raw_item(light, param=param), param=param), param=param)
            if said != found.layout:
                raise InvalidRequest(
                    f"The item's layout is {said}, that of its embeddings {found.layout}.", param=param
                )
        return digest, found

    def _known(self, digest: str) -> Embedding | None:
        found = self._cache.get(digest)
        if found is None and self._folder is not None:
            data = self._folder.fetch(digest)
            if data is not None:
                found = _read(data)
                self._cache.put(digest, found)
        return found


def _at(items: Mapping[str, list[Any]] | None, modality: str, at: int) -> Any:
    return items[modality][at] if items is not None and modality in items else None


def _handed(params: Mapping[str, Any] | None) -> dict[str, str]:
    """File names by claimed hash; raises InvalidRequest for what no encode server of ours has answered."""
    if not params:
        return {}
    found: dict[str, str] = {}
    entries = params.get("ec_items")
    for entry in entries if isinstance(entries, list) else [None]:
        claimed, digest = (entry.get("mm_hash"), entry.get("embedding")) if isinstance(entry, dict) else (None, None)
        if not isinstance(claimed, str) or not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise InvalidRequest(
                "`ec_transfer_params` of a local engine have `ec_items`, each with `mm_hash` and `embedding`.",
                param="ec_transfer_params",
            )
        found[claimed] = digest
    return found


def _written(embedding: Embedding) -> bytes:
    fields = {
        "values": embedding.values.float().cpu().numpy(),
        "deep": embedding.deep.float().cpu().numpy(),
        "layout": np.array(embedding.layout, np.int64),
        "seconds": np.array(embedding.seconds, np.float64),
    }
    kind = Batched()
    return EncodedItem(encode_pieces({name: Field(Tensor.of(value), kind) for name, value in fields.items()})).raw


def _read(data: bytes) -> Embedding:
    import torch

    fields = decode_item(data)
    layout = tuple(int(n) for n in _array(fields, "layout"))
    values, deep = (torch.from_numpy(_array(fields, name).copy()) for name in ("values", "deep"))
    return Embedding(values, deep, layout, float(_array(fields, "seconds")))


def _array(fields: Mapping[str, Field], name: str) -> np.ndarray[Any, Any]:
    data = fields[name].data
    assert isinstance(data, Tensor)
    return data.array()
