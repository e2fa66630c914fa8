"""Recorded requests to vLLM 0.33's render endpoints, answered by our readers and renderers in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.models import ServedModel
from tests.models import shared_models
from tests.parity.replay import disagreements, kit, rows

MODELS = {
    "deepseek-v3": ("deepseek_v3", "none"),
    "deepseek-v3.1": ("deepseek_v31", "deepseek_v3"),
    "glm-4.5-surrogate": ("glm45", "glm45"),
    "glm-4.6-surrogate": ("glm47", "glm45"),
    "gpt-oss": ("openai", "openai_gptoss"),
    "kimi-k2-surrogate": ("kimi_k2", "kimi_k2"),
    "llama3.1": ("llama3_json", "none"),
    "mistral-nemo-hf": ("mistral", "none"),
    "qwen2.5": ("hermes", "none"),
    "qwen3": ("hermes", "qwen3"),
}
"""Tool and reasoning format that each was recorded with."""


@pytest.mark.shared
@pytest.mark.parametrize("name", MODELS)
def test_every_recorded_row_agrees(name: str, served_model: Callable[..., ServedModel]) -> None:
    if name not in shared_models():
        pytest.skip("no shared folder")
    shared: Path = shared_models()[name].parent.parent
    tool_format, reasoning_format = MODELS[name]
    model = served_model(
        name,
        source=str(shared_models()[name]),
        settings={"now": "2026-11-29"},
        tool_format=tool_format,
        reasoning_format=reasoning_format,
        max_model_len=32768,
        special_tokens_in_text="control",
    )
    recorded = shared / "parity" / "render" / f"{name}.jsonl"
    assert rows(recorded)
    assert list(disagreements(recorded, model, kit(shared), structural=True)) == []
