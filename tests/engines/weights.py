"""Model directories with weights: a tiny random one over a built tokenizer, and the demo as safetensors."""

import json
import shutil
from pathlib import Path

from tests.models import model_directory


def tiny_directory(directory: Path) -> Path:
    """Qwen3's tokenizer and template over random weights of a few hundred kilobytes' hidden size 16."""
    import torch
    import transformers

    source = model_directory("qwen3")
    for path in source.iterdir():
        if path.name not in ("config.json", "generation_config.json"):
            shutil.copy(path, directory / path.name)
    size = json.loads((source / "config.json").read_text())["vocab_size"]
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=size, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=512, eos_token_id=151645, initializer_range=2.0,
        tie_word_embeddings=True,
    )  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(directory)
    return directory


def demo_directory(directory: Path) -> Path:
    """SmolLM2-135M-Instruct in float32 safetensors, with the tokenizer and template that we make of the GGUF."""
    import torch
    import transformers

    from app.engines.local.load import weights_path
    from app.models.source import resolve_source

    for path in resolve_source("demo").iterdir():
        if path.suffix != ".gguf" and path.name != "config.json":
            shutil.copy(path, directory / path.name)
    folder, gguf = weights_path("demo")
    read = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=gguf, dtype=torch.float32)
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    # A model read from GGUF refuses to be saved, whatever its weights are now.
    model = transformers.AutoModelForCausalLM.from_config(read.config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config.eos_token_id = 2
    model.save_pretrained(directory)
    return directory
