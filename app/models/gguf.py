"""A GGUF file's metadata to a directory in Hugging Face's layout: tokenizer, template and configs, no weights.

Byte-level BPE vocabularies (``tokenizer.ggml.model = "gpt2"``) are converted; the pre-tokenizer is not in the file, but
its name is, and llama.cpp's table (``llama-vocab.cpp``) says which regular expressions a name means. The format of the
file: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Only its head is read, by 40 lines here, since the
``gguf`` package takes seconds for it.
"""

import hashlib
import struct
import tempfile
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import msgspec

from app.errors import StartupError
from app.tokenizing.raw_bytes import byte_alphabet

__all__ = ("gguf_to_directory", "read_metadata")

_VERSION = 1
"""Of the conversion; a new one makes new directories."""
_SCALARS = dict(enumerate(("<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?", "", "", "<Q", "<q", "<d")))
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {"llama-bpe": _LLAMA3, "llama3": _LLAMA3, "qwen2": _LLAMA3.replace("{1,3}", "")}
_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell"})


def _read(file: BufferedReader, kind: int) -> Any:
    if kind == _STRING:
        (length,) = struct.unpack("<Q", file.read(8))
        return file.read(length).decode()
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in (_STRING, _ARRAY):
            return [_read(file, inner) for _ in range(count)]
        form = f"<{count}{_SCALARS[inner][1]}"
        return list(struct.unpack(form, file.read(struct.calcsize(form))))
    form = _SCALARS[kind]
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def read_metadata(path: Path) -> dict[str, Any]:
    """The key-value pairs of a GGUF file.

    Raises:
        StartupError: no GGUF file, or a cut one.
    """
    try:
        with path.open("rb") as file:
            magic, version, _, count = struct.unpack("<4sIQQ", file.read(24))
            if magic != b"GGUF" or version < 2:
                raise StartupError(f"{path}: not a GGUF file of version 2 or 3")
            metadata = {}
            for _ in range(count):
                key = _read(file, _STRING)
                (kind,) = struct.unpack("<I", file.read(4))
                metadata[key] = _read(file, kind)
            return metadata
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}") from error
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise StartupError(f"{path}: truncated or broken GGUF file") from error


def _byte_level(tokens: list[str]) -> dict[str, int]:
    """Vocabulary; an entry in other characters than the byte alphabet's stands for its UTF-8."""
    alphabet = byte_alphabet()
    spelled = {byte: character for character, byte in alphabet.items()}
    return {
        token if all(c in alphabet for c in token) else "".join(spelled[byte] for byte in token.encode()): index
        for index, token in enumerate(tokens)
    }


def _pre_tokenizer(name: str) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    if name in _SPLITS:
        split = {"type": "Split", "pattern": {"Regex": _SPLITS[name]}, "behavior": "Isolated", "invert": False}
        return {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]}
    whole = byte_level | {"use_regex": True}
    if name in _DIGITS:
        return {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, whole]}
    return whole


def _tokenizer(metadata: Mapping[str, Any]) -> dict[str, Any]:
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata.get("tokenizer.ggml.token_type", ())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": index, "content": token, "special": kind == _CONTROL} | flags
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    vocabulary = _byte_level(tokens) | {entry["content"]: entry["id"] for entry in added}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": metadata.get("tokenizer.ggml.pre") in ("llama-bpe", "llama3", "tekken"),
        "vocab": vocabulary,
        "merges": [merge.split(" ", 1) for merge in metadata["tokenizer.ggml.merges"]],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if metadata.get("tokenizer.ggml.pre") == "qwen2" else None,
        "pre_tokenizer": _pre_tokenizer(metadata.get("tokenizer.ggml.pre", "")),
        "post_processor": _post_processor(metadata) or byte_level,
        "decoder": byte_level | {"add_prefix_space": True, "trim_offsets": True},
        "model": model,
    }


def _post_processor(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    if not metadata.get("tokenizer.ggml.add_bos_token") or bos is None:
        return None
    token = metadata["tokenizer.ggml.tokens"][bos]
    opener = {"SpecialToken": {"id": token, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [opener, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [opener, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [bos], "tokens": [token]}},
    }


def _tokenizer_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    tokens = metadata["tokenizer.ggml.tokens"]
    named = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in named.items()}
    config = {name: tokens[index] for name, index in ids.items() if index is not None}
    config["clean_up_tokenization_spaces"] = False
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if template := metadata.get("tokenizer.chat_template"):
        config["chat_template"] = template
    return config


def _config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kind = metadata["general.architecture"]
    names = {
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.layer_norm_rms_epsilon": "rms_norm_eps",
        "rope.freq_base": "rope_theta",
    }
    config = {ours: metadata[f"{kind}.{key}"] for key, ours in names.items() if f"{kind}.{key}" in metadata}
    config["model_type"] = kind
    config["vocab_size"] = metadata.get(f"{kind}.vocab_size", len(metadata["tokenizer.ggml.tokens"]))
    for ours, key in (("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")):
        if (index := metadata.get(f"tokenizer.ggml.{key}_token_id")) is not None:
            config[ours] = index
    return config


def gguf_to_directory(path: Path, cache: Path) -> Path:
    """A directory made from a GGUF file, under ``cache``; the file itself is linked into it. Made once per file.

    Raises:
        StartupError: the file is broken, its tokenizer is of another kind, or ``cache`` can't be written.
    """
    path = path.resolve()
    try:
        stat = path.stat()
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}") from error
    mark = hashlib.sha256(f"{_VERSION}\0{path}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()).hexdigest()[:16]
    target = cache / "gguf" / f"{path.stem}-{mark}"
    if (target / "config.json").is_file() and (target / path.name).exists():
        return target
    metadata = read_metadata(path)
    if (kind := metadata.get("tokenizer.ggml.model")) != "gpt2" or "tokenizer.ggml.merges" not in metadata:
        raise StartupError(f"{path}: a GGUF tokenizer of kind {kind!r} is not converted; give the model's directory")
    files: dict[str, Any] = {
        "tokenizer.json": _tokenizer(metadata),
        "tokenizer_config.json": _tokenizer_config(metadata),
        "config.json": _config(metadata),
    }
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Several server processes may start at once: each makes its own, and the first to rename wins.
        made = Path(tempfile.mkdtemp(prefix=f".{path.stem}-", dir=target.parent))
        for name, content in files.items():
            (made / name).write_bytes(msgspec.json.encode(content))
        (made / path.name).symlink_to(path)
        try:
            made.rename(target)
        except OSError:
            if not (target / "config.json").is_file():
                raise
            for left in made.iterdir():
                left.unlink()
            made.rmdir()
    except OSError as error:
        raise StartupError(f"{target}: {error.strerror}; set ISTHMUS_CACHE to a folder that can be written") from error
    return target
