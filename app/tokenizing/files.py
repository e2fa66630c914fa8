"""A model directory's tokenizer files to what they say of the tokenizer; nothing is built from them here."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from app.errors import StartupError

__all__ = ("TokenizerFile", "TokenizerFiles", "read_json", "read_tokenizer_files")

_NEEDS_CONVERSION = ("tekken.json", "tokenizer.model", "tokenizer.model.v3", "vocab.json", "vocab.txt")


class ModelSection(Struct, frozen=True):
    """The ``model`` section's head; its vocabulary and merges are left unread."""

    type: str | None = None
    byte_fallback: bool | None = None


class TokenizerFile(Struct, frozen=True):
    """The sections of ``tokenizer.json`` that say how a text is cut."""

    model: ModelSection
    normalizer: Any = None
    pre_tokenizer: Any = None
    post_processor: Any = None
    decoder: Any = None


class TokenizerFiles(Struct, frozen=True):
    """``data`` are the bytes of tokenizer.json, ``path`` is where it lies, ``config`` is tokenizer_config.json."""

    path: Path
    data: bytes
    head: TokenizerFile
    config: dict[str, Any]
    special_tokens_map: dict[str, Any]


def _why(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def read_json(path: Path) -> Any:
    """The content of a JSON file, or None where there is none; a broken one is a one-line StartupError."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{path}: {_why(error)}") from error


def _read_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise StartupError(f"{path}: expected an object, found {type(value).__name__}")
    return value


def read_tokenizer_files(directory: Path) -> TokenizerFiles:
    """Read a directory's tokenizer files; what is missing or broken is a one-line StartupError that names the file."""
    path = directory / "tokenizer.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        others = [name for name in _NEEDS_CONVERSION if (directory / name).exists()]
        hint = f" (only {', '.join(others)}: convert it to tokenizer.json first)" if others else ""
        raise StartupError(f"{path}: no such file{hint}") from error
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}") from error
    try:
        head = msgspec.json.decode(data, type=TokenizerFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{path}: {_why(error)}") from error
    return TokenizerFiles(
        path=path,
        data=data,
        head=head,
        config=_read_object(directory / "tokenizer_config.json"),
        special_tokens_map=_read_object(directory / "special_tokens_map.json"),
    )
