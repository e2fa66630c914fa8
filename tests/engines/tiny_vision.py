"""A random Qwen2.5-VL of a few thousand weights over the byte tokenizer's vocabulary."""

from typing import Any

IMAGE, VIDEO, START, END = 250, 251, 252, 253
VOCABULARY = 260


def tiny_vision_model(kind: str = "qwen2_5_vl", *, vocab_size: int = VOCABULARY, head: int = 16, **tokens: int) -> Any:
    """Two heads of ``head`` dimensions; ``tokens`` are ids under their names in the config."""
    import torch
    import transformers

    torch.manual_seed(0)
    mrope = [head // 8, 3 * head // 16, 3 * head // 16]
    text = {
        "vocab_size": vocab_size, "hidden_size": 2 * head, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": head, "max_position_embeddings": 4096,
        "initializer_range": 0.6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": mrope},
        "eos_token_id": 256, "bos_token_id": 257, "pad_token_id": None,
    }  # fmt: skip
    vision = {
        "depth": 2,
        "num_heads": 2,
        "in_channels": 3,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "initializer_range": 0.2,
    }
    if kind == "qwen3_vl_moe":
        text |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
    if kind.startswith("qwen3_vl"):
        vision |= {"hidden_size": 2 * head, "intermediate_size": 48, "out_hidden_size": 2 * head, "patch_size": 16,
                       "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1]}  # fmt: skip
    elif kind == "qwen2_vl":
        vision |= {"embed_dim": 2 * head, "hidden_size": 2 * head, "mlp_ratio": 2, "patch_size": 14}
    else:
        vision |= {"hidden_size": 2 * head, "intermediate_size": 48, "out_hidden_size": 2 * head, "patch_size": 14,
                       "window_size": 56,
                       "fullatt_block_indexes": [1], "tokens_per_second": 2}  # fmt: skip
    ids = {"image_token_id": IMAGE, "video_token_id": VIDEO, "vision_start_token_id": START,
           "vision_end_token_id": END, **tokens}  # fmt: skip
    config = transformers.AutoConfig.for_model(kind, text_config=text, vision_config=vision, **ids)
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = 256
    return model
