"""Processed media to embeddings, and a packed step with media in it to logits: the Qwen-VL families.

The vision tower and the rotary positions are the model's own (``get_image_features``, ``get_rope_index``); here its
inputs are unpacked and its outputs put where the prompt's placeholders are. Qwen3-VL's tower also answers features for
the first layers of the language model ("deepstack"), which ride along.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.errors import InvalidRequest
from app.multimodal.items import Field, Tensor
from app.multimodal.placeholders import embed_mask
from app.multimodal.transforms import CLIP_MEAN, CLIP_STD, PixelTransform
from app.protocol.generate import Placeholder

__all__ = ("Embedding", "MediaInput", "PlacedItem", "VisionModel")

FAMILIES = frozenset({"qwen2_vl", "qwen2_5_vl", "qwen3_vl"})
PIXELS = {"image": "pixel_values", "video": "pixel_values_videos"}
GRIDS = {"image": "image_grid_thw", "video": "video_grid_thw"}
TYPES = {"image": 1, "video": 2}
"""What ``get_rope_index`` calls the tokens of a modality; text is 0."""


class Embedding(Struct, frozen=True):
    """One item as the language model takes it.

    ``values`` are ``[tokens, hidden]``, ``deep`` ``[layers, tokens, hidden]`` (no layers but in Qwen3-VL), both torch
    tensors; ``grid`` is ``(t, h, w)`` in patches; ``seconds`` is how long a step of a video's grid lasts.
    """

    values: Any
    deep: Any
    grid: tuple[int, int, int]
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
    ``positions`` are the rotary positions ``[3, prompt]``, after which text goes on at ``after``. ``key`` names the
    items, so that prompts with equal ids but other media share no keys and values.
    """

    rows: Any
    values: Any
    deep: Any
    positions: Any
    after: int
    key: str


class VisionModel:
    """The vision side of a loaded model.

    Args:
        model: a transformers Qwen-VL model.
        preprocessor: the model's preprocessor_config.json, for uint8 pixels.
    """

    def __init__(self, model: Any, preprocessor: Mapping[str, Any]) -> None:
        self._model = model
        config = model.config
        self._merge = int(config.vision_config.spatial_merge_size)
        self.tokens = {"image": int(config.image_token_id), "video": int(config.video_token_id)}
        """By modality, the id of the positions that take an embedding."""
        self._transform = PixelTransform.read(preprocessor, CLIP_MEAN, CLIP_STD)

    @classmethod
    def of(cls, model: Any, preprocessor: Mapping[str, Any]) -> "VisionModel | None":
        """The vision side of ``model``; None for a text model and for families that are not served."""
        return cls(model, preprocessor) if model.config.model_type in FAMILIES else None

    def embed(self, modality: str, fields: Mapping[str, Field], *, param: str) -> Embedding:
        """Run the vision tower over one item.

        Raises:
            InvalidRequest: the fields are not this model's.
        """
        import torch

        pixels, grid = fields.get(PIXELS[modality]), self.grid(modality, fields, param=param)
        side = self._model.config.vision_config
        width = side.in_channels * side.temporal_patch_size * side.patch_size**2
        data = pixels.data if pixels is not None else None
        if not isinstance(data, Tensor) or data.shape != (grid[0] * grid[1] * grid[2], width):
            raise InvalidRequest(
                f"`{PIXELS[modality]}` of this item is not the {grid} patches of {width} values that its grid says.",
                param=param,
            )
        device, dtype = self._model.device, self._model.dtype
        values = torch.from_numpy(data.array().copy()).to(device)
        if values.dtype == torch.uint8:
            values = self._normalised(values, side.in_channels)
        with torch.inference_mode():
            found = self._model.model.get_image_features(
                values.to(dtype), torch.tensor([grid], device=device), return_dict=True
            )
        rows = found.pooler_output
        deep = [layer[0] if isinstance(layer, list | tuple) else layer for layer in _deepstack(found)]
        whole = rows[0] if isinstance(rows, list | tuple) else rows
        return Embedding(
            whole,
            torch.stack(deep) if deep else whole.new_empty((0, *whole.shape)),
            grid,
            self.seconds(fields),
        )

    def grid(self, modality: str, fields: Mapping[str, Field], *, param: str) -> tuple[int, int, int]:
        """An item's grid ``(t, h, w)``, from its tensors or its metadata."""
        field = fields.get(GRIDS[modality])
        if field is None or not isinstance(field.data, Tensor) or field.data.shape != (3,):
            raise InvalidRequest(f"This item has no `{GRIDS[modality]}` of three numbers.", param=param)
        t, h, w = (int(n) for n in field.data.array())
        if min(t, h, w) < 1 or h % self._merge or w % self._merge:
            raise InvalidRequest(f"`{GRIDS[modality]}` of this item is no grid of this model.", param=param)
        return t, h, w

    @staticmethod
    def seconds(fields: Mapping[str, Field]) -> float:
        """How long a step of a video lasts, in seconds; 1 where nothing says so."""
        field = fields.get("second_per_grid_ts")
        return float(field.data.array()) if field is not None and isinstance(field.data, Tensor) else 1.0

    def place(self, ids: Sequence[int], items: Sequence[PlacedItem], key: str) -> MediaInput:
        """Put the items where the prompt has them.

        Raises:
            InvalidRequest: a placeholder does not hold as many tokens as its item.
        """
        import torch

        rows: list[int] = []
        types = [0] * len(ids)
        items = sorted(items, key=lambda item: item.placeholder.offset)
        for item in items:
            # The wire has no mask: which positions take an embedding is read from the prompt's own ids.
            mask = embed_mask(ids, item.placeholder, frozenset({self.tokens[item.modality]}))
            taken = [item.placeholder.offset + at for at, embeds in enumerate(mask) if embeds]
            if len(taken) != len(item.embedding.values):
                raise InvalidRequest(
                    f"The placeholder has {len(taken)} {item.modality} tokens, the item {len(item.embedding.values)}.",
                    param=item.param,
                )
            rows += taken
            for at in taken:
                types[at] = TYPES[item.modality]
        grids = {
            modality: torch.tensor([item.embedding.grid for item in items if item.modality == modality]).reshape(-1, 3)
            for modality in GRIDS
        }
        seconds = torch.tensor([item.embedding.seconds for item in items if item.modality == "video"])
        positions, _ = self._model.model.get_rope_index(
            torch.tensor([ids]),
            mm_token_type_ids=torch.tensor([types], dtype=torch.int),
            image_grid_thw=grids["image"] if len(grids["image"]) else None,
            video_grid_thw=grids["video"] if len(grids["video"]) else None,
            second_per_grid_ts=seconds if len(seconds) else None,
        )
        return MediaInput(
            rows=torch.tensor(rows, dtype=torch.long),
            values=torch.cat([item.embedding.values for item in items]),
            deep=torch.cat([item.embedding.deep for item in items], 1),
            positions=positions[:, 0].long(),
            after=int(positions.max()) + 1,
            key=key,
        )

    def logits(self, ids: list[int], spans: Sequence[tuple[Any, int, int, int]], rows: list[int], step: Any) -> Any:
        """One packed step.

        Args:
            ids: the new tokens of all sequences, in one row.
            spans: for each sequence ``(MediaInput or None, first position, start in the row, count)``.
            rows: where in the row logits are wanted.
            step: for the attention.

        Returns:
            ``[rows, vocabulary]``.
        """
        import torch

        model, device = self._model, self._model.device
        embeds = model.get_input_embeddings()(torch.tensor([ids], device=device))
        positions = []
        visual = torch.zeros(len(ids), dtype=torch.bool, device=device)
        deep = []
        for media, first, start, count in spans:
            positions.append(_positions(media, first, count))
            if media is None:
                continue
            low, high = (int(n) for n in torch.searchsorted(media.rows, torch.tensor([first, first + count])))
            if low == high:
                continue
            into = (media.rows[low:high] - first + start).to(device)
            embeds[0, into] = media.values[low:high].to(embeds.dtype)
            visual[into] = True
            deep.append(media.deep[:, low:high])
        extra: dict[str, Any] = {}
        if deep and len(deep[0]):
            extra = {"visual_pos_masks": visual[None], "deepstack_visual_embeds": list(torch.cat(deep, 1))}
        hidden = model.model.language_model(
            inputs_embeds=embeds,
            position_ids=torch.cat(positions, 1)[:, None].to(device),
            use_cache=False,
            step=step,
            **extra,
        ).last_hidden_state
        return model.lm_head(hidden[0, rows])

    def _normalised(self, patches: Any, channels: int) -> Any:
        """uint8 patches rescaled and normalised as the model's image processor would have done it."""
        import torch

        transform = self._transform
        out = patches.float().view(len(patches), channels, -1)
        if transform.rescale is not None:
            out = out * transform.rescale
        if transform.normalize:
            mean, std = (
                torch.tensor(values, device=out.device)[None, :, None] for values in (transform.mean, transform.std)
            )
            out = (out - mean) / std
        return out.view(len(patches), -1)


def _deepstack(found: Any) -> Sequence[Any]:
    return getattr(found, "deepstack_features", None) or ()


def _positions(media: MediaInput | None, first: int, count: int) -> Any:
    """Rotary positions ``[3, count]`` of a sequence's tokens from ``first`` on; text behind media counts on from it."""
    import torch

    if media is None:
        return torch.arange(first, first + count).expand(3, count)
    prompt = media.positions.shape[1]
    known = media.positions[:, first : first + count]
    more = count - known.shape[1]
    start = media.after + max(first, prompt) - prompt
    return torch.cat([known, torch.arange(start, start + more).expand(3, more)], 1)
