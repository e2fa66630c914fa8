"""Token counts, and when a stream reports them."""

from typing import Any

from msgspec import Struct

__all__ = ("GenerateUsage", "StreamOptions")


class GenerateUsage(Struct, kw_only=True):
    """Counts in tokens; ``prompt_tokens_details`` may carry ``cached_tokens``."""

    prompt_tokens: int = 0
    total_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: dict[str, Any] | None = None
    completion_tokens_details: dict[str, Any] | None = None


class StreamOptions(Struct, kw_only=True):
    """``include_usage``: one last event with totals; ``continuous_usage_stats``: counts in every event."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False
