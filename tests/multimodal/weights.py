"""A directory of a tiny random Qwen2.5-VL with the real family's tokenizer, template and processor settings."""

import shutil
from pathlib import Path

from tests.engines.tiny_vision import tiny_vision_model
from tests.models import model_directory

TOKENS = {
    "image_token_id": 151655,
    "video_token_id": 151656,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
}


def tiny_vision_directory(directory: Path, *, head: int = 16) -> Path:
    source = model_directory("qwen2.5-vl")
    for path in source.iterdir():
        if path.name not in ("config.json", "generation_config.json"):
            shutil.copy(path, directory / path.name)
    model = tiny_vision_model(vocab_size=151936, head=head, **TOKENS)
    model.config.text_config.eos_token_id = model.generation_config.eos_token_id = 151645
    model.config.text_config.bos_token_id = model.generation_config.bos_token_id = 151643
    model.save_pretrained(directory)
    return directory
