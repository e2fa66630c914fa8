"""The vision side of the Qwen-VL families: grids of patches, rotary positions in three axes, deep features.

The positions are the model's own (``get_rope_index``). Qwen3-VL's tower also answers features for the first layers of
the language model ("deepstack"), which ride along.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.engines.local.vision import Embedding, PlacedItem, VisionModel
from app.errors import InvalidRequest
from app.multimodal.items import Field, Tensor

__all__ = ("QwenVision",)

PIXELS = {"image": "pixel_values", "video": "pixel_values_videos"}
GRIDS = {"image": "image_grid_thw", "video": "video_grid_thw"}
TYPES = {"image": 1, "video": 2}
"""What ``get_rope_index`` calls the tokens of a modality; text is 0."""


class QwenVision(VisionModel):
    """Qwen2-VL, Qwen2.5-VL, Qwen3-VL and its mixtures of experts; takes videos too."""

    axes = 3

    def __init__(self, model: Any, preprocessor: Mapping[str, Any]) -> None:
        super().__init__(model, preprocessor)
        self._merge = int(model.config.vision_config.spatial_merge_size)
        self.tokens["video"] = int(model.config.video_token_id)

    def embed(self, modality: str, fields: Mapping[str, Field], *, param: str) -> Embedding:
        """Run the vision tower over one item; see :meth:`VisionModel.embed`."""
        import torch

        pixels, grid = fields.get(PIXELS[modality]), self.layout(modality, fields, param=param)
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
            # A patch is its channels, each with its pixels: as an image of one column.
            values = self._normalised(values.view(len(values), side.in_channels, -1, 1)).flatten(1)
        with torch.inference_mode():
            found = self._model.model.get_image_features(
                values.to(dtype), torch.tensor([grid], device=device), return_dict=True
            )
        rows = found.pooler_output
        layers = getattr(found, "deepstack_features", None) or ()
        deep = [layer[0] if isinstance(layer, list | tuple) else layer for layer in layers]
        whole = rows[0] if isinstance(rows, list | tuple) else rows
        stacked = torch.stack(deep) if deep else whole.new_empty((0, *whole.shape))
        return Embedding(whole, stacked, grid, self._seconds(fields))

    def layout(self, modality: str, fields: Mapping[str, Field], *, param: str) -> tuple[int, ...]:
        """An item's grid ``(t, h, w)``, from its tensors or its metadata."""
        field = fields.get(GRIDS[modality])
        if field is None or not isinstance(field.data, Tensor) or field.data.shape != (3,):
            raise InvalidRequest(f"This item has no `{GRIDS[modality]}` of three numbers.", param=param)
        t, h, w = (int(n) for n in field.data.array())
        if min(t, h, w) < 1 or h % self._merge or w % self._merge:
            raise InvalidRequest(f"`{GRIDS[modality]}` of this item is no grid of this model.", param=param)
        return t, h, w

    @staticmethod
    def _seconds(fields: Mapping[str, Field]) -> float:
        """How long a step of a video lasts, in seconds; 1 where nothing says so."""
        field = fields.get("second_per_grid_ts")
        return float(field.data.array()) if field is not None and isinstance(field.data, Tensor) else 1.0

    def _rotary(self, ids: Sequence[int], items: Sequence[PlacedItem], taken: Sequence[Sequence[int]]) -> Any:
        import torch

        types = [0] * len(ids)
        for item, rows in zip(items, taken, strict=True):
            for at in rows:
                types[at] = TYPES[item.modality]
        grids = {
            modality: torch.tensor([item.embedding.layout for item in items if item.modality == modality])
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
        return positions[:, 0].long()

    def _position_ids(self, positions: Any) -> Any:
        return positions[:, None]

    def _extra(self, visual: Any, deep: Sequence[Any]) -> dict[str, Any]:
        import torch

        if not deep or not len(deep[0]):
            return {}
        return {"visual_pos_masks": visual[None], "deepstack_visual_embeds": list(torch.cat(list(deep), 1))}
