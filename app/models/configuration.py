"""A model's config.json and generation_config.json to what the server needs of them."""

from collections.abc import Mapping
from typing import Any

__all__ = ("eos_token_ids", "generation_defaults", "max_model_len", "model_vocab_size")

_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "max_seq_length",
    "seq_length",
    "seq_len",
    "model_max_length",
    "max_target_positions",
)
_SAMPLING_KEYS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_new_tokens",
    "skip_special_tokens",
)
_UNLIMITED = 10**9
"""A tokenizer's model_max_length of this and more (transformers writes 10**30) says nothing."""


def _sections(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The config and the one of its text part, which multimodal models nest."""
    nested = [config.get(key) for key in ("text_config", "llm_config", "language_config", "thinker_config")]
    return [config, *(section for section in nested if isinstance(section, Mapping))]


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def max_model_len(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int | None:
    """Positions that the model has, in tokens: the least of those that its config names, YaRN's extension included."""
    for section in _sections(config):
        lengths = [n for key in _LENGTH_KEYS if (n := _integer(section.get(key))) and n > 0]
        if lengths:
            return _extended(min(lengths), section)
    limit = _integer(tokenizer_config.get("model_max_length"))
    return limit if limit and 0 < limit < _UNLIMITED else None


def _extended(length: int, section: Mapping[str, Any]) -> int:
    """``length`` with the rope scaling that is not in it yet (as vLLM derives it)."""
    scaling = section.get("rope_scaling") or section.get("rope_parameters")
    if not isinstance(scaling, Mapping):
        return length
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor")
    if not isinstance(factor, (int, float)) or kind in (None, "default", "su", "longrope", "llama3", "mrope"):
        return length
    original = _integer(scaling.get("original_max_position_embeddings")) if kind == "yarn" else None
    return int((original or length) * factor)


def model_vocab_size(config: Mapping[str, Any]) -> int:
    """Rows of the embedding, which are often more than the tokenizer has tokens; 0 where the config doesn't say."""
    return next((n for section in _sections(config) if (n := _integer(section.get("vocab_size")))), 0)


def generation_defaults(generation_config: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling parameters of generation_config.json under its own names; nulls are left out."""
    return {key: value for key in _SAMPLING_KEYS if (value := generation_config.get(key)) is not None}


def _ids(value: Any) -> list[int]:
    return [n for item in (value if isinstance(value, list) else [value]) if (n := _integer(item)) is not None]


def eos_token_ids(
    tokenizer_eos: int | None, generation_config: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[int, ...]:
    """Ids that end an output, primary first: the tokenizer's, then generation_config's, or else the config's."""
    ids = [] if tokenizer_eos is None else [tokenizer_eos]
    ids += _ids(generation_config.get("eos_token_id")) or next(
        (found for section in _sections(config) if (found := _ids(section.get("eos_token_id")))), []
    )
    return tuple(dict.fromkeys(ids))
