"""Which models can be built, and from what: only files in packages are read, nothing of them is imported."""

import base64
import json
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions
from pathlib import Path
from typing import Any

from tests.models import bpe

Spec = dict[str, Any]

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = CL100K.replace("{1,3}", "")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SUFFIX}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


DATA = Path(sys.prefix) / "data"
"""Where ``make`` puts the packages: beside the environment, not in it, since other libraries import what they find."""


def data(package: str, path: str) -> Path:
    for places in ([str(DATA)], sys.path):
        for one in distributions(name=package, path=places):
            found = Path(str(one.locate_file(path)))
            if not found.is_file():
                raise FileNotFoundError(found.name)
            return found
    raise PackageNotFoundError(package)


def trl(name: str) -> str:
    return data("trl", f"trl/chat_templates/{name}.jinja").read_text(encoding="utf-8")


def write(directory: Path, tokenizer: Spec, named: Spec, config: Spec, template: str = "", **others: Spec) -> None:
    """Write a directory; ``others`` are further JSON files by their names without the ending."""
    decoder = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in tokenizer["added_tokens"]}
    files = {
        "tokenizer": tokenizer,
        "tokenizer_config": named | {"added_tokens_decoder": decoder, "clean_up_tokenization_spaces": False},
        "config": {"transformers_version": "5.0.0"} | config,
        **others,
    }
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    if template:
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")


# -- Qwen ------------------------------------------------------------------------------------------------------------

_QWEN_SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
]
_QWEN_PLAIN = [
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
]
_QWEN_NAMED = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "model_max_length": 131072}
_QWEN_VISION = {
    "image_token_id": 151655,
    "video_token_id": 151656,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
}


@cache
def _qwen_vocabulary() -> tuple[dict[str, int], list[list[str]]]:
    ranks = bpe.read_ranks(data("dashscope", "dashscope/resources/qwen.tiktoken"))
    return {bpe.spell(token): rank for token, rank in ranks.items()}, bpe.last_merges(ranks)


def _qwen(template: str, model_type: str, architecture: str, plain: int, **more: Any) -> Callable[[Path], None]:
    def build(directory: Path) -> None:
        tokens = dict(enumerate([*_QWEN_SPECIAL, *_QWEN_PLAIN[:plain]], 151643))
        added = bpe.added(tokens, plain=frozenset(_QWEN_PLAIN))
        write(
            directory,
            bpe.byte_level(*_qwen_vocabulary(), QWEN, added, whole_words=False, nfc=True),
            _QWEN_NAMED,
            {
                "model_type": model_type,
                "architectures": [architecture],
                "vocab_size": 151936,
                "eos_token_id": 151645,
                "max_position_embeddings": 40960,
                **more.get("config", {}),
            },
            trl(template),
            generation_config={"eos_token_id": [151645, 151643], "temperature": 0.6, "top_k": 20, "top_p": 0.95},
            **more.get("files", {}),
        )

    return build


_CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
_QWEN25_PIXELS = {
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "processor_class": "Qwen2_5_VLProcessor",
} | _CLIP
_QWEN3_PIXELS = {
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
    "processor_class": "Qwen3VLProcessor",
}
_VISION_FILES = {
    "qwen2.5-vl": {
        "preprocessor_config": _QWEN25_PIXELS | {"image_processor_type": "Qwen2VLImageProcessor"},
        "video_preprocessor_config": _QWEN25_PIXELS | {"video_processor_type": "Qwen2VLVideoProcessor"},
    },
    "qwen3-vl": {
        "preprocessor_config": _QWEN3_PIXELS
        | {
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "size": {"longest_edge": 16777216, "shortest_edge": 65536},
        },
        "video_preprocessor_config": _QWEN3_PIXELS
        | {
            "video_processor_type": "Qwen3VLVideoProcessor",
            "size": {"longest_edge": 25165824, "shortest_edge": 4096},
            "fps": 2,
            "min_frames": 4,
            "max_frames": 768,
            "do_sample_frames": True,
        },
    },
}


# -- tiktoken vocabularies ---------------------------------------------------------------------------------------------


def _tiktoken(ranks: dict[bytes, int], pattern: str, tokens: dict[int, str], bos: tuple[str, int] | None) -> Spec:
    vocab = {bpe.spell(token): rank for token, rank in ranks.items()}
    return bpe.byte_level(vocab, bpe.all_splits(ranks), pattern, bpe.added(tokens), whole_words=True, bos=bos)


def _llama31(directory: Path) -> None:
    named = [
        "begin_of_text",
        "end_of_text",
        "reserved_special_token_0",
        "reserved_special_token_1",
        "finetune_right_pad_id",
        "reserved_special_token_2",
        "start_header_id",
        "end_header_id",
        "eom_id",
        "eot_id",
        "python_tag",
        *(f"reserved_special_token_{i}" for i in range(3, 248)),
    ]
    tokens = {128000 + i: f"<|{name}|>" for i, name in enumerate(named)}
    ranks = bpe.read_ranks(data("llama-models", "llama_models/llama3/tokenizer.model"))
    ends = [128001, 128008, 128009]
    write(
        directory,
        _tiktoken(ranks, CL100K, tokens, ("<|begin_of_text|>", 128000)),
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "model_max_length": 131072},
        {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": 128256,
            "eos_token_id": ends,
            "max_position_embeddings": 131072,
        },
        trl("llama3_1"),
        generation_config={"eos_token_id": ends, "temperature": 0.6, "top_p": 0.9},
    )


def _gpt_oss(directory: Path) -> None:
    named = {0: "startoftext", 1: "endoftext", 4: "return", 5: "constrain", 7: "channel", 8: "start", 9: "end"}
    named |= {10: "message", 14: "call", 20: "endofprompt"}
    tokens = {199998 + i: f"<|{named.get(i, f'reserved_{199998 + i}')}|>" for i in range(21)}
    ranks = bpe.read_ranks(
        data("litellm", "litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790")
    )
    write(
        directory,
        _tiktoken(ranks, O200K, tokens, None),
        {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>"},
        {
            "model_type": "gpt_oss",
            "architectures": ["GptOssForCausalLM"],
            "vocab_size": 201088,
            "eos_token_id": 200002,
            "max_position_embeddings": 131072,
        },
        trl("gptoss"),
        generation_config={"eos_token_id": [200002, 199999, 200012], "do_sample": True},
    )


_MISTRAL_TEMPLATE = """\
{{- bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}\
{% if tools and loop.last %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}\
{{ '[INST]' + message['content'] + '[/INST]' }}{% elif message['role'] == 'tool' %}\
{{ '[TOOL_RESULTS]' + message['content'] + '[/TOOL_RESULTS]' }}{% elif message.get('tool_calls') %}\
{{ '[TOOL_CALLS]' + (message['tool_calls'] | map(attribute='function') | list | tojson) + eos_token }}{% else %}\
{{ message['content'] + eos_token }}{% endif %}{% endfor %}"""


def _mistral_nemo(directory: Path) -> None:
    read = json.loads(data("mistral-common", "mistral_common/data/tekken_240718.json").read_bytes())
    count, size = read["config"]["default_num_special_tokens"], read["config"]["default_vocab_size"]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in read["vocab"][: size - count]}
    named = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"]
    named += ["[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"]
    named += ["[PREFIX]", "[MIDDLE]", "[SUFFIX]"]
    tokens = {i: named[i] if i < len(named) else f"<SPECIAL_{i}>" for i in range(count)}
    vocab = {c: i for i, c in tokens.items()} | {bpe.spell(token): rank + count for token, rank in ranks.items()}
    write(
        directory,
        bpe.byte_level(
            vocab,
            bpe.all_splits(ranks),
            read["config"]["pattern"],
            bpe.added(tokens),
            whole_words=True,
            bos=("<s>", 1),
        ),
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        {"model_type": "mistral", "vocab_size": size, "eos_token_id": 2, "max_position_embeddings": 131072},
        _MISTRAL_TEMPLATE,
    )


# -- others ------------------------------------------------------------------------------------------------------------


def _deepseek(directory: Path) -> None:
    path = "litellm/litellm_core_utils/tokenizers/deepseek_tokenizer.json"
    write(
        directory,
        json.loads(data("litellm", path).read_bytes()),
        {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>", "model_max_length": 131072},
        {"model_type": "deepseek_v3", "vocab_size": 129280, "eos_token_id": 1, "max_position_embeddings": 163840},
        trl("deepseekv3"),
        generation_config={"eos_token_id": 1, "temperature": 0.6, "top_p": 0.95},
    )


def _mistral_7b(directory: Path) -> None:
    pieces = bpe.read_sentencepiece(
        data("mistral-common", "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3")
    )
    write(
        directory,
        bpe.sentencepiece(pieces, first_only=True),
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        {"model_type": "mistral", "vocab_size": 32768, "eos_token_id": 2, "max_position_embeddings": 32768},
        _MISTRAL_TEMPLATE,
    )


def _phi3(directory: Path) -> None:
    """Phi 3's template and the flags of its added tokens over Mistral's first vocabulary (Llama 2's is much alike)."""
    pieces = bpe.read_sentencepiece(data("mistral-common", "mistral_common/data/tokenizer.model.v1"))
    tokenizer = bpe.sentencepiece(pieces, first_only=False)
    names = ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]
    tokenizer["added_tokens"] += bpe.added(dict(enumerate(names, len(pieces))), rstrip=True)
    write(
        directory,
        tokenizer,
        {"bos_token": "<s>", "eos_token": "<|endoftext|>", "unk_token": "<unk>"},
        {"model_type": "phi3", "vocab_size": 32064, "eos_token_id": 32000, "max_position_embeddings": 4096},
        trl("phi3"),
    )


BUILT: dict[str, Callable[[Path], None]] = {
    "qwen3": _qwen("qwen3", "qwen3", "Qwen3ForCausalLM", 12),
    "qwen2.5": _qwen("qwen2_5", "qwen2", "Qwen2ForCausalLM", 8),
    "qwen2.5-vl": _qwen(
        "qwen2_5_vl",
        "qwen2_5_vl",
        "Qwen2_5_VLForConditionalGeneration",
        8,
        config=_QWEN_VISION,
        files=_VISION_FILES["qwen2.5-vl"],
    ),
    "qwen3-vl": _qwen(
        "qwen3_vl",
        "qwen3_vl",
        "Qwen3VLForConditionalGeneration",
        12,
        config=_QWEN_VISION,
        files=_VISION_FILES["qwen3-vl"],
    ),
    "llama3.1": _llama31,
    "gpt-oss": _gpt_oss,
    "mistral-nemo": _mistral_nemo,
    "deepseek-v3": _deepseek,
    "mistral-7b": _mistral_7b,
    "phi-3": _phi3,
}
"""Name to what writes the model's files into an empty directory."""
