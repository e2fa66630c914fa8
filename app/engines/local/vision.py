"""Processed media to embeddings, and a packed step with media in it to logits.

The vision tower is the model's own (``get_image_features``): the wire's fields become its arguments, which have the
same names, and what it answers is put where the prompt's placeholders are. Here are the families whose images take
positions as text does; :mod:`app.engines.local.vision_qwen` has the others.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.errors import InvalidRequest
from app.multimodal.items import Batched, Field, Tensor
from app.multimodal.placeholders import embed_mask
from app.multimodal.transforms import CLIP_MEAN, CLIP_STD, PixelTransform
from app.protocol.generate import Placeholder

__all__ = ("Embedding", "MediaInput", "PlacedItem", "VisionModel")

Refused = (RuntimeError, ValueError, TypeError, IndexError)
"""What torch and transformers raise on tensors that are of no use to a model."""


class Embedding(Struct, frozen=True):
    """One item as the language model takes it.

    ``values`` are ``[tokens, hidden]``, ``deep`` ``[layers, tokens, hidden]`` (no layers but in Qwen3-VL), both torch
    tensors; ``layout`` are the numbers of the item's light fields (Qwen's grid ``(t, h, w)`` in patches); ``seconds``
    is how long a step of a video's grid lasts.
    """

    values: Any
    deep: Any
    layout: tuple[int, ...]
    seconds: float = 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        return int(self.values.nbytes + self.deep.nbytes)


class PlacedItem(Struct, frozen=True):
    """An item's embedding and where the prompt has it."""

    modality: str
    embedding: Embedding
    placeholder: Placeholder
    param: str


class MediaInput(Struct, frozen=True):
    """The media of one prompt.

    ``rows`` are the prompt positions that take an embedding, ascending, and ``values`` and ``deep`` what they take;
    ``positions`` are the rotary positions ``[axes, prompt]``, after which text goes on at ``after``. ``key`` names the
    items, so that prompts with equal ids but other media share no keys and values. ``blocks`` are the ``[start, end)``
    of tokens that attend to each other whichever comes first, ascending.
    """

    rows: Any
    values: Any
    deep: Any
    positions: Any
    after: int
    key: str
    blocks: tuple[tuple[int, int], ...] = ()

    def uncut(self, first: int, count: int) -> int:
        """``count`` tokens from ``first`` on, or so many fewer, else more, that no block is computed in parts."""
        for start, end in self.blocks:
            if start < first + count < end:
                return start - first if start > first else end - first
        return count

    def block_ids(self, length: int, device: Any) -> Any:
        """The block of each of the first ``length`` positions, -1 where it is in none."""
        import torch

        found = torch.full((length,), -1, device=device)
        for at, (start, end) in enumerate(self.blocks):
            found[start:end] = at
        return found


class VisionModel:
    """The vision side of a loaded model: LLaVA 1.5 and NeXT, Pixtral, Mistral 3, Gemma 3, Idefics3 and SmolVLM.

    Args:
        model: a transformers model of images and text.
        preprocessor: the model's preprocessor_config.json.
    """

    axes = 1
    """Rotary positions of a token."""

    def __init__(self, model: Any, preprocessor: Mapping[str, Any]) -> None:
        self._model = model
        self._text = model.get_decoder()
        self._transform = PixelTransform.read(preprocessor, CLIP_MEAN, CLIP_STD)
        config = model.config
        self.tokens = {"image": int(config.image_token_id)}
        """By modality, the id of the positions that take an embedding."""
        self._arguments = frozenset(inspect.signature(model.model.get_image_features).parameters)
        self._sized = config.vision_config.model_type == "pixtral"
        self._batched = config.model_type in ("idefics3", "smolvlm")
        self._mutual = config.model_type == "gemma3"

    def embed(self, modality: str, fields: Mapping[str, Field], *, param: str) -> Embedding:
        """Run the vision tower over one item.

        Raises:
            InvalidRequest: the fields are not this model's.
        """
        import torch

        given = self._inputs(fields, param)
        try:
            with torch.inference_mode():
                found = self._model.model.get_image_features(**given, return_dict=True).pooler_output
        except Refused as error:
            raise InvalidRequest(f"The model refuses the tensors of this item: {_line(error)}.", param=param) from None
        values = torch.cat([rows.reshape(-1, rows.shape[-1]) for rows in found])
        layout = self.layout(modality, fields, param=param)
        return Embedding(values, values.new_empty((0, *values.shape)), layout)

    def layout(self, modality: str, fields: Mapping[str, Field], *, param: str) -> tuple[int, ...]:
        """The numbers in an item's light fields, from its tensors or its metadata."""
        light = [
            fields[name].data
            for name in sorted(fields)
            if isinstance(fields[name].kind, Batched) and fields[name].kind.keep_on_cpu
        ]
        return tuple(int(n) for data in light if isinstance(data, Tensor) for n in data.array().reshape(-1))

    def _inputs(self, fields: Mapping[str, Field], param: str) -> dict[str, Any]:
        """The arguments of ``get_image_features`` for one item, as a batch of one."""
        import torch

        given: dict[str, Any] = {}
        for name in self._arguments & fields.keys():
            data = fields[name].data
            if not isinstance(data, Tensor):
                raise InvalidRequest(f"`{name}` of this item is no tensor.", param=param)
            value = torch.from_numpy(data.array().copy()).to(self._model.device)
            if name == "pixel_values" and value.dtype == torch.uint8:
                value = self._normalised(value)
            if value.is_floating_point():
                value = value.to(self._model.dtype)
            batch_of_one = isinstance(fields[name].kind, Batched) or self._batched
            given[name] = value[None] if batch_of_one else value
        pixels = given.get("pixel_values")
        if pixels is None or not pixels.is_floating_point() or pixels.ndim < 4:
            raise InvalidRequest("This item has no `pixel_values` of pixels.", param=param)
        if self._sized:
            given["image_sizes"] = torch.tensor([pixels.shape[-2:]], device=pixels.device)
        return given

    def _normalised(self, pixels: Any) -> Any:
        """uint8 pixels ``[…, 3, height, width]`` rescaled and normalised as the image processor would have done it."""
        import torch

        transform, out = self._transform, pixels.float()
        if transform.rescale is not None:
            out = out * transform.rescale
        if transform.normalize:
            mean, std = (
                torch.tensor(values, device=out.device)[:, None, None] for values in (transform.mean, transform.std)
            )
            out = (out - mean) / std
        return out

    def place(self, ids: Sequence[int], items: Sequence[PlacedItem], key: str) -> MediaInput:
        """Put the items where the prompt has them.

        Raises:
            InvalidRequest: a placeholder does not hold as many tokens as its item.
        """
        import torch

        items = sorted(items, key=lambda item: item.placeholder.offset)
        taken = [self._taken(ids, item) for item in items]
        positions = self._rotary(ids, items, taken)
        device = self._model.device  # what came from the transfer folder is not there yet
        return MediaInput(
            rows=torch.tensor([at for rows in taken for at in rows], dtype=torch.long),
            values=torch.cat([item.embedding.values.to(device) for item in items]),
            deep=torch.cat([item.embedding.deep.to(device) for item in items], 1),
            positions=positions,
            after=int(positions.max()) + 1,
            key=key,
            blocks=tuple((rows[0], rows[-1] + 1) for rows in taken) if self._mutual else (),
        )

    def _taken(self, ids: Sequence[int], item: PlacedItem) -> list[int]:
        """The positions that take the item's embedding."""
        # The wire has no mask: which positions take an embedding is read from the prompt's own ids.
        mask = embed_mask(ids, item.placeholder, frozenset({self.tokens[item.modality]}))
        taken = [item.placeholder.offset + at for at, embeds in enumerate(mask) if embeds]
        if len(taken) != len(item.embedding.values):
            raise InvalidRequest(
                f"The placeholder has {len(taken)} {item.modality} tokens, the item {len(item.embedding.values)}.",
                param=item.param,
            )
        return taken

    def _rotary(self, ids: Sequence[int], items: Sequence[PlacedItem], taken: Sequence[Sequence[int]]) -> Any:
        """The prompt's positions ``[axes, prompt]``."""
        import torch

        return torch.arange(len(ids))[None]

    def logits(self, ids: list[int], spans: Sequence[tuple[Any, int, int, int]], rows: list[int], step: Any) -> Any:
        """One packed step.

        Args:
            ids: the new tokens of all sequences, in one row.
            spans: for each sequence ``(MediaInput or None, first position, start in the row, count)``.
            rows: where in the row logits are wanted.
            step: for the attention, a range for each sequence.

        Returns:
            ``[rows, vocabulary]``.
        """
        import torch

        device = self._model.device
        embeds = self._model.get_input_embeddings()(torch.tensor([ids], device=device))
        positions = []
        visual = torch.zeros(len(ids), dtype=torch.bool, device=device)
        deep = []
        for (media, first, start, count), part in zip(spans, step, strict=True):
            positions.append(_positions(media, first, count, self.axes))
            if media is None:
                continue
            low, high = (int(n) for n in torch.searchsorted(media.rows, torch.tensor([first, first + count])))
            if low == high:
                continue
            into = (media.rows[low:high] - first + start).to(device)
            embeds[0, into] = media.values[low:high].to(embeds.dtype)
            visual[into] = True
            deep.append(media.deep[:, low:high])
            if media.blocks:
                part.blocks = media.block_ids(first + count, device)
        hidden = self._text(
            inputs_embeds=embeds,
            position_ids=self._position_ids(torch.cat(positions, 1).to(device)),
            use_cache=False,
            step=step,
            **self._extra(visual, deep),
        ).last_hidden_state
        return self._model.get_output_embeddings()(hidden[0, rows])

    def _position_ids(self, positions: Any) -> Any:
        """Positions ``[axes, tokens]`` as the language model takes them."""
        return positions

    def _extra(self, visual: Any, deep: Sequence[Any]) -> dict[str, Any]:
        """More arguments of the language model: ``visual`` marks the tokens of media, ``deep`` are their features."""
        return {}


def _positions(media: MediaInput | None, first: int, count: int, axes: int) -> Any:
    """Rotary positions ``[axes, count]`` of a sequence's tokens from ``first``; text behind media counts on from it."""
    import torch

    if media is None:
        return torch.arange(first, first + count).expand(axes, count)
    prompt = media.positions.shape[1]
    known = media.positions[:, first : first + count]
    more = count - known.shape[1]
    start = media.after + max(first, prompt) - prompt
    return torch.cat([known, torch.arange(start, start + more).expand(axes, more)], 1)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
