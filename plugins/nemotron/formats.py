"""Nemotron 3: Qwen 3's thinking."""

import msgspec

from plugins.qwen.formats import QWEN3

__all__ = ("NEMOTRON_V3",)

NEMOTRON_V3 = msgspec.structs.replace(QWEN3, name="nemotron_v3", signature=(), switches=("enable_thinking",))
