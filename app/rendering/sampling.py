"""Sampling as asked for to the sampling parameters of a generate request.

Values come from the request, else from the model's generation config, else from constants (vLLM 0.33's order).
"""

from collections.abc import Mapping
from typing import Any

from app.rendering.request import SamplingRequest

__all__ = ("check_sampling",)


def check_sampling(
    request: SamplingRequest, defaults: Mapping[str, Any], max_model_len: int, *, stream: bool = False
) -> None:
    """Refuse values outside their ranges, before anything is rendered."""
