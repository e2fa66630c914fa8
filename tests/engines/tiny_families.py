"""Tiny random models of the families whose images take positions as text does, over the byte tokenizer's vocabulary."""

from typing import Any

from tests.engines.tiny_vision import VOCABULARY

IMAGE, START, END = 250, 251, 252
TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096, "initializer_range": 0.6,
    "eos_token_id": 256, "bos_token_id": 257, "pad_token_id": None,
}  # fmt: skip
TOWER = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 56,
    "patch_size": 14, "initializer_range": 0.2,
}  # fmt: skip
LLAMA, MISTRAL = {"model_type": "llama", **TEXT}, {"model_type": "mistral", "sliding_window": None, **TEXT}
CLIP = {"model_type": "clip_vision_model", **TOWER}
PIXTRAL = {"model_type": "pixtral", **TOWER, "image_size": 112, "head_dim": 16}
PINPOINTS = [[56, 112], [112, 56], [112, 112]]
CONFIGS: dict[str, dict[str, Any]] = {
    "llava": {"text_config": LLAMA, "vision_config": CLIP, "image_seq_length": 16},
    "llava_next": {"text_config": LLAMA, "vision_config": CLIP, "image_grid_pinpoints": PINPOINTS},
    "pixtral": {"text_config": MISTRAL, "vision_config": PIXTRAL, "vision_feature_layer": -1,
                "vision_feature_select_strategy": "full"},
    "mistral3": {"text_config": MISTRAL, "vision_config": PIXTRAL, "vision_feature_layer": -1, "spatial_merge_size": 2},
    "gemma3": {
        "text_config": {**TEXT, "sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"],
                        "query_pre_attn_scalar": 8},
        "vision_config": {"model_type": "siglip_vision_model", **TOWER},
        "mm_tokens_per_image": 16, "boi_token_index": START, "eoi_token_index": END, "tie_word_embeddings": False,
    },
    "idefics3": {"text_config": LLAMA, "vision_config": TOWER, "scale_factor": 2},
    "smolvlm": {"text_config": LLAMA, "vision_config": TOWER, "scale_factor": 2},
}  # fmt: skip


def tiny_family_model(name: str) -> Any:
    import torch
    import transformers

    torch.manual_seed(0)
    kind = "llava" if name == "pixtral" else name  # Pixtral's checkpoints are of LLaVA's class
    config = transformers.AutoConfig.for_model(kind, image_token_id=IMAGE, **CONFIGS[name])
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()
    for parameter in model.model.parameters():
        if parameter.ndim > 1 and float(parameter.detach().abs().max()) == 0.0:
            torch.nn.init.normal_(parameter, std=3.0)  # Gemma's projection begins at zero: all images would be alike
    model.generation_config.eos_token_id = 256
    return model
