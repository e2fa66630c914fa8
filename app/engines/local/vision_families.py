"""A loaded model's type to its vision side."""

from collections.abc import Mapping
from typing import Any

from app.engines.local.vision import VisionModel
from app.engines.local.vision_qwen import QwenVision

__all__ = ("vision_of",)

FAMILIES: Mapping[str, type[VisionModel]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"), QwenVision),
    **dict.fromkeys(("llava", "llava_next", "mistral3", "gemma3", "idefics3", "smolvlm"), VisionModel),
}


def vision_of(model: Any, preprocessor: Mapping[str, Any]) -> VisionModel | None:
    """The vision side of a transformers model; None for a text model and for families that are not served.

    ``preprocessor`` is the model's preprocessor_config.json.
    """
    family = FAMILIES.get(model.config.model_type)
    return family(model, preprocessor) if family is not None else None
